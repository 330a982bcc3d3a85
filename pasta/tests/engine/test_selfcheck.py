"""The self-check: models pass it, mistakes do not, and what passed is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine import checked, selfcheck
from pasta.engine.attention import Group
from pasta.engine.load import load_engine
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.request import Request
from pasta.engine.selfcheck import self_check
from pasta.errors import UnsupportedModel
from support import FAMILIES, WINDOWED, byte_tokenizer, tiny_model


def engine_of(family: str, dtype: torch.dtype = torch.float32) -> NativeEngine:
    return make_engine(tiny_model(family).to(dtype), Vocabulary(byte_tokenizer()), name=family)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "checks"


@pytest.mark.parametrize("family", ["llama", "gemma", "gemma3", "gpt_oss"])
def test_a_model_agrees_and_is_left_as_it_was(family: str) -> None:
    assert set(FAMILIES) | set(WINDOWED) >= {family}
    engine = engine_of(family)
    before = generate(engine, "Hi", max_tokens=20).text
    window = getattr(engine.model.config.get_text_config(), "sliding_window", None)
    agreement = self_check(engine)
    assert agreement.good and max(agreement.plain, agreement.forked) < 1e-4
    assert engine.pool.free_slots == engine.pool.slots
    assert getattr(engine.model.config.get_text_config(), "sliding_window", None) == window
    assert generate(engine, "Hi", max_tokens=20).text == before


def test_a_model_may_name_several_tokens_that_end_an_answer(tmp_path: Path) -> None:
    """As Llama 3.2 and Gemma 3 do in config.json, for those who talk to them."""
    model = tiny_model()
    model.config.eos_token_id = model.generation_config.eos_token_id = [2, 65]
    model.save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["eos_token_id"] == [2, 65]
    engine = load_engine(str(tmp_path / "model"))
    assert engine.vocabulary.eos >= {2, 65}


def sees_siblings(self: Request, start: int, end: int) -> np.ndarray:
    return np.arange(end) <= np.arange(start, end)[:, None]


def sees_far(self: Group, near: Any) -> Group:
    return self


MISTAKES = [("llama", Request, "visible", sees_siblings), ("gemma3", Group, "within", sees_far)]


@pytest.mark.parametrize("family,kind,method,wrong", MISTAKES, ids=["siblings", "window"])
def test_a_mistake_is_refused_by_name_with_the_difference(
    family: str, kind: Any, method: str, wrong: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model(family).save_pretrained(tmp_path / family)
    byte_tokenizer().save_pretrained(tmp_path / family)
    monkeypatch.setattr(kind, method, wrong)
    says = rf"^{family} \(\w+\) cannot be run: on [a-z ]* text it differs from the model's own .* by \d[^\n]*$"
    for _ in range(2):  # what failed is not kept
        with pytest.raises(UnsupportedModel, match=says):
            load_engine(str(tmp_path / family), device="cpu")
    assert not list(cache.glob("*"))
    load_engine(str(tmp_path / family), device="cpu", check=False)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")  # of a processor without bf16
def test_a_mistake_shows_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("llama", torch.bfloat16)
    assert self_check(engine).good
    monkeypatch.setattr(Request, "visible", sees_siblings)
    assert not self_check(engine).good


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_what_16_bits_do_to_the_model_itself_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights: rounding takes the model further from itself than most are, and the engine as far."""
    model = tiny_model("qwen2").to(torch.bfloat16)
    for weight in model.parameters():
        weight.data *= 4
    before = [weight.clone() for weight in model.parameters()]
    engine = make_engine(model, Vocabulary(byte_tokenizer()), name="qwen2")
    monkeypatch.setattr(selfcheck, "MEAN_TOLERANCE", 1e-3)
    agreement = self_check(engine)
    assert agreement.good and max(agreement.plain, agreement.forked) > 1e-3
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new) and new.dtype is torch.bfloat16
    monkeypatch.setattr(Request, "visible", sees_siblings)
    assert not self_check(engine).good


def test_a_patched_attention_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a family is whose attention does something that nobody told the engine of."""
    from transformers.models.gemma import modeling_gemma

    own = modeling_gemma.eager_attention_forward

    def doubled(module: Any, query: torch.Tensor, *args: Any, **options: Any) -> Any:
        return own(module, 2 * query, *args, **options)

    monkeypatch.setattr(modeling_gemma, "eager_attention_forward", doubled)
    tiny_model("gemma").save_pretrained(tmp_path / "odd")
    byte_tokenizer().save_pretrained(tmp_path / "odd")
    with pytest.raises(UnsupportedModel, match=r"odd \(gemma\) cannot be run: on plain text it differs"):
        load_engine(str(tmp_path / "odd"), device="cpu")


def test_what_passed_is_kept_until_something_changes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    monkeypatch.setattr(checked, "self_check", lambda engine: runs.append(engine) or selfcheck.self_check(engine))
    folder = tmp_path / "model"
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    for _ in range(2):
        load_engine(str(folder), device="cpu")
    assert len(runs) == 1
    (record,) = cache.glob("*.json")
    assert json.loads(record.read_text())["tolerance"] == selfcheck.TOLERANCE
    tiny_model(seed=1).save_pretrained(folder)  # other weights
    load_engine(str(folder), device="cpu")
    monkeypatch.setattr(checked, "source_digest", lambda: "other code")
    load_engine(str(folder), device="cpu")
    assert len(runs) == 3
    next(cache.glob("*.json")).write_text("{}")  # a damaged record is no record
    load_engine(str(folder), device="cpu", slots=64, context=32)  # nor is room for the script needed
    load_engine(str(folder), device="cpu", dtype="int8")


def test_a_cache_that_cannot_be_written_skips_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(checked, "self_check", lambda engine: runs.append(engine) or selfcheck.self_check(engine))
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PASTA_CACHE", str(blocked))
    tiny_model().save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    for _ in range(2):
        load_engine(str(tmp_path / "model"), device="cpu")
    assert len(runs) == 2
