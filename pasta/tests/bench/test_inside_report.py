"""The figures of threads inside vLLM in docs/engines.md are those of the reports that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
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
    got = report("inside-vllm-h200-2.json")
    ratios = rows("threads in terms of that")
    for index, (name, own, stock) in enumerate(
        [
            ("shape llama-3-8b", rows("8B shape: threads of one answer")[0],
             rows("vLLM by itself, as many requests (asynchronous scheduling)")[0]),
            ("the default model", rows("default model: threads of one answer")[0], rows("vLLM by itself")[0]),
        ]
    ):  # fmt: skip
        ours = [each["ms"] for each in got[name]["threads"]["step_ms"].values()]
        theirs = list(got[name]["vLLM by itself"]["step_ms"].values())
        assert own == [round(ms + 1e-9, 2) for ms in ours]
        assert stock == [round(ms + 1e-9, 2) for ms in theirs]
        assert ratios[index] == [round(a / b, 2) for a, b in zip(ours, theirs, strict=True)]


def test_speedups_and_users() -> None:
    got = report("inside-vllm-h200-2.json")
    for label, name, key in (
        ("8B shape, 50 responses", "shape llama-3-8b", "replays"),
        ("default model, 50 responses", "the default model", "replays"),
        ("default model, 20 answers of its own", "the default model", "answers"),
    ):
        found = got[name]["threads"][key]
        row = rows(label)[0]
        assert row[:3] == [found["real"], found["theory"], found["share"]], label
    ours, theirs = (got["the default model"][kind]["load"] for kind in ("threads", "vLLM by itself"))
    for number in (ours["tokens_per_s"], theirs["tokens_per_s"], ours["tokens"]):
        assert f"{number:,}" in PAGE
    assert f"**{ours['tokens_per_s'] / theirs['tokens_per_s']:.2f}** of it" in PAGE


def test_the_hosts_part() -> None:
    got = report("inside-vllm-host.json")
    now, before = (next(value for key, value in got.items() if word in key) for word in ("bursts of 16", "adc7849"))
    assert rows("turns of vLLM's scheduler for 64 answers") == [
        [each["users"]["turns_of_the_scheduler"] for each in (before, now)]
    ]
    assert rows("µs a token, 64 answers") == [[each["users"]["us_a_row"] for each in (before, now)]]
    steps = [round(us) for each in (before, now) for us in each["us_a_step_of_one_answer"].values()]
    assert rows("µs a step, one answer of 1, 4, 16, 32 threads") == [steps]
