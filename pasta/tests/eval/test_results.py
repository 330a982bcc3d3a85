"""docs/results.md and the pages of evaluations are what their script makes of the saved figures: no number is typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pasta.eval.goals import goal_rows

DOCS = Path(__file__).parents[2] / "docs"


Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def results() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec = spec_from_file_location("make_results", DOCS / "make_results.py")
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def found(results: ModuleType) -> Found:
    """All evaluations, made of their rows: what takes long, once."""
    made: Found = results.evaluations()
    return made


def test_the_page_is_what_its_script_makes(results: ModuleType, found: Found) -> None:
    assert results.page(found) == (DOCS / "results.md").read_text("utf-8"), "run: python pasta/docs/make_results.py"


def test_every_evaluation_has_its_page(results: ModuleType, found: Found) -> None:
    saved = {path.stem: path.read_text("utf-8") for path in (DOCS / "results").glob("*.md")}
    assert sorted(saved) == sorted(found) == sorted(results.TOLD)
    for name, summary in found.items():
        assert results.experiment(name, summary) == saved[name], "run: python pasta/docs/make_results.py"
        assert all(command in saved[name] for command in summary["commands"])


def test_figures_that_are_saved_are_those_of_their_rows(results: ModuleType, found: Found) -> None:
    for name, summary in found.items():
        saved = json.loads((results.RESULTS / f"eval-{name}.json").read_text("utf-8"))
        assert is_near(saved, json.loads(json.dumps(summary))), "run: python pasta/docs/make_results.py"


def test_what_differs_in_its_last_digits_stays_as_it_was_saved(results: ModuleType) -> None:
    saved = {"a": [0.1, 2.0, 3], "b": {"c": 0.30000000000000004}, "gone": 1.0}
    made = {"a": [0.1 + 1e-16, 2.1, 4], "b": {"c": 0.3, "new": 0.5}}
    assert results.settled(saved, made) == {"a": [0.1, 2.1, 4], "b": {"c": 0.30000000000000004, "new": 0.5}}
    assert results.settled({"a": [1.0]}, {"a": [1.0, 2.0]}) == {"a": [1.0, 2.0]}


def is_near(one: Any, other: Any) -> bool:
    """The same but for the last digits, which are the machine's."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_near(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_near, one, other))
    return bool(one == pytest.approx(other, abs=2e-5)) if isinstance(one, float) else bool(one == other)


def test_no_measured_number_of_the_page_is_typed(results: ModuleType) -> None:
    """In the words are goals and sizes of models; all else is a place in the figures."""
    words = re.sub(r"\{.*?\}|\]\(.*?\)|`.*?`", "", results.WORDS["page"])
    assert set(re.findall(r"\d+\.\d+", words)) <= {"1.5", "2.5", "2.0", "1.7", "1.3", "0.2"}
    assert set(re.findall(r"(\d+) ?%", words)) <= {"95", "50", "5"}


def test_a_changed_figure_changes_the_page_of_all(results: ModuleType, found: Found) -> None:
    told = found[results.WORDS["headline"]]["tasks"]["several4-mbpp_dev"]["pasta"]["over_reference"]
    page, saved = results.page(found), dict(told)
    assert "| 4 functions (MBPP) | -0.3 | -2.2 to 1.6 | 248 | **no** |" in page
    told.update(value=0.123, low=0.1, high=0.15)
    try:
        changed = results.page(found)
    finally:
        told.update(saved)
    assert "| 4 functions (MBPP) | 12.3 | 10.0 to 15.0 | 248 | yes |" in changed
    assert "| 4 functions (MBPP) | 12.3 [10.0, 15.0] (248) | – | 1.96 " in changed
    assert "difference in accuracy, 12.3 [10.0, 15.0] points" in " ".join(changed.split())


def test_all_that_was_asked_of_the_adapter_that_ships_stands_on_the_page(results: ModuleType, found: Found) -> None:
    page = results.page(found)
    lines = [
        line.split(" | ") for line in page.partition("| target | model |")[2].partition("\n\n")[0].splitlines()[2:]
    ]
    told = sorted((line[3].partition(" (")[0], *line[4:6], line[6].strip("* |")) for line in lines if line[1] == "1.5B")
    asked = [row[2:] for row in goal_rows(found[results.WORDS["headline"]]) if row[1].startswith("`pasta`")]
    assert len(asked) > 25 and [row for row in map(tuple, asked) if row not in told] == []


def test_the_table_of_tasks_in_the_readme_is_what_the_script_makes(results: ModuleType, found: Found) -> None:
    text = results.README.read_text("utf-8")
    assert results.readme(text, found) == text, "run: python pasta/docs/make_results.py"
    spoiled = text.replace("| 4 functions (MBPP) | ", "| 4 functions (MBPP) | 9.9, or ")
    assert spoiled != text and results.readme(spoiled, found) == text


