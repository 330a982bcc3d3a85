"""The figures of docs/engines.md are those of the report that it names; and the comparison compares."""

import json
from pathlib import Path

from pasta.bench.remote import total

PROJECT = Path(__file__).parents[2]


def test_figures_are_those_of_the_report():
    page = (PROJECT / "docs" / "engines.md").read_text("utf-8")
    report = json.loads((PROJECT / "benchmarks" / "results" / "remote-vllm-cpu.json").read_text())
    summed = total(report["rows"])
    assert summed == report["total"]
    cells = [
        f"{summed['same']} of {summed['questions']} |",
        f"| answers that fork | {summed['forked']} |",
        f"{summed['requests']}; {summed['corrections']} |",
        f"| {summed['cached_share']:.1%}".replace("%", " %"),
        f"| {summed['server_parallel_s']:.0f}, {summed['server_sequential_s']:.0f} |",
        f"| {summed['native_parallel_s']:.0f}, {summed['native_sequential_s']:.0f} |",
    ]
    assert [cell for cell in cells if cell not in page] == []


def test_one_different_answer_is_counted():
    row = json.loads((PROJECT / "benchmarks" / "results" / "remote-vllm-cpu.json").read_text())["rows"][0]
    assert total([row, {**row, "same_sequential": False}])["same"] == 1
