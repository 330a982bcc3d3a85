"""Kernels are compiled for GPUs that are not here, as the engine launches them: what the interpreter cannot tell."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels are not compiled"),
]
HOPPER, AMPERE = 90, 80


@pytest.fixture(params=[HOPPER, AMPERE])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """The kernels that were asked for, by name: none of them runs."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run
    kernels: list[tuple[str, Any]] = []

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        kernels.append((self.fn.__name__, launch(self, *args, grid=grid, warmup=True, **options)))

    there = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", request.param, 32),
        get_current_device=lambda: request.param,  # what was compiled for one is not taken for the other
        get_current_stream=lambda _=None: 0,
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", there, raising=False)
    monkeypatch.setattr(JITFunction, "run", compile_only)
    monkeypatch.setattr("pasta.engine.cuda.parts.processors", lambda _: 132)
    monkeypatch.setattr("pasta.engine.cuda.sampling.can_launch_beside", lambda _: request.param == HOPPER)
    yield kernels
    for name, kernel in kernels:
        assert kernel.metadata.target.arch == request.param
        check(name, kernel.asm["ptx"], beside=bool(kernel.metadata.launch_pdl))
        assert spilled(kernel.asm["cubin"]) <= 32, name  # a few numbers at the most


def spilled(cubin: bytes) -> int:
    """Bytes of local memory that a thread needs beside its registers."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    return max(int(size) for size in re.findall(r"STACK:(\d+)", told))


def check(name: str, ptx: str, *, beside: bool) -> None:
    """A kernel that is launched beside the one before waits for it before it touches memory; the others need not."""
    code = ptx[ptx.index(".entry") :]
    wait = code.find("griddepcontrol.wait")
    assert (wait >= 0) == beside, name
    touched = re.search(r"\b(ld\.global|st\.global|atom|cp\.async\.(ca|cg|bulk))", code)
    assert touched is not None, name
    assert not beside or wait < touched.start(), name


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def numbers(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def beside_of(request: pytest.FixtureRequest, rows: int, **kind: bool) -> int:
    from pasta.engine.cuda.beside import beside_in_a_step

    on_hopper = request.node.callspec.params["compiled"] == HOPPER
    return beside_in_a_step(rows, **kind) if on_hopper else 0


ROWS = [1, 2, 4, 8, 32, 128]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("eight_bits", [None, "fp8", "int8"])
def test_a_layer_of_a_larger_model(request: pytest.FixtureRequest, compiled: Any, rows: int, eight_bits: Any) -> None:
    """Qwen2.5 1.5B: 1,536 wide, with a bias."""
    from pasta.engine.cuda import kernels, parts
    from pasta.engine.cuda.products import gated, product
    from pasta.engine.cuda.weight import Weight

    if eight_bits == "fp8" and request.node.callspec.params["compiled"] == AMPERE:
        pytest.skip("fp8 begins with Hopper")

    def weight(columns: int, width: int) -> Weight:
        data = bf16(columns, width)
        return Weight(data) if eight_bits is None else Weight.rounded(data, eight_bits)

    comes_in_parts = parts.cut(weight(1536, 8960), rows) is not None
    assert comes_in_parts == (eight_bits is None and rows in (4, 8, 32))
    beside = beside_of(request, rows, small=False, eight_bits=eight_bits is not None, in_parts=comes_in_parts)
    x, residual, norm = bf16(rows, 1536), bf16(rows, 1536), bf16(1536)
    kernels.add_norm(x, residual, norm, 1e-6, x, beside=beside)
    qkv = product(x, weight(2048, 1536), bf16(2048), beside=beside)
    query, keys, values = bf16(rows, 12, 128), bf16(64, 2, 128), bf16(64, 2, 128)
    rotation = (bf16(512, 64), bf16(512, 64))
    turned = (query, keys, values, rotation, numbers(rows), numbers(rows), None, 1e-6)
    kernels.rotate_store(qkv, *turned, beside=beside)
    if (how := parts.cut(weight(2048, 1536), rows)) is not None:
        in_parts = parts.product(x, weight(2048, 1536), how, beside=beside)
        kernels.rotate_store(in_parts, *turned, bias=bf16(2048), beside=beside)
    hidden = gated(x, weight(17_920, 1536), beside=beside)
    for given, layer in ((query.view(rows, -1), weight(1536, 1536)), (hidden, weight(1536, 8960))):
        product(given, layer, beside=beside)
        if (how := parts.cut(layer, rows)) is not None:
            parts.add_product_norm(given, layer, how, residual, norm, 1e-6, x, beside=beside)
            assert [name for name, _ in compiled[-2:]] == ["_product_in_parts", "_add_parts_norm"]
            assert how.stages == 1 or "cp.async" in compiled[-2][1].asm["ptx"]  # tiles are under way
    kernels.silu_mul(bf16(rows, 512), bf16(rows, 256), beside=beside)


@pytest.mark.parametrize("rows", ROWS)
def test_a_layer_of_a_small_model(request: pytest.FixtureRequest, compiled: Any, rows: int) -> None:
    """SmolLM2 135M: 576 wide."""
    from pasta.engine.cuda import kernels, small

    beside = beside_of(request, rows, small=True, eight_bits=False)
    x, query = bf16(rows, 576), bf16(rows, 9, 64)
    rotation = (bf16(512, 32), bf16(512, 32))
    kernels.add_norm(None, x, bf16(576), 1e-6, x, beside=beside)
    small.qkv(
        x, bf16(960, 576), query, bf16(64, 3, 64), bf16(64, 3, 64), rotation, numbers(rows), numbers(rows),
        beside=beside,
    )  # fmt: skip
    small.gate_up(x, bf16(3072, 576), beside=beside)
    small.linear(bf16(rows, 1536), bf16(576, 1536), beside=beside)
    for width in (576, 1536):
        small.linear_in_parts(bf16(rows, width), bf16(576, width), beside=beside)
    if rows == 1:
        small.linear_norm(x, bf16(576, 576), x, bf16(576), 1e-6, x, numbers(1), beside=beside)


@pytest.mark.parametrize("rows,tiles", [(1, 1), (2, 1), (4, 4), (32, 2), (128, 64)])
@pytest.mark.parametrize("heads,kv_heads,size", [(9, 3, 64), (12, 2, 128), (32, 8, 128)])
def test_attention(
    request: pytest.FixtureRequest, compiled: Any, rows: int, tiles: int, heads: int, kv_heads: int, size: int
) -> None:
    from pasta.engine.cuda.attention import Attention

    beside = beside_of(request, rows, small=size == 64, eight_bits=False)
    attention = Attention(
        rows, tiles, heads, kv_heads, size, block_size=64, max_blocks=32, words=8, device=torch.device("cpu"),
        processors=132, beside=beside,
    )  # fmt: skip
    attention.build_mask(
        tiles=numbers(4 * tiles).view(4, tiles), places=numbers(rows), sees=numbers(rows * 8).view(rows, 8),
        slot_segments=numbers(2048), block_tables=numbers(64 * 32).view(64, 32),
    )  # fmt: skip
    store = bf16(2048, kv_heads, size)
    attention(bf16(rows, heads, size), store, store, bf16(rows, heads, size), 0.1)


@pytest.mark.parametrize("rows", [1, 2, 4, 32])
@pytest.mark.parametrize("tokens,width", [(49_539, 576), (152_039, 1536), (128_643, 4096)])
def test_the_choice(request: pytest.FixtureRequest, compiled: Any, rows: int, tokens: int, width: int) -> None:
    from pasta.engine.cuda.argmax import masked_argmax
    from pasta.engine.cuda.gemv import cut, gemv
    from pasta.engine.cuda.head import aligned, aligned_rows
    from pasta.engine.cuda.parameters import Level, Parameters, words_of
    from pasta.engine.cuda.sampling import Rows, Sampler
    from pasta.engine.cuda.weight import Weight

    beside = beside_of(request, rows, small=width < 1024, eight_bits=False)
    here = torch.device("cpu")
    logits = aligned_rows(rows, tokens, torch.bfloat16, here)
    weight = Weight(torch.empty(aligned(tokens), width, dtype=torch.bfloat16))
    if (how := cut(weight, rows, pairs=False)) is not None:
        gemv(bf16(rows, width), weight, how, out=logits, beside=beside)
    parameters, few = Parameters(2, here), numbers(rows)
    forbidden = aligned_rows(3, tokens, torch.uint8, here)
    masked_argmax(logits, forbidden, few, few, parameters.numbers, 7, forced=few, beside=beside)
    reads = re.findall(r"ld\.global[.\w]*v4", compiled[-2][1].asm["ptx"])
    assert reads, "an odd vocabulary is read several logits at once"
    words = words_of(tokens)
    for penalised in (False, True):
        sampler = Sampler(
            parameters, forbidden=forbidden, promise=7, seen=numbers(4 * words) if penalised else None,
            spared=numbers(words) if penalised else None,
        )  # fmt: skip
        allowed = numbers(rows * words).view(rows, words) if penalised else None
        step = Rows(few, few, few, torch.zeros(rows), few, allowed, few)
        for level in (Level.DRAW, Level.TOP_P, Level.TOP_K):
            sampler(logits, step, level)
