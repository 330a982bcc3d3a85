"""The tables of the CUDA engine in docs/performance.md and its history are those of the reports that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PROSE = (PROJECT / "docs" / "performance.md").read_text("utf-8")
NOW = PROSE.partition("### The whole table")[2].partition("### Long answers")[0]
PAGE = (
    (PROJECT / "docs" / "performance-history.md").read_text("utf-8").partition("## The whole table, before and now")[2]
)


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PROJECT / "benchmarks" / "results" / name).read_text("utf-8"))
    return found


def column(label: str, index: int, page: str = PAGE) -> list[str]:
    """The numbers of a cell; a dash where nothing was measured."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {label}"))
    return re.findall(r"[\d.,]*\d|–", row.split("|")[index])


def test_vllm_beside_the_table_of_now() -> None:
    stock, inside = report("vllm-h200.json"), report("inside-vllm-h200-4.json")["the default model"]
    steps = {"8B": stock["step_ms"], "135M": inside["vLLM by itself"]["step_ms"]}
    for shape, own in steps.items():
        told = column(f"{shape}, ms a step of an answer", 3, NOW)
        assert told == [f"{own[width]:.2f}" for width in ("1", "4", "16", "32")]
    assert column("8B, a prompt of 8,000", 3, NOW) == [f"{stock['prompt_ms']['8000']:.1f}"]


def test_a_step_of_few_threads_of_the_middle_shape() -> None:
    rows = {each["case"].partition("@")[0]: each["ms"]["main"] for each in report("few-rows-h200-2.json")["rows"]
            if each["shape"] == "1.5B"}  # fmt: skip
    ratios = sorted(rows[case] / rows["1x1"] for case in ("1x4", "1x5"))
    assert "takes {:.2f} to {:.2f} of a step for 4 or 5 threads".format(*ratios) in NOW


@pytest.mark.parametrize(
    ("name", "index", "page"),
    [("table-h200-2.json", 2, PAGE), ("table-h200-3.json", 4, PAGE), ("table-h200-3.json", 2, NOW)],
    ids=["before", "then", "now"],
)
def test_the_table(name: str, index: int, page: str) -> None:
    rows, widths = report(name)["rows"], ("1", "4", "16", "32")

    def told(label: str) -> list[str]:
        return column(label, index, page)

    for shape in ("8B", "135M"):
        answer, sampled = rows[f"{shape} answer"], rows[f"{shape} sampled answer"]["of greedy"]
        assert told(f"{shape}, ms a step of an answer") == [f"{answer[width]:.2f}" for width in widths]
        assert told(f"{shape}, 32 threads, of one") == [f"{answer['of one']['32']:.2f}"]
        assert told(f"{shape}, sampled") == [f"{sampled[width]:.2f}" for width in ("1", "32")]
        assert told(f"{shape}, 32 answers") == [f"{rows[f'{shape} 32 answers']['tokens_per_s']:,}"]
        replays = rows[f"{shape} replays"]
        shown = ["–"] if replays == "no time left" else [f"{replays['share']:.3f}", str(replays["count"])]
        assert told(f"{shape}, replays") == shown
    assert told("8B, fp8") == [f"{rows['8B fp8']['1']:.2f}"]


def test_vllm_is_behind_in_every_cell() -> None:
    """That of the session before, beside which the table before was made."""
    stock = report("vllm-h200.json")["step_ms"]
    assert column("vLLM, as many requests", 2) == [f"{stock[width]:.2f}" for width in ("1", "4", "16", "32")]
    for name in ("table-h200-2.json", "table-h200-3.json"):
        own = report(name)["rows"]["8B answer"]
        assert all(own[width] < stock[width] for width in stock)


