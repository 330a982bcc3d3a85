"""The table of the CUDA engine in docs/performance.md is that of the report that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PROSE = (PROJECT / "docs" / "performance.md").read_text("utf-8")
PAGE = PROSE.partition("### The whole table")[2]


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PROJECT / "benchmarks" / "results" / name).read_text("utf-8"))
    return found


def column(label: str, index: int) -> list[str]:
    """The numbers of a cell; a dash where nothing was measured."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    return re.findall(r"[\d.,]*\d|–", row.split("|")[index])


@pytest.mark.parametrize(("name", "index"), [("table-h200.json", 2), ("table-h200-2.json", 4)], ids=["before", "now"])
def test_the_table(name: str, index: int) -> None:
    rows, widths = report(name)["rows"], ("1", "4", "16", "32")
    for shape in ("8B", "135M"):
        answer, sampled = rows[f"{shape} answer"], rows[f"{shape} sampled answer"]["of greedy"]
        assert column(f"{shape}, ms a step of an answer", index) == [f"{answer[width]:.2f}" for width in widths]
        assert column(f"{shape}, 32 threads, of one", index) == [f"{answer['of one']['32']:.2f}"]
        assert column(f"{shape}, sampled", index) == [f"{sampled[width]:.2f}" for width in ("1", "32")]
        assert column(f"{shape}, 32 answers", index) == [f"{rows[f'{shape} 32 answers']['tokens_per_s']:,}"]
        replays = rows[f"{shape} replays"]
        told = ["–"] if replays == "no time left" else [f"{replays['share']:.3f}", str(replays["count"])]
        assert column(f"{shape}, replays", index) == told
    assert column("8B, fp8", index) == [f"{rows['8B fp8']['1']:.2f}"]


def test_vllm_is_behind_in_every_cell() -> None:
    before = report("inside-vllm-h200-4.json")["shape llama-3-8b"]["vLLM by itself"]["step_ms"]
    for index, name, stock in (
        (2, "table-h200.json", before),
        (4, "table-h200-2.json", report("vllm-h200.json")["step_ms"]),
    ):
        own = report(name)["rows"]["8B answer"]
        assert column("vLLM, as many requests", index) == [f"{stock[width]:.2f}" for width in ("1", "4", "16", "32")]
        assert all(own[width] < stock[width] for width in stock)


@pytest.mark.parametrize(
    ("label", "patch"),
    [
        ("a step fetches its plan", "mail"),
        ("kernels are launched beside", "pdl"),
        ("attention looks up the next block", "page"),
        ("attention of many rows", "wide"),
        ("one or two rows times the head", "head"),
        ("16-bit weights times 3 to 32 rows in parts, once more", "parts"),
    ],
)
def test_candidates(label: str, patch: str) -> None:
    found = report("candidates-h200-2.json")["patches"][patch]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    told = re.findall(r"(8B|135M) (\d+x\d+) ([\d.]+) → ([\d.]+)", row.split("|")[3])
    times = {(shape, case["case"].partition("@")[0]): case for shape, cases in found["cases"].items() for case in cases}
    assert len(told) > 1 and ("passed" in row) is found["taken"]
    for shape, case, current, candidate in told:
        measured = times[shape, case]
        assert (current, candidate) == (f"{measured['current_ms']:.2f}", f"{measured['candidate_ms']:.2f}")


def test_long_answers_and_prompts() -> None:
    lines = PROSE.partition("### Long answers")[2].partition("### Many users")[0].splitlines()
    found, vllm = report("long-h200-2.json")["shapes"]["llama-3-8b"], report("vllm-h200.json")["prompt_ms"]
    for threads in (1, 16, 64):
        steps = [f"{each['step_s'] * 1e3:.2f}" for each in found["steps"] if each["threads"] == threads]
        assert any(line.startswith(f"| {threads} | {' | '.join(steps)} |") for line in lines)
    own = {str(each["tokens"]): each["seconds"] * 1e3 for each in found["prompts"]}
    assert f"| pasta | {own['1000']:.1f} | {own['8000']:.1f} |" in lines
    assert any(line.endswith(f"| {vllm['1000']:.1f} | {vllm['8000']:.1f} |") for line in lines)
    assert own["8000"] < 1.3 * vllm["8000"]


@pytest.mark.parametrize(
    ("label", "before", "after"),
    [
        ("lookup of the next block", "before", "page"),
        ("head of one or two rows", "page", "head"),
        ("small models: launches", "page", "beside"),
        ("small models: norms", "beside", "norms"),
        ("small models: weights", "norms", "fetch"),
    ],
)
def test_what_was_put_in(label: str, before: str, after: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    rows = [each for each in report("candidates-h200-3.json")["rows"] if not each["case"].endswith("choice")]
    times = {(each["shape"], each["case"].partition("@")[0]): each["ms"] for each in rows}
    told = re.findall(r"(8B|135M) (\d+x\d+) ([\d.]+) → ([\d.]+)", row.split("|")[3])
    assert len(told) > 1 and ("refused" in row) is (after == "norms")
    for shape, case, first, then in told:
        assert (first, then) == tuple(f"{times[shape, case][variant]:.2f}" for variant in (before, after))


@pytest.mark.parametrize(
    ("label", "variant"),
    [
        ("step of 8B, 4 / 32 rows, ms: equal shares", "shares"),
        ("equal shares, launched early", "shares, early, ahead 1"),
        ("the best known way", "best"),
        ("and `out` prefetched by spare programs", "best, out"),
        ("and `out` prefetched by a branch", "best, branch out"),
    ],
)
def test_equal_shares(label: str, variant: str) -> None:
    found = [each for each in report("shares-h200.json")["steps"] if each["shape"] == "llama-3-8b"]
    steps = {(each["rows"], each["variant"]): each["ms"] for each in found}
    for index, name in ((3, variant), (4, "now")):
        assert column(label, index) == [f"{steps[rows, name]:.3f}" for rows in (4, 32)]


@pytest.mark.parametrize(("size", "shape"), [("8B", "llama-3-8b"), ("1.5B", "qwen2.5-1.5b")])
def test_products_in_equal_shares(size: str, shape: str) -> None:
    """Beside what the engine does with 4 or 32 rows: gate and up are streamed, the rest is cuBLAS's."""
    ways = {"gate_up": "'streamed'", "down": "None", "qkv": "None", "out": "None"}
    found = [each for each in report("shares-h200.json")["matrices"] if each["shape"] == shape]

    def least(rows: int, matrix: str, way: str) -> float:
        own = [each for each in found if (each["rows"], each["matrix"]) == (rows, matrix)]
        return min(float(each["us"]) for each in own if each["way"].startswith(way))

    for index, shares in ((3, True), (4, False)):
        sums = [sum(least(rows, name, "Share" if shares else way) for name, way in ways.items()) for rows in (4, 32)]
        assert column(f"a layer's products, {size}", index) == [f"{own:.1f}" for own in sums]
