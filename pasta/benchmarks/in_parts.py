"""A candidate for `out` and `down` of few rows: products in parts along their inputs, added up where the norm is taken.

python benchmarks/in_parts.py FILE [SECONDS]     (a CUDA device)
TRITON_INTERPRET=1 python benchmarks/in_parts.py --check     (that it is right; on a CPU)

cuBLAS splits such products, too, but adds the parts up in a kernel of its own, and `kernels.add_norm` follows: 64
launches more in a step of the 8B shape, 0.12 ms of 5.2 (candidates-h200-3.json). Predicted: 0.15 ms less a step with 4
to 32 rows. Timed are the product and the norm together, beside what the engine does now.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from matrices import FILLS_CACHES, seconds
from pasta.engine.cuda import kernels, reference
from pasta.engine.cuda.beside import beside_in_a_step, can_launch_beside, launched, let_the_next_come, wait_for_the_last
from pasta.engine.cuda.products import product
from pasta.engine.cuda.weight import Weight

# (outputs, inputs)
SHAPES = {
    "llama-3-8b": {"out": (4096, 4096), "down": (4096, 14336)},
    "qwen2.5-1.5b": {"out": (1536, 1536), "down": (1536, 8960)},
}
ROWS = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a weight, among programs: its outputs, and its inputs in parts."""

    parts: int
    columns: int
    width: int
    warps: int
    stages: int

    def fits(self, columns: int, width: int) -> bool:
        return columns % self.columns == 0 and width % (self.parts * self.width) == 0


CUTS = [
    Cut(parts, columns, width, warps, stages)
    for parts in (2, 4, 5, 7, 8, 10, 14)
    for columns, width, warps, stages in ((16, 256, 4, 4), (32, 128, 4, 5), (32, 256, 4, 4), (64, 128, 4, 4))
]


