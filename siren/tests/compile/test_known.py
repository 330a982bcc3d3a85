"""Choices between constants: what follows from them, and what does not."""

import numpy as np

from siren.compile.recorder import Recorder
from siren.compile.traced import TracedArray

LANES = np.array([True, False, True, True])


def tape() -> tuple[Recorder, TracedArray]:
    made = Recorder(len(LANES))
    return made, TracedArray.make(made, made.record("input", "lanes"), LANES, False)


def asked(made: Recorder) -> int:
    """How many questions the tape has."""
    return len(made.path) - len(made.operations())


def test_functions_of_choices_are_choices() -> None:
    made, lanes = tape()
    variance = np.where(lanes, 100.0, 1.0)
    root = np.sqrt(variance) + 1.0
    assert made.known.choices[root.slot].then == 11.0 and made.known.choices[root.slot].otherwise == 2.0
    np.testing.assert_array_equal(root.value, [11.0, 2.0, 11.0, 11.0])


def test_whether_all_are_nonzero_is_known_once_the_lanes_are_known_to_differ() -> None:
    made, lanes = tape()
    coefficient = np.where(lanes, 1.0, 0.0)
    assert not coefficient.all() and asked(made) == 1  # all lanes could have been true
    made, lanes = tape()
    coefficient = np.where(lanes, 1.0, 0.0)
    count = np.count_nonzero(lanes)
    assert not (count == 0 or count == len(lanes)) and asked(made) == 2
    assert coefficient.any() and not coefficient.all() and asked(made) == 2


def test_at_the_places_of_a_side_a_choice_is_one_constant() -> None:
    made, lanes = tape()
    choice = np.where(lanes, 1.0, 7.0)
    here, there = np.flatnonzero(lanes), np.flatnonzero(~lanes)
    assert made.known.uniform[choice.take(here).slot] == 1.0
    assert made.known.uniform[choice.take(there).slot] == 7.0
    np.testing.assert_array_equal((2.0 * choice.take(there)).value, [14.0])


def test_places_that_both_sides_share_are_no_side() -> None:
    made, lanes = tape()
    choice, both = np.where(lanes, 1.0, 7.0), np.where(lanes, 2.0, 3.0)
    everywhere = np.flatnonzero(both != 0)
    taken = choice.take(everywhere)
    assert taken.slot not in made.known.uniform
    np.testing.assert_array_equal(taken.value, [1.0, 7.0, 1.0, 1.0])
