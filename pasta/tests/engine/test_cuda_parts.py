"""Products in parts that the norm or the rotation adds up, against float64; and which weights are cut so."""

from __future__ import annotations

import os

import pytest
import torch
from test_cuda import error
from transformers import LlamaConfig, LlamaForCausalLM

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.engine.native import NativeEngine
from support import byte_tokenizer

# Triton's interpreter runs the kernels on a CPU, slowly: TRITON_INTERPRET=1.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("rows", [3, 4, 11, 16, 17, 32])
@pytest.mark.parametrize("columns,width,number", [(64, 256, 1), (192, 640, 5), (576, 512, 2)])
def test_the_sum_of_the_parts(rows: int, columns: int, width: int, number: int) -> None:
    """Of outputs that are a power of two, and that are none."""
    from pasta.engine.cuda import parts, reference
    from pasta.engine.cuda.weight import Weight

    torch.manual_seed(rows)
    x, residual = (torch.randn(rows, size).to(DEVICE, DTYPE) for size in (width, columns))
    layer = Weight((torch.randn(columns, width) / width**0.5).to(DEVICE, DTYPE))
    norm = torch.randn(columns).to(DEVICE, DTYPE)
    how = parts.Cut(number, parts.COLUMNS, parts.WIDTH, 2)
    added, normed = reference.add_norm(x.double() @ layer.data.double().T, residual.double(), norm.double(), 1e-6)
    out = torch.full_like(residual, torch.nan)
    parts.add_product_norm(x, layer, how, residual, norm, 1e-6, out)
    assert error(residual, added) < 1e-2 and error(out, normed) < 1e-2


@pytest.mark.parametrize("rows", [2, 5, 20, 64])
@pytest.mark.parametrize("width", [576, 1536])
def test_products_of_a_small_model_in_parts(rows: int, width: int) -> None:
    from pasta.engine.cuda import parts, reference, small

    torch.manual_seed(rows)
    columns = 72
    x, residual = (torch.randn(rows, size).to(DEVICE, DTYPE) for size in (width, columns))
    layer, norm = (torch.randn(columns, width) / width**0.5).to(DEVICE, DTYPE), torch.randn(columns).to(DEVICE, DTYPE)
    in_parts = small.linear_in_parts(x, layer)
    assert in_parts.shape == (2, rows, columns)
    product = x.double() @ layer.double().T
    assert error(in_parts.sum(0), product) < 1e-5
    added, normed = reference.add_norm(product, residual.double(), norm.double(), 1e-6)
    out = torch.full_like(residual, torch.nan)
    parts.add_parts_norm(in_parts, residual, norm, 1e-6, out)
    assert error(residual, added) < 1e-2 and error(out, normed) < 1e-2


