"""Promised lengths of several tasks together, beside whoever is told the task and nothing else."""

from __future__ import annotations

import pytest

from pasta.eval.lengths import of_promises, of_tasks

SHORT = [(3, 2), (3, 4), (3, 3)]
LONG = [(30, 20), (30, 40), (30, 33)]


def test_who_promises_each_tasks_middle_knows_the_task_alone() -> None:
    found = of_tasks({"short": SHORT, "long": [(33, written) for _, written in LONG], "none": []})
    assert found is not None
    assert found["correlation"] == found["correlation_by_task"] > 0.9
    assert found["mean_error"] == found["mean_error_by_task"] == pytest.approx((1 + 1 + 0 + 13 + 7 + 0) / 6)
    assert found["mean_error_constant"] > 2 * found["mean_error_by_task"]
    assert found["correlation_within"] is None
    pooled = of_promises([*SHORT, *((33, written) for _, written in LONG)])
    assert pooled is not None and pooled.items() <= found.items()


def test_who_tells_lengths_apart_within_a_task_beats_it() -> None:
    found = of_tasks({"short": [(2, 2), (4, 4), (3, 3)], "long": [(21, 20), (41, 40), (32, 33)]})
    assert found is not None
    assert found["correlation_within"] > 0.99
    assert found["mean_error"] < 1 < found["mean_error_by_task"]


def test_a_model_that_knows_the_task_and_errs_within_it() -> None:
    found = of_tasks({"short": [(4, 2), (2, 4)], "long": [(40, 20), (20, 40)]})
    assert found is not None
    assert found["correlation_within"] == pytest.approx(-1)
    assert found["correlation"] > 0
    assert found["mean_error"] == 2 * found["mean_error_by_task"]


def test_nothing_promised() -> None:
    assert of_tasks({}) is None and of_tasks({"none": []}) is None