def test_a_target_without_plain_words_is_told_as_it_is(results: ModuleType, found: Found) -> None:
    """All words for targets are used: one that a report words otherwise would be shown as the report has it."""
    page = results.page(found)
    assert [words for words in results.WORDS["goals"].values() if f"| {words} |" not in page] == []
    assert [told for told in results.WORDS["goals"] if f"| {told} |" in page] == []


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
    page = results.experiment("x", results.evaluations()["x"])
    assert "1.23 [1.10, 1.40]" in page and "pasta eval answers DIR" in page and "`fast`" in page
    assert "| `fast` | 9 | 0% | 0% | 0% | 33% | 67% | 0% |" in page, "the histogram of promised lengths"
    figure["value"] = 1.345
    (tmp_path / "eval-x.json").write_text(json.dumps(summary), "utf-8")
    assert results.experiment("x", results.evaluations()["x"]) != page


def test_goals_of_tasks_are_met_by_what_was_measured(results: ModuleType) -> None:
    def told(low: float, clock: float, syncs: float) -> dict:
        over = {"value": low + 0.01, "low": low, "high": low + 0.02, "prompts": 9}
        speed = {"value": clock, "low": clock, "high": clock, "prompts": 9}
        syncing = {"value": syncs, "low": syncs - 0.01, "high": syncs + 0.01, "prompts": 9}
        return {"parts": 36, "over_reference": over, "realised_speedup": speed, "syncing": syncing}

    tasks = {"several4-x": {"pasta": told(-0.019, 2.5, 0.0)}, "gather-x": {"pasta": told(-0.021, 1.6, 0.95)},
             "chain-x": {"baseline": told(-0.5, 1.0, 0.0)}}  # fmt: skip
    end = {"value": -0.05, "low": -0.09, "high": -0.01, "prompts": 9}
    made = {"mean_error": 3.9, "mean_error_constant": 3.1}
    tasks["gather-x"]["pasta"] |= {"end_over_reference": end, "promises": made}
    promised = {"pasta": {"correlation": 0.69}, "baseline": None}
    page = "\n".join(results.asked_for({"tasks": tasks, "promises": promised}))
    assert "| `pasta` on `several4-x` | -0.9 | -1.9 to 0.1 | 9 | yes |" in page
    assert "| realised speedup of 2.0 or more | `pasta` on `several4-x` | 2.50 | 2.50 to 2.50 | 9 | yes |" in page
    assert "| `pasta` on `gather-x` | -1.1 | -2.1 to -0.1 | 9 | no |" in page
    assert "| realised speedup of 1.7 or more | `pasta` on `gather-x` | 1.60 | 1.60 to 1.60 | 9 | no |" in page
    assert "| syncs in over 90 % of the answers | `pasta` on `gather-x` | 95 | 94 to 96 | 9 | yes |" in page
    assert "| `pasta` on `gather-x` | -5.0 | -9.0 to -1.0 | 9 | no |" in page, "what needs all"
    assert "which errs by 3.1 units | `pasta` on `gather-x` | 3.9 | – | – blocks | no |" in page
    assert "on all tasks together | 0.69 | – | – blocks | no |" in page and "chain" not in page
    assert not list(results.asked_for({"models": {}}))


def test_goals_of_chats_are_those_of_a_first_model_or_of_one_that_replaces_another() -> None:
    def told(clock: float, wins: float, repeating: float) -> dict:
        def figure(value: float) -> dict:
            return {"value": value, "low": value - 1, "high": value + 1, "prompts": 9}

        judged = {"j": {"lc_win_rate": figure(wins)}}
        return {"realised_speedup": figure(clock), "judged": judged, "redundancy": {"blocks_repeat": figure(repeating)}}

    def met(models: dict) -> list[tuple[str, str]]:
        return [(row[0], row[-1]) for row in goal_rows({"prompts": "chats", "models": models})]

    assert met({"pasta": told(1.31, 49.9, 0.5), "baseline": told(1, 50, 0)}) == [
        ("realised speedup of 1.3 or more", "yes"),
        ("wins against the reference of 50 % or more (judge `j`)", "no"),
    ]
    replacing = {"new": told(1.31, 60.5, 0.04), "today": told(1.36, 60.5, 0.1), "untagged": told(1, 48.5, 0)}
    assert met(replacing) == [
        ("realised speedup of `today`'s, 1.36, or more", "no"),
        ("wins against the reference of `today`'s, 60.5 %, or more (judge `j`)", "yes"),
        ("without tags at most 2 points below a draw, the whole interval (judge `j`)", "no"),
        ("blocks that repeat in at most 5 % of the answers that fork", "yes"),
    ]
    unclean = {"value": 0.021, "low": 0.01, "high": 0.03, "prompts": 9}
    replacing["new"]["redundancy"]["topics_unclean"] = unclean
    assert met(replacing)[-1] == ("topics that read well: at most 2 % are cut off, too long or say nothing", "no")
    assert goal_rows({"prompts": "x", "models": {"pasta": told(9, 9, 9)}, "tasks": {"x": {}}}) == []


