"""The rules by which plans are compared, on figures whose answer is known."""

import numpy as np
import pytest

from benchmarks.compare import Pair, accuracy_at_equal_time, pairs, time_to_equal_accuracy
from benchmarks.grid import Cell, Outcome
from benchmarks.published import accuracies, speedups, summary

DATASETS = 3


def outcome(seconds: float, error: float, resolution: float = 0.0) -> Outcome:
    return Outcome(seconds, {"x": error, "q": error, "r": error}, {"x": error}, resolution)


def pair(
    errors: dict[tuple[int | None, int], float], seconds: dict[int | None, float], **more: float
) -> Pair:
    """`noise` under ssi, of which plan 5 is the published default; seconds are those at 16 particles."""
    cells = {
        Cell("noise", "ssi", plan, particles, number): outcome(
            seconds[plan] * particles / 16, error * (1 + 0.1 * number), **more
        )
        for (plan, particles), error in errors.items()
        for number in range(6)
    }
    (found,) = pairs(cells, DATASETS)
    return found


STEADY = {
    (None, 16): 2.0, (None, 64): 1.0, (5, 16): 2.0, (5, 64): 1.0, (3, 16): 0.5, (3, 64): 0.25,
}  # fmt: skip


def test_gains_of_a_plan_that_is_always_better() -> None:
    """Plan 3 is twice as slow, and at the same size four times as good."""
    found = pair(STEADY, {None: 1.0, 5: 1.0, 3: 2.0})
    accuracy = accuracy_at_equal_time(found, (None, 64))
    assert accuracy.best == (3, 16) and accuracy.ratio.value == pytest.approx(2.0)
    assert accuracy.ratio.low == pytest.approx(2.0) and accuracy.ratio.high == pytest.approx(2.0)
    time = time_to_equal_accuracy(found, (None, 64))
    assert time.best == (3, 16) and time.ratio.value == pytest.approx(2.0)
    assert time.excess == pytest.approx(0.5)


def test_luck_on_one_data_set_is_no_gain() -> None:
    """Each plan is best on one data set and bad on the others, so that choosing by the others loses."""
    cells = {}
    for number in range(6):
        cells[Cell("noise", "ssi", None, 64, number)] = outcome(1.0, 1.0)
        for plan in range(DATASETS):
            error = 0.1 if number % DATASETS == plan else 2.0
            cells[Cell("noise", "ssi", plan, 64, number)] = outcome(1.0, error)
    (found,) = pairs(cells, DATASETS)
    assert accuracy_at_equal_time(found, (None, 64)).ratio.value < 1


def test_errors_too_small_to_tell_count_alike() -> None:
    exact = pair({(None, 64): 0.5, (0, 64): 0.0}, {None: 1.0, 0: 1.0}, resolution=0.05)
    gain = accuracy_at_equal_time(exact, (None, 64))
    assert gain.ratio.value == pytest.approx(np.exp(np.mean(np.log(0.5 * (1 + 0.1 * np.arange(6))))) / 0.05)


def test_the_default_is_no_worse_than_itself() -> None:
    alone = pair({(None, 16): 1.0, (None, 64): 0.5}, {None: 1.0})
    assert accuracy_at_equal_time(alone, (None, 64)).ratio.value == 1
    assert time_to_equal_accuracy(alone, (None, 64)).ratio.value == 1


def test_the_published_rules() -> None:
    """By these plan 3 reaches the default's error at 16 particles, and so does the default, near enough."""
    found = pair(STEADY, {None: 1.0, 5: 1.0, 3: 2.0})
    times, errors = list(speedups(found)), list(accuracies(found))
    assert [entry.output for entry in times] == ["x", "q", "r"]
    assert all(entry.ratio == pytest.approx(1.0) and entry.plan == 5 for entry in times)
    assert {(entry.particles, round(entry.ratio, 6)) for entry in errors} == {(16, 1.0), (64, 2.0)}
    assert summary(errors)["mean"] == pytest.approx(2**0.5)


def test_a_round_that_was_cut_short_does_not_count() -> None:
    cells = {Cell("noise", "ssi", plan, 64, n): outcome(1.0, 1.0) for plan in (None, 5) for n in range(4)}
    del cells[Cell("noise", "ssi", 5, 64, 3)]
    (found,) = pairs(cells, DATASETS)
    assert len(found.datasets) == 3 and set(found.errors) == {(None, 64), (5, 64)}
