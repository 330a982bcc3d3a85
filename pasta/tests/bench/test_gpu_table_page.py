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