@pytest.mark.parametrize("biased", [False, True], ids=["", "biased"])
@pytest.mark.parametrize("normed", [False, True], ids=["", "normed"])
def test_what_is_rotated_comes_in_parts(biased: bool, normed: bool) -> None:
    """The same as of the whole product, to whose sum the bias was added before it was rounded."""
    from pasta.engine.cuda import kernels, parts
    from pasta.engine.cuda.weight import Weight

    torch.manual_seed(0)
    rows, heads, kv_heads, size, width, slots = 5, 4, 2, 32, 384, 40
    x, layer = torch.randn(rows, width).to(DEVICE, DTYPE), torch.randn((heads + 2 * kv_heads) * size, width) / 20
    weight = Weight(layer.to(DEVICE, DTYPE))
    bias = torch.randn(layer.shape[0]).to(DEVICE, DTYPE) if biased else None
    norms = (torch.randn(size).to(DEVICE, DTYPE), torch.randn(size).to(DEVICE, DTYPE)) if normed else None
    angles = torch.rand(100, size // 2) * 6
    rotation = (angles.cos().to(DEVICE, DTYPE), angles.sin().to(DEVICE, DTYPE))
    positions = torch.randint(0, 100, (rows,)).int().to(DEVICE)
    places = torch.randperm(slots)[:rows].int().to(DEVICE)
    whole = x.double() @ weight.data.double().T + (0 if bias is None else bias.double())
    in_parts = parts.product(x, weight, parts.Cut(3, parts.COLUMNS, parts.WIDTH, 1))
    assert in_parts.shape == (3, rows, layer.shape[0])
    found = []
    for qkv, added in ((whole.to(DTYPE), None), (in_parts, bias)):
        query = torch.full((rows, heads, size), torch.nan).to(DEVICE, DTYPE)
        keys, values = (torch.zeros(slots, kv_heads, size).to(DEVICE, DTYPE) for _ in range(2))
        kernels.rotate_store(qkv, query, keys, values, rotation, positions, places, norms, 1e-6, bias=added)
        found.append((query, keys, values))
    for one, two in zip(*found, strict=True):
        assert error(two, one.double()) < 1e-2


@pytest.mark.parametrize(
    "columns,width,parts_of_it",
    [
        (1536, 8960, 10),  # down of a 1.5B model on 132 processors: 240 programs
        (1536, 1536, 6),
        (4096, 4096, 4),
        (4096, 14_336, 4),
        (17_920, 1536, 1),  # enough outputs for all
        (896, 4864, None),  # 14 tiles of 38 shares
        (1540, 1536, None),
        (1536, 1500, None),
    ],
)
def test_as_many_parts_as_can_run_at_once(
    monkeypatch: pytest.MonkeyPatch, columns: int, width: int, parts_of_it: int | None
) -> None:
    from pasta.engine.cuda import parts
    from pasta.engine.cuda.weight import Weight

    monkeypatch.setattr(parts, "processors", lambda _: 132)
    layer = Weight(torch.empty(columns, width, dtype=DTYPE, device="meta"))
    for rows in (3, 5, 32):
        how = parts.cut(layer, rows)
        assert (how and how.parts) == parts_of_it
        if how is not None:
            assert columns % how.columns == 0 and width % (how.parts * how.width) == 0
            assert how.stages <= width // (how.parts * how.width)
    for rows in (1, 2, 33):
        assert parts.cut(layer, rows) is None
    assert parts.cut(Weight(layer.data.float()), 8) is None
    assert parts.cut(Weight(layer.data, torch.ones(columns)), 8) is None


def test_what_is_better_done_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows of a narrow weight need no matrix instructions; an older GPU has room for fewer tiles."""
    from pasta.engine.cuda import parts
    from pasta.engine.cuda.weight import Weight

    monkeypatch.setattr(parts, "processors", lambda _: 132)
    narrow, wide = (Weight(torch.empty(1536, width, dtype=DTYPE, device="meta")) for width in (1536, 8960))
    assert parts.cut(narrow, 4) is None
    for room, stages in ((227 << 10, parts.STAGES), (64 << 10, 2)):
        monkeypatch.setattr(parts, "shared_memory", lambda _, room=room: room)
        how = parts.cut(wide, 4)
        assert how is not None and how.stages == stages


@pytest.mark.skipif(INTERPRETED, reason="a graph needs a CUDA device")
@pytest.mark.parametrize("threads", [3, 5, 20])
def test_a_step_of_several_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Captured, its kernels launched as they are in use: as near to float32 as 16 bits allow, step after step."""
    from pasta.engine.cuda import parts
    from pasta.engine.cuda.engine import CudaEngine

    cuts: list[parts.Cut | None] = []
    cut = parts.cut
    monkeypatch.setattr(parts, "cut", lambda weight, rows: cuts.append(cut(weight, rows)) or cuts[-1])
    vocabulary = Vocabulary(byte_tokenizer())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320, hidden_size=1024, intermediate_size=4096, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.05,
    )  # fmt: skip
    model = LlamaForCausalLM(config).bfloat16().eval()
    exact = NativeEngine(LlamaForCausalLM(config).eval(), vocabulary, slots=1024)
    exact.model.load_state_dict(model.state_dict())
    found_by = []
    prompt = vocabulary.encode("Why is the sky blue?")
    engines = exact, CudaEngine(model.cuda(), vocabulary, slots=4096)
    for engine in engines:
        main = engine.open(prompt, Expect.TEXT, SamplingParams(logprobs=20))
        engine.step()
        handles = [main, *(engine.fork(main) for _ in range(threads - 1))]
        told = []
        for step in range(6):
            for number, handle in enumerate(handles):
                engine.feed(handle, 65 + (7 * number + 3 * step) % 50, len(prompt) + step, Expect.TEXT)
            found = {each.thread: each.logprobs for each in engine.step()}
            told += [dict(logprobs.top) for handle in handles if (logprobs := found[handle]) is not None]
        found_by.append(told)
    assert len(found_by[0]) == len(found_by[1]) == 6 * threads
    off = [
        abs(one[token] - two[token]) for one, two in zip(*found_by, strict=True) for token in one.keys() & two.keys()
    ]
    assert len(off) > 15 * 6 * threads  # of 20 tokens each, nearly the same ones
    assert max(off) < 0.5 and sum(off) / len(off) < 0.08
    assert any(cuts)