def test_a_prompt_of_the_table() -> None:
    before, vllm = report("long-h200-2.json")["shapes"]["llama-3-8b"]["prompts"], report("vllm-h200.json")["prompt_ms"]
    now = report("table-h200-3.json")["rows"]["8B prompt"]["8000"]
    earlier = next(each["seconds"] for each in before if each["tokens"] == 8_000)
    assert column("8B, a prompt of 8,000", 2) == [f"{1e3 * earlier:.1f}"]
    assert column("8B, a prompt of 8,000", 4) == column("8B, a prompt of 8,000", 2, NOW) == [f"{now:.1f}"]
    asked = f"{1.3 * vllm['8000']:.1f}"
    assert column("8B, a prompt of 8,000", 5)[0] == column("8B, a prompt of 8,000", 4, NOW)[0] == asked
    assert now < 1.3 * vllm["8000"]


def test_what_is_met() -> None:
    """The last column says of each line whether it holds what was asked, which is the same on both pages."""
    rows = report("table-h200-3.json")["rows"]
    asked = {
        "8B, ms a step of an answer": rows["8B answer"]["1"] <= 4.6,
        "8B, 32 threads, of one": rows["8B answer"]["of one"]["32"] <= 1.10,
        "8B, sampled": rows["8B sampled answer"]["of greedy"]["1"] <= 1.03
        and rows["8B sampled answer"]["of greedy"]["32"] <= 1.05,
        "8B, fp8": rows["8B fp8"]["1"] <= 3.2,
        "8B, 32 answers": rows["8B 32 answers"]["tokens_per_s"] >= 7_500,
        "8B, replays": rows["8B replays"]["share"] >= 0.97,
        "135M, ms a step of an answer": rows["135M answer"]["1"] <= 0.75,
        "135M, 32 threads, of one": rows["135M answer"]["of one"]["32"] <= 1.15,
        "135M, sampled": max(rows["135M sampled answer"]["of greedy"].values()) <= 1.10,
        "135M, 32 answers": rows["135M 32 answers"]["tokens_per_s"] >= 40_000,
        "135M, replays": rows["135M replays"]["share"] >= 0.97,
    }
    for label, met in asked.items():
        then, now = (
            next(x for x in page.splitlines() if x.startswith(f"| {label}")).split("|") for page in (PAGE, NOW)
        )
        assert ("missed" in then[6]) is ("**no**" in now[5]) is not met
        assert re.findall(r"[\d.,]*\d", then[5]) == re.findall(r"[\d.,]*\d", now[4])


@pytest.mark.parametrize(
    ("label", "patch"),
    [
        ("a step fetches its plan", "mail"),
        ("attention of many rows", "wide"),
        ("16-bit weights times 3 to 32 rows in parts, once more", "parts"),
    ],
)
def test_candidates(label: str, patch: str) -> None:
    found = report("candidates-h200-2.json")["patches"][patch]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    told = re.findall(r"(8B|135M) (\d+x\d+) ([\d.]+) → ([\d.]+)", row.split("|")[3])
    times = {(shape, case["case"].partition("@")[0]): case for shape, cases in found["cases"].items() for case in cases}
    assert len(told) > 1 and ("refused" in row) is not found["taken"]
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
        ("as it is", "main"),
        ("`qkv` and `out` of 3 to 8 rows", "gemv8"),
        ("**a**", "a"),
        ("**b**", "b"),
        ("**c**", "c"),
        ("**d**", "d"),
        ("**e**", "e"),
    ],
)
def test_few_rows(label: str, variant: str) -> None:
    found = report("few-rows-h200-2.json")
    predicted = found["predicted"]["1.5B ms"]
    times = [(each["case"].partition("@")[0], each["ms"]) for each in found["rows"] if each["shape"] == "1.5B"]
    for index, (case, ms) in enumerate(times):
        assert column(label, 2 + index) == [f"{ms[variant]:.2f}", f"{predicted[case][variant]:.2f}"]
    assert found["choice"] == "none" and "**None is taken.**" in PAGE


def test_launches_beside_each_other_in_a_large_model() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("With e also for larger models"))
    for each in report("few-rows-h200-2.json")["rows"]:
        if each["shape"] == "8B":
            case, ms = each["case"].partition("@")[0], each["ms"]
            assert f"8B {case} {ms['main']:.2f} → {ms['e8']:.2f}" in line


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