def test_a_saved_evaluation_says_how_its_models_were_trained(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pasta.eval.contestants import Contestant
    from pasta.eval.folder import RunFolder

    record = {"config": {"learning_rate": 5e-4, "lora_rank": 8, "epochs": 1, "seed": 0}, "examples": 3215,
              "tagged": 2400, "tokens": 2_813_977, "steps": 233, "seconds": 81.4, "loss": 0.2}  # fmt: skip
    (tmp_path / "pasta").mkdir()
    (tmp_path / "pasta" / "training.json").write_text(json.dumps(record), "utf-8")
    who = [Contestant("pasta", str(tmp_path / "pasta")), Contestant("bare", str(tmp_path / "pasta"), "plain")]
    monkeypatch.setattr(RunFolder, "contestants", lambda _: who)
    found = results.trained(RunFolder(tmp_path))
    assert list(found) == ["pasta"]
    page = "\n".join(results.training(found))
    assert "| `pasta` | 3,215 | 2,400 | 2,813,977 | 233 | 8 | 0.0005 | 1 | 0 | 81 |" in page


def test_other_seeds_are_saved_as_rows_and_stand_beside_the_first(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(right: int) -> dict:
        def answer(parts: list[int]) -> dict:
            return {"tokens": 9, "content_tokens": 9, "critical_path": 3, "marks": {"parts": parts, "end": None}}

        models = {"pasta": {"0": answer([right, 1])}, "baseline": {"0": answer([0, 1])}}
        return {"several4-gsm8k_dev": models}

    class Folder:
        def __init__(self, place: str):
            self.place = place

        def require(self) -> dict:
            return {"commands": ["python run.py evaluate --models pasta"]}

    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "RunFolder", Folder)
    monkeypatch.setattr(results, "collect", lambda folder: run(0))
    trained = {"pasta": {"steps": 184, "examples": 9}, "apar": {"steps": 7}}
    monkeypatch.setattr(results, "trained", lambda folder: trained)
    first = {"trained": {"pasta": {"steps": 190, "examples": 9}}}
    (tmp_path / "eval-x.json").write_text(json.dumps(first), "utf-8")
    results.write(run(1), str(results.rows_path("x")))
    assert not list(results.seeds("x"))
    results.save_seeds("x", {"1": "some/folder"})
    page = "\n".join(results.seeds("x"))
    assert "The same recipe and data, seed 0: `pasta` 190 steps; seed 1: `pasta` 184 steps." in page
    assert "| four sums | right parts over the reference, points | 50.0 | 0.0 | 25.0 | 35.4 | 25.0 | 1 |" in page


def test_rivals_stand_beside_each_other_with_their_budgets(results: ModuleType) -> None:
    def figure(value: float) -> dict:
        return {"value": value, "low": value - 0.01, "high": value + 0.01, "prompts": 9}

    def told(over: float) -> dict:
        return {"over_reference": figure(over), "end_over_reference": None, "theoretical_speedup": figure(2.5)}

    specs = {"baseline": "baseline=baseline", "pasta": "pasta=pasta", "split": "split=baseline@separate"}
    summary = {
        "against": "baseline", "specs": specs, "trained": {"baseline": {"steps": 237, "seconds": 214.6}},
        "tasks": {"several4-gsm8k_dev": {"baseline": told(0.0), "pasta": told(0.02), "split": told(-0.03)}},
    }  # fmt: skip
    page = "\n".join(results.rivals(summary))
    assert "| `pasta` | `pasta` | as trained | – | 2.0 [1.0, 3.0] (9) | – |" in page
    assert "| `split` | `baseline` | separate | 237 in 215 s | -3.0 [-4.0, -2.0] (9) | – |" in page
    assert "| `baseline` | `baseline` | as trained | 237 in 215 s | – | – |" in page
    assert not list(results.rivals({**summary, "specs": {"baseline": "", "pasta": ""}})), "two are no field"


def test_lengths_that_a_decoder_could_promise_are_told_set_by_set(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    assert not list(results.probed("x"))
    rows = [["a", 4, 5, 5.5, 6], ["a", 4, 6, 6.5, 8], ["b", 9, 9, 9.0, 9]]
    columns = ["set", "likeliest", "median", "mean", "written"]
    saved = {"command": "python it.py", "unit": 10, "columns": columns, "rows": rows}
    (tmp_path / "promised-lengths-x.json").write_text(json.dumps(saved), "utf-8")
    page = "\n".join(results.probed("x"))
    assert "| `a` | 2 | –; 3.00; 100% | 1.00; 1.50; 100% | 1.00; 1.00; 100% | 1.00 |" in page
    assert "| `b` | 1 | –; 0.00; 0% |" in page and "| all | 3 |" in page and "`python it.py`" in page


def test_the_middle_of_a_distribution_over_lengths() -> None:
    spec = spec_from_file_location("promised_lengths", DOCS.parent / "benchmarks" / "promised_lengths.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    odds = [(3, 0.3), (4, 0.1), (9, 0.4)]  # of twenty tokens, with less than all the mass
    assert module.median(odds) == 4 and module.mean(odds) == pytest.approx(4.9 / 0.8)
    assert module.median([(7, 0.01)]) == 7
