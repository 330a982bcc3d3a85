"""The CPU's own forward pass: what transformers computes, bit for bit nearly; and 8-bit weights."""

from __future__ import annotations

import pytest
import torch

from dense import check_against_dense, pilot
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all
from pasta.engine.cpu import CpuEngine
from pasta.engine.fusing import FAMILIES
from pasta.engine.int8 import Int8Linear
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.models.tags import add_tags
from support import PilotedEngine, byte_tokenizer, tiny_model

PROMPT = "Compare cats and dogs."


class PilotedCpuEngine(PilotedEngine, CpuEngine):
    """The pilot over the CPU's forward pass."""


def engines(family: str, **options: bool) -> PilotedCpuEngine:
    model, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return PilotedCpuEngine(model, vocabulary, name=f"tiny-{family}", **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_parallel_equals_dense(family: str) -> None:
    engine = engines(family)
    pilot(engine, 2, 12)
    check_against_dense(engine, [generate(engine, PROMPT)], "predicted")


def test_several_requests_in_one_batch_equal_dense() -> None:
    engine = engines("llama")
    pilot(engine, 1, 7)
    check_against_dense(engine, generate_all(engine, [PROMPT, "Hello!", "Why?"], positions="fixed:40"), "fixed:40")
    assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize("family", FAMILIES)
def test_sequential_decoding_is_transformers_own(family: str) -> None:
    results = [
        generate(kind(tiny_model(family), Vocabulary(byte_tokenizer())), PROMPT, max_tokens=40)
        for kind in (NativeEngine, CpuEngine)
    ]
    assert results[0].threads[0].token_ids == results[1].threads[0].token_ids


def test_other_families_are_left_to_transformers() -> None:
    models = {family: tiny_model(family) for family in ("llama", "gemma", "phi", "smollm3")}
    models["rounded"] = tiny_model("llama").to(torch.float16)
    ways = {name: type(make_engine(model, Vocabulary(byte_tokenizer()))) for name, model in models.items()}
    assert {name for name, way in ways.items() if way is CpuEngine} == {"llama"}


def test_an_8_bit_layer_is_near_and_its_rows_are_independent() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(96, 64, generator=generator), torch.randn(96, generator=generator)
    x = torch.randn(9, 64, generator=generator) * torch.logspace(-3, 3, 9)[:, None]
    layer, exact = Int8Linear(weight, bias), x @ weight.T + bias
    out = layer(x)
    assert ((out - exact).norm(dim=1) / (exact - bias).norm(dim=1) < 0.02).all(), "each row to its own scale"
    for row in range(9):
        assert torch.equal(layer(x[row : row + 1])[0], out[row]), "the same alone as in company"
    assert torch.equal(layer(torch.zeros(1, 64))[0], bias)


@pytest.mark.parametrize("tied", [False, True])
def test_8_bit_weights_are_the_only_ones(tied: bool) -> None:
    """But for the embedding, which the head may share."""
    model = tiny_model("llama")
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    inner, head = model.model, model.lm_head
    projections = [each for each in inner.modules() if isinstance(each, torch.nn.Linear)]
    read = inner.embed_tokens.weight.clone()
    engine = CpuEngine(model, Vocabulary(byte_tokenizer()), int8=True)
    assert projections and not any(each.weight.numel() for each in projections)
    assert bool(head.weight.numel()) is tied and inner.embed_tokens.weight.equal(read)
    assert generate(engine, PROMPT, max_tokens=4).tokens_total


def test_8_bit_decoding_does_not_depend_on_the_company() -> None:
    model = tiny_model("llama")
    engine = CpuEngine(model, Vocabulary(byte_tokenizer()), int8=True)
    alone = generate(engine, PROMPT, max_tokens=30)
    together = generate_all(engine, ["Hello!", PROMPT, "Why?"], max_tokens=30)[1]
    assert alone.threads[0].token_ids == together.threads[0].token_ids
