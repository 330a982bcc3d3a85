"""Several runs of one recipe: differences within each, their mean and spread, and an interval over prompts."""

from __future__ import annotations

import pytest

from pasta.eval import seeds
from pasta.eval.seeds import of_seeds, seed_page


def answer(right: list[int], path: int, wins: float | None = None) -> dict:
    row = {"tokens": 100, "content_tokens": 100, "critical_path": path, "marks": {"parts": right, "end": right[0]}}
    return {**row, "wins": {"j": wins}} if wins is not None else row


def run(own: list[list[int]], path: int, prompts: str = "several4-gsm8k_dev") -> dict:
    model = {str(n): answer(right, path, 0.6) for n, right in enumerate(own)}
    return {prompts: {"pasta": model, "baseline": {str(n): answer([1, 0], 100) for n in range(len(own))}}}


def test_differences_are_taken_within_a_run() -> None:
    runs = {"0": run([[1, 1], [1, 1], [1, 0]], 50), "1": run([[0, 0], [1, 0], [1, 0]], 25)}
    found = of_seeds(runs, "pasta", "baseline", "j")["several4-gsm8k_dev"]
    over = found["over_reference"]
    assert over["each"] == pytest.approx([2 / 6, -1 / 6]) and over["mean"] == pytest.approx(1 / 12)
    assert over["pooled"]["value"] == pytest.approx(1 / 12) and over["pooled"]["prompts"] == 3
    assert over["spread"] == pytest.approx(0.5 / 2**0.5)
    assert over["pooled"]["low"] <= 0 < over["pooled"]["high"], "the first prompt, drawn thrice, shows no difference"
    assert found["end_over_reference"]["each"] == pytest.approx([0, -1 / 3])
    speed = found["theoretical_speedup"]
    assert speed["each"] == pytest.approx([2, 4]) and speed["pooled"]["value"] == pytest.approx(8**0.5)
    assert found["wins"]["mean"] == pytest.approx(60)


def test_a_prompt_that_lacks_a_judgement_leaves_the_others_theirs() -> None:
    runs = {"0": run([[1, 1]] * 3, 50), "1": run([[1, 1]] * 3, 50)}
    del runs["0"]["several4-gsm8k_dev"]["pasta"]["1"]["wins"]
    runs["1"]["several4-gsm8k_dev"]["pasta"]["1"]["wins"] = {"j": 0.0}
    found = of_seeds(runs, "pasta", "baseline", "j")["several4-gsm8k_dev"]
    assert (found["prompts"], found["wins"]["prompts"]) == (3, 2)
    assert found["wins"]["each"] == pytest.approx([60, 60])
    assert "wins" not in of_seeds(runs, "pasta", "baseline", "another")["several4-gsm8k_dev"]


def test_only_prompts_that_all_have_answered_count() -> None:
    runs = {"0": run([[1, 1]] * 4, 50), "1": run([[1, 1]] * 2, 50)}
    assert of_seeds(runs, "pasta", "baseline")["several4-gsm8k_dev"]["prompts"] == 2
    assert not of_seeds({"0": runs["0"]}, "pasta", "baseline"), "one run has no spread"
    assert not of_seeds({**runs, "1": {}}, "pasta", "baseline")


def test_a_run_that_answered_less_than_half_leaves_the_others_their_prompts() -> None:
    runs = {"0": run([[1, 1]] * 5, 50), "1": run([[1, 1]] * 5, 50), "2": run([[1, 1]] * 2, 50)}
    found = of_seeds(runs, "pasta", "baseline")["several4-gsm8k_dev"]
    assert found["seeds"] == ["0", "1"] and found["prompts"] == 5


def test_the_table_tells_each_seed_and_its_steps() -> None:
    runs = {"0": run([[1, 1], [1, 0]], 50), "2": run([[1, 0], [1, 0]], 50)}
    steps = {"0": {"pasta": 184, "baseline": 237}, "2": {"pasta": 184, "baseline": 184}}
    page = "\n".join(seed_page(of_seeds(runs, "pasta", "baseline"), steps, {}))
    assert "seed 0: `pasta` 184 steps, `baseline` 237 steps; seed 2: `pasta` 184 steps" in page
    assert "| asked | measured | seed 0 | seed 2 | mean | spread | all, 95 % | prompts |" in page
    assert "| four sums | right parts over the reference, points | 25.0 | 0.0 | 12.5 | 17.7 | 12.5 [" in page
    assert "| four sums | theoretical speedup | 2.00 | 2.00 | 2.00 | 0.00 | 2.00 | 2 |" in page
    assert not list(seed_page({}, {}, {}))


def test_the_clock_counts_where_all_runs_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "FEWEST_TIMED", 1)
    runs = {"0": run([[1, 1]] * 3, 50), "1": run([[1, 1]] * 3, 50)}
    for own, seconds in (("0", (4.0, 2.0)), ("1", (9.0, 1.0))):
        for model, took in zip(("baseline", "pasta"), seconds, strict=True):
            for id in ("0", "1") if own == "0" else ("1", "2"):
                runs[own]["several4-gsm8k_dev"][model][id]["timed"] = {"seconds": took}
    clock = of_seeds(runs, "pasta", "baseline")["several4-gsm8k_dev"]["realised_speedup"]
    assert clock["prompts"] == 1 and clock["each"] == pytest.approx([2, 9])
    assert clock["pooled"]["value"] == pytest.approx(18**0.5)
    monkeypatch.setattr(seeds, "FEWEST_TIMED", 2)
    assert "realised_speedup" not in of_seeds(runs, "pasta", "baseline")["several4-gsm8k_dev"]


def test_the_page_says_whether_the_data_was_the_same() -> None:
    found = of_seeds({"0": run([[1, 1]] * 2, 50), "1": run([[1, 0]] * 2, 50)}, "pasta", "baseline")
    steps = {"0": {"pasta": 184}, "1": {"pasta": 180}}
    assert "The same recipe and data, seed 0" in "\n".join(seed_page(found, steps, {"0": 90, "1": 90}))
    anew = "\n".join(seed_page(found, steps, {"0": 90, "1": 80}))
    assert "The same recipe, its data drawn anew (90 and 80 examples), seed 0" in anew