@triton.jit(do_not_specialize=["rows"])
def _product_in_parts(
    x, weight, out, rows, columns, width,
    PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    """out (PARTS, rows, columns), float32: x @ weight.T over a part of the inputs each."""
    wait_for_the_last(BESIDE)
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    share = width // (PARTS * WIDTH) * WIDTH  # said so that the compiler knows where it begins, and copies ahead
    k = part * share + tl.arange(0, WIDTH)
    real = (row < rows)[None, :]
    place = weight + column[:, None].to(tl.int64) * width + k[None, :]
    source = x + row[None, :] * width + k[:, None]
    result = tl.zeros([COLUMNS, ROWS], tl.float32)
    for _ in tl.range(0, share, WIDTH):
        value = tl.load(source, mask=real, other=0.0)
        result = tl.dot(tl.load(place), value, result, input_precision=PRECISION)
        place += WIDTH
        source += WIDTH
    let_the_next_come(BESIDE)
    tl.store(out + (part * rows + row)[None, :] * columns + column[:, None], result, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _add_parts_norm(
    parts, residual, weight, out, rows, size, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr, BESIDE: tl.constexpr
):  # fmt: skip
    """`kernels._add_norm` of the sum of the parts, rounded as a product is."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < size
    added = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(PARTS):
        added += tl.load(parts + (part * rows + row) * size + column, mask=inside, other=0.0)
    value = tl.load(residual + row * size + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    let_the_next_come(BESIDE)
    value = (value + added.to(residual.dtype.element_ty).to(tl.float32)).to(residual.dtype.element_ty)
    tl.store(residual + row * size + column, value, mask=inside)
    value = value.to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + eps)
    tl.store(out + row * size + column, value.to(out.dtype.element_ty) * scale, mask=inside)


def add_in_parts(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor,
    norm: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    cut: Cut,
    beside: int,
) -> None:
    """residual += x @ weight.T; out = rms_norm(residual) * norm."""
    rows, width = x.shape
    columns = weight.shape[0]
    parts = torch.empty(cut.parts, rows, columns, dtype=torch.float32, device=x.device)
    _product_in_parts[(columns // cut.columns, cut.parts)](
        x, weight, parts, rows, columns, width, PARTS=cut.parts, ROWS=max(16, triton.next_power_of_2(rows)),
        COLUMNS=cut.columns, WIDTH=cut.width, PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=cut.warps, num_stages=cut.stages, **launched(beside),
    )  # fmt: skip
    block = triton.next_power_of_2(columns)
    _add_parts_norm[(rows,)](
        parts, residual, norm, out, rows, columns, eps, PARTS=cut.parts, BLOCK=block,
        num_warps=min(16, max(4, block // 512)), **launched(beside),
    )  # fmt: skip


def add_as_now(
    x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor, norm: torch.Tensor, eps: float, out: torch.Tensor,
    beside: int,
) -> None:  # fmt: skip
    kernels.add_norm(product(x, Weight(weight), beside=beside), residual, norm, eps, out, beside=beside)


def error_of(cut: Cut, rows: int, columns: int, width: int, device: str, dtype: torch.dtype) -> float:
    """How far it is from float64, of the norm."""
    torch.manual_seed(rows)
    x, residual = (torch.randn(rows, size).to(device, dtype) for size in (width, columns))
    weight = (torch.randn(columns, width) / width**0.5).to(device, dtype)
    norm, out = torch.randn(columns).to(device, dtype), torch.empty(rows, columns, device=device, dtype=dtype)
    _, expected = reference.add_norm(x.double() @ weight.double().T, residual.double(), norm.double(), 1e-6)
    add_in_parts(x, weight, residual, norm, 1e-6, out, cut, 0)
    return float((out.double() - expected).norm() / expected.norm())


def time_matrix(columns: int, width: int, rows: int) -> list[dict[str, Any]]:
    """Microseconds of what the engine does now and of each cut that is right."""
    device = torch.device("cuda")
    beside = beside_in_a_step(rows, small=False, eight_bits=False) if can_launch_beside(device) else 0
    copies = max(2, round(FILLS_CACHES / (2 * columns * width)))
    weights = [(torch.randn(columns, width, device=device) * 0.02).bfloat16() for _ in range(copies)]
    x, residual = (torch.randn(rows, size, device=device).bfloat16() for size in (width, columns))
    norm, out = torch.ones(columns, device=device).bfloat16(), torch.empty_like(residual)

    def now(index: int) -> None:
        add_as_now(x, weights[index], residual, norm, 1e-6, out, beside)

    def in_parts(cut: Cut) -> Any:
        return lambda index: add_in_parts(x, weights[index], residual, norm, 1e-6, out, cut, beside)

    times: dict[Cut | None, float] = {None: seconds(now, copies)}
    for cut in CUTS:
        if cut.fits(columns, width):
            try:
                if error_of(cut, rows, columns, width, "cuda", torch.bfloat16) < 1e-2:
                    times[cut] = seconds(in_parts(cut), copies)
            except Exception as error:  # more shared memory than there is; others may fit
                print(f"{cut}: {error}", file=sys.stderr)
    return [{"cut": None if cut is None else asdict(cut), "us": 1e6 * taken} for cut, taken in times.items()]


def check() -> None:
    """In float16, as the interpreter has no bfloat16 of its own."""
    for cut in (Cut(2, 16, 32, 4, 2), Cut(5, 32, 32, 4, 2)):
        for rows in (1, 5, 32):
            found = error_of(cut, rows, 96, 320, "cpu", torch.float16)
            print(f"{cut}, {rows} rows: {found:.1e}")
            assert found < 1e-2


def main(file: str, limit: float) -> None:
    begun = time.monotonic()
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "rows": []}
    for shape, matrices in SHAPES.items():
        for name, (columns, width) in matrices.items():
            for rows in ROWS:
                if time.monotonic() - begun > limit - 10:
                    continue
                found = time_matrix(columns, width, rows)
                report["rows"] += [{"shape": shape, "matrix": name, "rows": rows, **each} for each in found]
                best = min(found, key=lambda each: float(each["us"]))
                print(f"{shape} {name}, {rows:2} rows: {found[0]['us']:.1f} us now, {best['us']:.1f} by {best['cut']}")
                with open(file, "w", encoding="utf-8") as out:
                    json.dump(report, out, indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check()
    else:
        main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 120.0)
