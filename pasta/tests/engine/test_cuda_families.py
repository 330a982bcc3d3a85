"""On a GPU: families beside the plain Llama kind, with the kernels of a step, against the engine on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from test_cuda import CASES, error, tiny_trained_model

from pasta.decoding.api import generate_all
from pasta.engine.make import find_way
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import self_check
from support import FAMILIES, SIZES, WINDOWS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

PARTLY = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
OTHERS: dict[str, Any] = {
    "gemma3_text": lambda: transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, **WINDOWS),
    "phi3-partly": lambda: transformers.Phi3Config(**SIZES, rope_parameters=PARTLY),
    "llama-biases": lambda: transformers.LlamaConfig(**SIZES, attention_bias=True),
}
NAMES = [
    *("phi3", "phi3-window", "phi3-partly", "gemma3_text", "gemma3"),
    *("mistral-window", "qwen2-window", "qwen3-window", "llama-biases"),
]
PROMPTS = ["Hello!", "Compare cats and dogs, and say which you like. " * 2, "Why?"]


@pytest.mark.parametrize("family", NAMES)
def test_the_same_as_on_the_cpu(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy in float32, with forks, nested forks and syncs, prompts beyond the window, and in parts."""
    from pasta.engine.cuda.engine import CudaEngine

    for name, config in OTHERS.items():
        monkeypatch.setitem(FAMILIES, name, config)
    model, vocabulary = tiny_trained_model(family, 10)
    with torch.no_grad():
        random = torch.Generator().manual_seed(1)
        for parameter in model.parameters():  # norms and biases begin as 0 or 1, which hides mistakes
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn(parameter.shape, generator=random)
    cpu = NativeEngine(copy.deepcopy(model), vocabulary, slots=8192)
    gpu = CudaEngine(model.cuda(), vocabulary, slots=8192)
    assert find_way(gpu.model, gpu.calls, gpu.context) == "cuda"
    assert self_check(gpu).good
    cpu.max_segments = gpu.max_segments
    most = 0
    for parallelism in (0.0, 2.0, 6.0, 15.0):
        options = {"parallelism": parallelism, "max_tokens": 100}
        expected = generate_all(cpu, PROMPTS, **options)
        assert [result.tree for result in generate_all(gpu, PROMPTS, **options)] == [each.tree for each in expected]
        most = max(most, *(len(result.threads) for result in expected))
    assert most > 3
    gpu.chunk = 24
    parts = generate_all(gpu, PROMPTS, parallelism=2.0, max_tokens=40)
    whole = generate_all(cpu, PROMPTS, parallelism=2.0, max_tokens=40)
    assert [result.tree for result in parts] == [result.tree for result in whole]
    assert gpu.pool.free_slots == gpu.pool.slots


@pytest.mark.parametrize("dtype,bound", CASES)
@pytest.mark.parametrize("rows,size", [(1, 640), (5, 2560), (33, 96)])
def test_kernels(dtype: torch.dtype, bound: float, rows: int, size: int) -> None:
    from pasta.engine.cuda import family_kernels, reference

    torch.manual_seed(rows)
    x, residual = (torch.randn(rows, size, device="cuda").to(dtype) for _ in range(2))
    x_weight, weight = (torch.randn(size, device="cuda") for _ in range(2))
    expected_residual, expected = reference.norm_add_norm(
        x.double(), x_weight.double(), residual.double(), weight.double(), 1e-6
    )
    out = torch.full_like(x, torch.nan)
    family_kernels.add_norm(x, x_weight, residual, weight, 1e-6, out)
    assert error(residual, expected_residual) < bound
    assert error(out, expected) < bound
    gate_up = torch.randn(rows, 2 * size, device="cuda").to(dtype)
    out = torch.full_like(x, torch.nan)
    family_kernels.gelu_mul(gate_up, out)
    assert error(out, reference.gelu_mul(gate_up.double())) < bound


@pytest.mark.parametrize("dtype,bound", CASES)
@pytest.mark.parametrize("size,turned", [(128, 96), (64, 16), (256, 256)])
def test_a_part_of_a_head_turns(dtype: torch.dtype, bound: float, size: int, turned: int) -> None:
    from pasta.engine.cuda import kernels, reference

    torch.manual_seed(size)
    rows, heads, kv_heads, slots = 6, 4, 2, 40
    qkv = torch.randn(rows, (heads + 2 * kv_heads) * size, device="cuda").to(dtype)
    angles = torch.rand(100, turned // 2, device="cuda") * 6
    exact = angles.cos().to(dtype), angles.sin().to(dtype)
    still = torch.zeros(100, (size - turned) // 2, device="cuda", dtype=dtype)
    rotation = torch.cat([exact[0], still + 1], 1), torch.cat([exact[1], still], 1)
    positions = torch.randint(0, 100, (rows,), device="cuda").int()
    places = torch.randperm(slots, device="cuda")[:rows].int()
    query = torch.full((rows, heads, size), torch.nan, device="cuda").to(dtype)
    keys, values = (torch.zeros(slots, kv_heads, size, device="cuda").to(dtype) for _ in range(2))
    norms = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
    kernels.rotate_store(qkv, query, keys, values, rotation, positions, places, norms, 1e-6, turned)
    parts = qkv.double().view(rows, -1, size).split([heads, kv_heads, kv_heads], 1)
    for found, part, norm in ((query, parts[0], norms[0]), (keys[places.long()], parts[1], norms[1])):
        normed = part * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6) * norm.double()
        tables = exact[0].double(), exact[1].double()
        turning = reference.rotate(normed[..., :turned], *tables, positions.long())
        assert error(found, torch.cat([turning, normed[..., turned:]], -1)) < bound
    assert error(values[places.long()], parts[2]) == 0


def test_attention_within_a_window() -> None:
    """Keys at positions of their own, some ahead of the query."""
    from pasta.engine.cuda import reference
    from pasta.engine.cuda.attention import Attention

    torch.manual_seed(0)
    rows, heads, kv_heads, size, length, blocks = 12, 8, 2, 64, 500, 8
    device = torch.device("cuda")
    keys, values = (torch.randn(blocks * 64, kv_heads, size, device=device) for _ in range(2))
    query = torch.randn(rows, heads, size, device=device)
    places = torch.arange(length - rows, length, device=device).int()
    positions = torch.randint(300, 500, (rows,), device=device).int()
    slot_positions = torch.randint(0, 520, (blocks * 64,), device=device).int()
    step: dict[str, Any] = {
        "places": places,
        "sees": torch.full((rows, 16), -1, dtype=torch.int32, device=device),
        "slot_segments": torch.zeros(blocks * 64, dtype=torch.int32, device=device),
        "block_tables": torch.randperm(blocks, device=device).int()[None],
        "positions": positions,
        "slot_positions": slot_positions,
    }
    attention = Attention(
        rows, 1, heads, kv_heads, size, block_size=64, max_blocks=blocks, words=16, device=device, processors=132,
        window=torch.tensor([100], dtype=torch.int32, device=device),
    )  # fmt: skip
    attention.build_mask(tiles=torch.tensor([[0], [rows], [0], [length]], device=device).int(), **step)
    out = torch.empty_like(query)
    for window in (100, None):
        attention(query, keys, values, out, size**-0.5, near=window is not None)
        expected = reference.attend(
            query.double(), keys.double(), values.double(), size**-0.5, block_size=64, window=window,
            requests=torch.zeros(rows).int(), lengths=torch.tensor([length]), **step,
        )  # fmt: skip
        assert error(out, expected) < 1e-5
