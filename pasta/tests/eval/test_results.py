"""docs/results.md is what its script makes of the saved figures: no number on it was typed."""

from __future__ import annotations

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def results() -> ModuleType:
    spec = spec_from_file_location("make_results", DOCS / "make_results.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_its_script_makes(results: ModuleType) -> None:
    assert results.page() == (DOCS / "results.md").read_text("utf-8"), "run: python pasta/docs/make_results.py"


def test_the_plots_are_what_its_script_draws(results: ModuleType) -> None:
    drawn = [
        (target, drawing)
        for path in results.RESULTS.glob("eval-*.json")
        for target, drawing in results.plots(path.stem.removeprefix("eval-"), json.loads(path.read_text("utf-8")))
    ]
    assert len(drawn) >= 2 and all(target.read_text("utf-8") == drawing for target, drawing in drawn)


def test_saved_figures_name_no_path_of_a_machine(results: ModuleType) -> None:
    for path in results.RESULTS.glob("eval-*.json"):
        text = path.read_text("utf-8")
        assert not re.search(r'[" =@:](/[a-z]+/|~/)', text), path.name
        assert json.loads(text)["commands"], f"{path.name} does not say how it was made"


def test_a_changed_figure_changes_the_page(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = {"value": 1.234, "low": 1.1, "high": 1.4, "prompts": 9}
    model = {
        "spec": "fast=f", "answers": 9, "forking": figure, "threads_of_forking": None, "content_tokens": figure,
        "critical_path": figure, "ended": figure, "well_formed": figure, "length_within_one": None,
        "length_off_by": {"-1": 3, "0": 6}, "forking_of_lists_and_paragraphs": figure, "parallelism_of_forking": None,
        "redundancy": dict.fromkeys(
            ("repeated", "loops", "shared_by_blocks", "blocks_repeat", "topics_repeat"), None
        ),
        "realised_speedup": figure, "realised_speedup_arithmetic": figure, "theoretical_speedup": figure,
        "theoretical_speedup_of_timed": figure, "theoretical_speedup_arithmetic": figure,
        "theoretical_parallelism": figure, "judged": {"j": {"lc_win_rate": figure, "win_rate": figure}}, "tasks": {},
        "over_stage_one": {"win_rate": {"j": figure}, "speedup": figure, "repeated": figure, "loops": figure},
    }  # fmt: skip
    summary = {
        "prompts": "p", "against": "base", "beside": "sft",
        "settings": {"max_tokens": 8}, "machines": {"m": {"torch": "2"}},
        "judges": {"j": {"judge": "length", "against": "base"}}, "commands": ["pasta eval answers DIR"],
        "models": {"fast": model}, "concurrency": [],
    }  # fmt: skip
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    (tmp_path / "eval-x.json").write_text(json.dumps(summary), "utf-8")
    page = results.page()
    assert "1.23 [1.10, 1.40]" in page and "pasta eval answers DIR" in page and "`fast`" in page
    assert "| `fast` | 9 | 0% | 0% | 0% | 33% | 67% | 0% |" in page, "the histogram of promised lengths"
    figure["value"] = 1.345
    (tmp_path / "eval-x.json").write_text(json.dumps(summary), "utf-8")
    assert results.page() != page
