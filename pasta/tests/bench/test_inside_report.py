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
    """Threads and vLLM by itself at 1, 4 and 16; at 32 both are the earlier run's."""
    runs = report("inside-vllm-h200-3.json"), report("inside-vllm-h200-2.json")
    widths = [(runs[0], "1"), (runs[0], "4"), (runs[0], "16"), (runs[1], "32")]
    ratios = rows("threads in terms of that")
    for index, (name, own, stock) in enumerate(
        [
            ("shape llama-3-8b", rows("8B shape: threads of one answer")[0],
             rows("vLLM by itself, as many requests (asynchronous scheduling)")[0]),
            ("the default model", rows("default model: threads of one answer")[0], rows("vLLM by itself")[0]),
        ]
    ):  # fmt: skip
        ours = [got[name]["threads"]["step_ms"][width]["ms"] for got, width in widths]
        theirs = [got[name]["vLLM by itself"]["step_ms"][width] for got, width in widths]
        assert own == [round(ms + 1e-9, 2) for ms in ours]
        assert stock == [round(ms + 1e-9, 2) for ms in theirs]
        assert ratios[index] == [round(a / b, 2) for a, b in zip(ours, theirs, strict=True)]
    now = [runs[0][name]["vLLM by itself"]["step_ms"]["32"] for name in ("shape llama-3-8b", "the default model")]
    assert "took {:.2f} and {:.2f} ms this time".format(*now) in PAGE


def test_speedups() -> None:
    for label, run, name, key in (
        ("8B shape, 20 responses", 3, "shape llama-3-8b", "replays"),
        ("8B shape, 50 responses, earlier", 2, "shape llama-3-8b", "replays"),
        ("default model, 20 responses", 3, "the default model", "replays"),
        ("default model, 50 responses, earlier", 2, "the default model", "replays"),
        ("default model, 20 answers of its own", 3, "the default model", "answers"),
    ):
        found = report(f"inside-vllm-h200-{run}.json")[name]["threads"][key]
        (row,) = rows(label)
        assert row == [found[kind] for kind in ("real", "theory", "share", "least") if kind in found], label
        assert f"{found['count']} " in label


def test_users() -> None:
    got = report("inside-vllm-h200-3.json")["the default model"]
    ours, theirs = (got[kind]["load"] for kind in ("threads", "vLLM by itself"))
    for number in (ours["tokens_per_s"], theirs["tokens_per_s"], ours["tokens"]):
        assert f"{number:,}" in PAGE
    assert f"**{ours['tokens_per_s'] / theirs['tokens_per_s']:.2f}** of it" in PAGE
    spread = [f"{end(each['all']):,}" for each in (ours, theirs) for end in (min, max)]
    assert "{}\nto {} and {} to {}".format(*spread) in PAGE


def test_answers_are_the_same() -> None:
    got = report("inside-vllm-h200-3.json")["exact"]
    for kind in ("together_burst16", "together_burst1"):
        assert got[kind]["same"] == got[kind]["answers"] == 90
        assert [got[kind][key] for key in ("forked", "nested", "synced")] == [89, 16, 32]
    assert got["synced"]["same"] + got["own"]["same"] == 90
    users = got["users"]
    assert [users[key] for key in ("answers", "same", "left", "plain", "plain_same")] == [37, 37, 19, 8, 8]
    assert users["blocks_leaked"] == users["requests_left"] == 0
    assert "90 answers of 90" in PAGE and "89 fork, 16 of them nested, 32 have a sync" in PAGE


def test_the_hosts_part() -> None:
    got = report("inside-vllm-host.json")
    now, before = (next(value for key, value in got.items() if word in key) for word in ("bursts of 16", "adc7849"))
    assert rows("turns of vLLM's scheduler for 64 answers") == [
        [each["users"]["turns_of_the_scheduler"] for each in (before, now)]
    ]
    assert rows("µs a token, 64 answers") == [[each["users"]["us_a_row"] for each in (before, now)]]
    steps = [round(us) for each in (before, now) for us in each["us_a_step_of_one_answer"].values()]
    assert rows("µs a step, one answer of 1, 4, 16, 32 threads") == [steps]
