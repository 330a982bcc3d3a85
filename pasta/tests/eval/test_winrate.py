"""Win rates, and judging, on cases made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pasta.errors import UsageError
from pasta.eval.intervals import mean_of, statistic_of
from pasta.eval.winrate import at_equal_length, win_rates

Stage = Callable[..., str]


def seeded_case() -> tuple[np.ndarray, np.ndarray]:
    """600 prompts whose judge likes length, and a model that is a little better and a little longer or shorter."""
    draw = np.random.default_rng(0)
    reference, own = draw.integers(100, 1500, 600), draw.integers(100, 1500, 600)
    lengths = (reference - own) / (reference - own).std(ddof=1)
    wins = 1 / (1 + np.exp(-(0.3 - 1.2 * np.tanh(lengths) + draw.normal(0, 0.5, 600))))
    return wins, lengths


def test_a_judge_that_only_likes_length_finds_nobody_better_at_equal_length() -> None:
    """The longer answer wins nine times in ten; ours is the longer one three times in four."""
    own = [300, 300, 300, 100] * 30
    wins = [0.9, 0.9, 0.9, 0.1] * 30
    found = win_rates(wins, list(zip(own, [200] * len(own), strict=True)))
    assert found["win_rate"].value == pytest.approx(70)
    assert found["lc_win_rate"].value == pytest.approx(50, abs=0.2)


def test_without_any_difference_in_length_control_changes_nothing() -> None:
    found = win_rates([0.6, 0.4, 0.8, 0.6] * 10, list(zip([200] * 40, [200] * 40, strict=True)))
    assert found["lc_win_rate"].value == pytest.approx(found["win_rate"].value) == pytest.approx(60)


def test_the_regression_finds_the_maximum_of_the_likelihood() -> None:
    wins, lengths = seeded_case()
    found = at_equal_length(wins, lengths)
    assert found == pytest.approx(0.564935, abs=1e-5)  # so says scikit-learn's regression without a penalty, too

    def likelihood(constant: float, slope: float) -> float:
        rates = 1 / (1 + np.exp(-constant - slope * np.tanh(lengths)))
        return float((wins * np.log(rates) + (1 - wins) * np.log(1 - rates)).sum())

    constant = float(np.log(found / (1 - found)))
    best = max(likelihood(constant, slope) for slope in np.linspace(-3, 1, 401))
    for other in (constant - 0.05, constant + 0.05):
        assert max(likelihood(other, slope) for slope in np.linspace(-3, 1, 401)) < best


def test_a_small_difference_is_not_drawn_to_a_draw_and_lies_in_its_own_interval() -> None:
    """As a penalty would: with one, a win rate can be exactly 50 while its interval lies beside it."""
    draw = np.random.default_rng(3)
    own, other = draw.integers(100, 900, 400), draw.integers(100, 900, 400)
    wins = np.clip(0.5 + 0.0003 * (own - other) + draw.normal(-0.01, 0.1, 400), 0.01, 0.99)
    found = win_rates(list(wins), list(zip(own, other, strict=True)))["lc_win_rate"]
    assert found is not None and found.value != 50 and found.low < found.value < found.high


def test_extreme_wins_do_not_break_the_regression() -> None:
    found = win_rates([1.0] * 20, list(zip(list(range(100, 120)), [100] * 20, strict=True)))
    assert 99 < found["lc_win_rate"].value <= 100
    assert win_rates([1.0] * 3, list(zip([1, 2, 3], [1, 1, 1], strict=True)))["lc_win_rate"] is None


def test_intervals_of_few_prompts_are_as_wide_as_they_must_be() -> None:
    """Plain percentiles hold what is true in 83 of 100 samples of six."""
    draw = np.random.default_rng(0)
    for count in (6, 8):
        found = [mean_of(list(draw.normal(0, 1, count))) for _ in range(400)]
        assert np.mean([each.low <= 0 <= each.high for each in found]) > 0.9
    [one, two] = [mean_of(values) for values in ([3.0], [1.0, 3.0])]
    assert (one.low, one.high) == (3, 3) and (two.low, two.high) == (1, 3)


def test_intervals_cover_what_they_should() -> None:
    """Of 100 samples of a known mean, nearly all intervals hold it."""
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        figure = mean_of(list(draw.exponential(2.0, 60)))
        held += figure.low <= 2.0 <= figure.high
    assert 85 <= held <= 100
    geometric = mean_of([1.0, 4.0], "geometric")
    assert geometric.value == pytest.approx(2.0) and geometric.low == pytest.approx(1) and geometric.high == 4
    assert mean_of([]) is None
    values = draw.normal(size=50)
    assert statistic_of(50, lambda chosen: values[chosen].mean()).value == pytest.approx(values.mean())


def test_judging_goes_on_where_it_stopped_and_writes_alpaca_evals_files(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}@parallelism:3")
    stage("answers", tmp_path, *who, "--prompts", f"lakes={prompts}", "--max-tokens", "16", "--device", "cpu")
    judged = tmp_path / "judged" / "length" / "lakes" / "forks.jsonl"
    stage("judge", tmp_path, "--judge", "length", "--limit", "2")
    first = judged.read_text("utf-8")
    printed = json.loads(stage("judge", tmp_path, "--judge", "length", "--json"))
    assert judged.read_text("utf-8").startswith(first) and len(judged.read_text("utf-8").splitlines()) == 4
    assert printed == [{"model": "forks", "judged": 4, "win rate": pytest.approx(printed[0]["win rate"])}]
    place = tmp_path / "alpaca" / "lakes" / "forks"
    outputs = json.loads((place / "model_outputs.json").read_text("utf-8"))
    assert {row["instruction"] for row in outputs} == {q["instruction"] for q in json.loads(Path(prompts).read_text())}
    assert all(row["generator"] == "forks" and "<async>" not in row["output"] for row in outputs)
    for row in json.loads((place / "length" / "annotations.json").read_text("utf-8")):
        longer = len(row["output_2"]) - len(row["output_1"])
        assert row["preference"] == (2 if longer > 0 else 1 if longer < 0 else 1.5)
    with pytest.raises(UsageError, match="no model rival took part"):
        stage("judge", tmp_path, "--judge", "length", "--against", "rival")


def test_a_judge_without_anything_to_compare_says_what_is_missing(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(name: str, questions: str) -> None:
        who = ("--model", f"{name}={models['plain']}", "--prompts", questions, "--limit", "1")
        stage("answers", tmp_path, *who, "--max-tokens", "4", "--device", "cpu")

    lacking = f"{tmp_path} holds no answers to compare with those of baseline on lakes: "
    answer("baseline", f"lakes={prompts}")
    with pytest.raises(UsageError) as alone:
        stage("judge", tmp_path, "--judge", "length")
    assert alone.value.message == lacking + "it alone is to be judged"
    assert alone.value.hint == "let another answer them: pasta eval answers DIR --model NAME=MODEL"
    answer("late", "arithmetic")
    with pytest.raises(UsageError) as apart:
        stage("judge", tmp_path, "--judge", "length")
    assert apart.value.message == lacking + "none by late"
    answer("rival", f"lakes={prompts}")
    with pytest.raises(UsageError, match="it alone is to be judged"):
        stage("judge", tmp_path, "--judge", "length", "--model", "baseline")
    capsys.readouterr()
    stage("judge", tmp_path, "--judge", "length", "--name", "long")
    assert not (tmp_path / "judged" / "length").exists() and not (tmp_path / "alpaca" / "lakes" / "late").exists()
    assert [path.name for path in (tmp_path / "judged" / "long" / "lakes").iterdir()] == ["rival.jsonl"]
