"""The figures of threads inside vLLM in docs/engines.md are those of the reports that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
NEWEST = "inside-vllm-h200-4.json"
PAGE = (PROJECT / "docs" / "engines.md").read_text("utf-8")


def report(name: str) -> dict[str, Any]:
    assert f"benchmarks/results/{name}" in PAGE
    found: dict[str, Any] = json.loads((PROJECT / "benchmarks" / "results" / name).read_text("utf-8"))
    return found


def rows(label: str) -> list[list[float]]:
    """The numbers of the table rows with this label."""
    found = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [[float(number) for number in re.findall(r"[\d.]+", row)] for row in found]


def test_steps() -> None:
    """Threads and vLLM by itself; none is slower by more than a tenth."""
    run, widths = report(NEWEST), ("1", "4", "16", "32")
    ratios = rows("threads in terms of that")
    for index, (name, own, stock) in enumerate(
        [
            ("shape llama-3-8b", rows("8B shape: threads of one answer")[0],
             rows("vLLM by itself, as many requests (asynchronous scheduling)")[0]),
            ("the default model", rows("default model: threads of one answer")[0], rows("vLLM by itself")[0]),
        ]
    ):  # fmt: skip
        ours = [run[name]["threads"]["step_ms"][width]["ms"] for width in widths]
        theirs = [run[name]["vLLM by itself"]["step_ms"][width] for width in widths]
        assert own == [round(ms + 1e-9, 2) for ms in ours]
        assert stock == [round(ms + 1e-9, 2) for ms in theirs]
        assert ratios[index] == [round(a / b, 2) for a, b in zip(ours, theirs, strict=True)]
        assert max(ratios[index]) <= 1.10


def test_speedups() -> None:
    for label, name, key in (
        ("8B shape, 50 responses", "shape llama-3-8b", "replays"),
        ("default model, 50 responses", "the default model", "replays"),
        ("default model, 20 answers of its own", "the default model", "answers"),
    ):
        found = report(NEWEST)[name]["threads"][key]
        (row,) = rows(label)
        assert row == [found[kind] for kind in ("real", "theory", "share", "least") if kind in found], label
        assert f"{found['count']} " in label
        assert found["share"] >= 0.85


def test_users() -> None:
    got = report(NEWEST)["the default model"]
    ours, theirs = (got[kind]["load"] for kind in ("threads", "vLLM by itself"))
    for number in (ours["tokens_per_s"], theirs["tokens_per_s"], ours["tokens"]):
        assert f"{number:,}" in PAGE
    assert f"**{ours['tokens_per_s'] / theirs['tokens_per_s']:.2f}** of it" in PAGE
    spread = [f"{end(each['all']):,}" for each in (ours, theirs) for end in (min, max)]
    assert "{}\nto {} and {} to {}".format(*spread) in PAGE
    before = report("inside-vllm-h200-3.json")["the default model"]
    earlier = before["threads"]["load"]["tokens_per_s"] / before["vLLM by itself"]["load"]["tokens_per_s"]
    assert f"six turns each: {earlier:.2f})" in PAGE


def test_answers_are_the_same() -> None:
    got = report(NEWEST)["exact"]
    for kind in ("together_burst16", "together_burst1"):
        assert got[kind]["same"] == got[kind]["answers"] == 90
        assert [got[kind][key] for key in ("forked", "nested", "synced")] == [89, 16, 32]
    for kind in ("synced", "own"):
        assert got[kind]["same"] == got[kind]["answers"]
    assert f"so are the {got['synced']['same'] + got['own']['same']} that were also asked one by one" in PAGE
    users = got["users"]
    assert [users[key] for key in ("answers", "same", "left", "plain", "plain_same")] == [37, 37, 19, 8, 8]
    assert users["blocks_leaked"] == users["requests_left"] == 0
    assert "90 answers of 90" in PAGE and "89 fork, 16 of them nested, 32 have a sync" in " ".join(PAGE.split())


def test_the_hosts_part() -> None:
    got = report("inside-vllm-host.json")
    now, before = (next(value for key, value in got.items() if word in key) for word in ("bursts of 16", "adc7849"))
    assert rows("turns of vLLM's scheduler for 64 answers") == [
        [each["users"]["turns_of_the_scheduler"] for each in (before, now)]
    ]
    assert rows("µs a token, 64 answers") == [[each["users"]["us_a_row"] for each in (before, now)]]
    steps = [round(us) for each in (before, now) for us in each["us_a_step_of_one_answer"].values()]
    assert rows("µs a step, one answer of 1, 4, 16, 32 threads") == [steps]
