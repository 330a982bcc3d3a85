"""`python -m benchmarks` as it is typed."""

import json
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.__main__ import app


def bench(*words: str):
    return CliRunner().invoke(app, words)


def test_a_part_as_table_and_as_json() -> None:
    shown = bench("--part", "analysis", "--only", "wheels")
    assert shown.exit_code == 0, shown.output
    assert "4  4/4  3/3  3/3" in shown.stdout and "3 of 3 pairs exact" in shown.stdout
    found = json.loads(bench("--part", "analysis", "--only", "wheels", "--json").stdout)
    assert found["analysis"]["exact"] == 3 and found["machine"]["cores"]


def test_a_folder_keeps_json_pictures_and_what_is_done(tmp_path: Path) -> None:
    words = ("--part", "plans", "--only", "wheels", "--output", str(tmp_path))
    first = bench(*words)
    assert first.exit_code == 0, first.output
    assert "Gain of the best plan" in first.stdout
    kept = {file.name for file in tmp_path.iterdir()}
    assert kept == {"cells.jsonl", "references.jsonl", "plans.json", "gains.png", "frontiers.png"}
    before = (tmp_path / "cells.jsonl").read_text()
    assert bench(*words).stdout == first.stdout
    assert (tmp_path / "cells.jsonl").read_text() == before
    figures = json.loads((tmp_path / "plans.json").read_text())
    assert figures["command"].startswith("python -m benchmarks --quick --part plans --only wheels --output")
    assert {cell["plan"] for cell in figures["cells"]} == {None, 0, 1, 2, 3}


def test_mistakes_are_named() -> None:
    assert "there are noise, radar" in bench("--only", "nose").output.replace("\n", " ")
    full = bench("--full", "--part", "analysis")
    assert full.exit_code == 2 and "--output" in full.output
