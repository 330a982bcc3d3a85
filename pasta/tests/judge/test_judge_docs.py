"""docs/judge.md: its example runs, and its figures are those of the saved report."""

import json
import re
from pathlib import Path

import pytest

from pasta.judge.open import KINDS
from pasta.judge.report import markdown

PASTA = Path(__file__).parents[2]
PAGE = (PASTA / "docs" / "judge.md").read_text("utf-8")


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "judge.md", "exec"), names)
    asked = names["Comparison"](prompt="Why?", reference="So.", answer="Because it is so.")
    assert names["judge"].compare([asked]) == [1.0]


def test_every_judge_is_named():
    for line in KINDS.splitlines():
        assert f"`{line.split()[0].replace('_OR_HUB_NAME', '')}`" in PAGE


def test_the_table_is_the_report():
    report = json.loads((PASTA / "benchmarks" / "results" / "judge-h200.json").read_text("utf-8"))
    assert markdown(report).strip() in PAGE, (
        "python -m pasta.judge report prints it; the JSON is the folder's report.json"
    )


@pytest.mark.parametrize("path", re.findall(r"`(benchmarks/results/\S+?)`", PAGE))
def test_files_that_are_named_exist(path):
    assert (PASTA / path).is_file()
