"""The measures of a judge: known answers on made-up boards."""

import numpy as np
import pytest

from pasta.judge.agreement import Board, fit_scale, length_slope, measure
from pasta.judge.preferences import Answer, Contest


def board_of(prompts=60, seed=0):
    """Five models of rising quality; length is noise, and also grows with quality."""
    rng = np.random.default_rng(seed)
    contests = []
    for number in range(prompts):

        def answer(model, odds, length, number=number):
            return Answer(f"Q{number}", model, "x" * int(length), float(1 / (1 + np.exp(-odds))))

        answers = [
            answer(f"m{k}", k - 3 + rng.normal(), 50 * 2 ** (k / 2) * np.exp(rng.normal(0, 0.5))) for k in range(5)
        ]
        contests.append(Contest(f"Q{number}", answer("ref", 0, 200), tuple(answers)))
    return Board.of(contests)


@pytest.fixture(scope="module")
def board():
    return board_of()


def test_gpt4_agrees_with_itself(board):
    report = measure(board, board.logit)
    assert {row["rate"] for row in report["agreement"].values() if row["pairs"]} == {1.0}
    assert report["spearman_of_models"] == pytest.approx(1)
    assert report["calibration_error"] < 1e-9
    assert report["agreement"]["models"]["pairs"] == 60 * 10
    assert report["agreement"]["with_reference"]["pairs"] == 60 * 5


def test_its_opposite_never_does(board):
    report = measure(board, [-odds for odds in board.logit])
    assert {row["rate"] for row in report["agreement"].values() if row["pairs"]} == {0.0}
    assert report["spearman_of_models"] == pytest.approx(-1)


def test_an_undecided_judge_is_right_half_the_time(board):
    report = measure(board, [0 * odds for odds in board.logit])
    assert {row["rate"] for row in report["agreement"].values() if row["pairs"]} == {0.5}


def test_length_alone(board):
    report = measure(board, board.length)
    rates = {name: row["rate"] for name, row in report["agreement"].items()}
    assert rates["models_shorter_is_better"] == 0 and rates["models_longer_is_better"] == 1
    assert 0.6 < rates["models"] < 0.9
    assert report["reward_and_length"] == pytest.approx(1)
    low, high = report["agreement"]["models"]["interval"]
    assert low < rates["models"] < high


def test_the_slope_of_length_is_found_apart_from_quality(board):
    """Quality and length correlate, since better models write more; only the slope within a model is length's."""
    rng = np.random.default_rng(1)
    quality = [m.astype(float) for m in board.models]
    rewards = [
        2 * q + 0.7 * x + 5 * n + rng.normal(0, 0.01, len(x))
        for n, (q, x) in enumerate(zip(quality, board.length, strict=True))
    ]
    assert length_slope(board, rewards) == pytest.approx(0.7, abs=0.01)
    plain = np.polyfit(
        np.concatenate([x - x.mean() for x in board.length]), np.concatenate([r - r.mean() for r in rewards]), 1
    )[0]
    assert plain > 1.5, "what plain regression would take off"


def test_the_scale_makes_log_odds(board):
    assert fit_scale(board, [odds / 4 for odds in board.logit]) == pytest.approx(4, rel=0.03)
