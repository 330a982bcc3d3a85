"""What both sides of a branch do alike is done once, to all lanes."""

import numpy as np

from siren.compile.recorder import Recorder
from siren.compile.tape import METHOD, REDUCE, UFUNC
from siren.compile.traced import TracedArray

LANES = np.array([True, False, True, False])


def parted() -> tuple[Recorder, list[TracedArray], TracedArray, TracedArray]:
    """A tape with lanes, two arrays, and the places of both sides."""
    made = Recorder(len(LANES))
    values = [LANES, np.arange(1.0, 5.0), np.arange(10.0, 50.0, 10.0)]
    arrays = [
        TracedArray.make(made, made.record("input", f"v{i}", like=v), v, False) for i, v in enumerate(values)
    ]
    return made, arrays, np.flatnonzero(arrays[0]), np.flatnonzero(~arrays[0])


def joined(places: list[TracedArray], parts: list[TracedArray]) -> TracedArray:
    whole = np.empty_like(places[0], dtype=float, shape=len(LANES))
    for index, part in zip(places, parts, strict=True):
        whole[index] = part
    return whole


def applied(made: Recorder, function: object) -> list[int]:
    return [op.out for op in made.operations() if op.function is function]


def test_what_nobody_touched_is_not_taken_apart() -> None:
    _, (_, x, _), here, there = parted()
    assert joined([here, there], [x.take(here), x.take(there)]).slot == x.slot


def test_twins_become_one_operation_on_chosen_operands() -> None:
    made, (_, x, y), here, there = parted()
    whole = joined([here, there], [np.log(2.0 * x.take(here)), np.log(2.0 * y.take(there))])
    definition = made.definitions[whole.slot]
    assert definition.function is np.log and definition.form == UFUNC
    np.testing.assert_allclose(whole.value, np.log(2.0 * np.where(LANES, x.value, y.value)))
    np.testing.assert_allclose(made.values[whole.slot], whole.value)


def test_what_one_side_alone_did_is_chosen_from_the_whole() -> None:
    made, (_, x, y), here, there = parted()
    first, second = x.take(here) + 0.5, y.take(there) + 0.5
    whole = joined([here, there], [first, x.take(there)])
    assert made.definitions[whole.slot].function is np.where
    np.testing.assert_allclose(whole.value, np.where(LANES, x.value + 0.5, x.value))
    assert second.slot != first.slot


def test_sides_that_do_different_things_stay_apart() -> None:
    made, (_, x, y), here, there = parted()
    whole = joined([here, there], [np.log(x.take(here)), np.sqrt(y.take(there))])
    assert made.definitions[whole.slot].form == METHOD and made.definitions[whole.slot].function == "put"
    np.testing.assert_allclose(whole.value, np.where(LANES, np.log(x.value), np.sqrt(y.value)))


def test_whether_the_sides_are_finite_is_asked_of_the_whole_as_well() -> None:
    made, (_, x, y), here, there = parted()
    parts = [np.log(x.take(here)), np.log(y.take(there))]
    for part in parts:
        assert -np.inf < np.add.reduce(part) < np.inf
    whole = joined([here, there], parts)
    sums = [op.arguments[0].number for op in made.operations() if op.form == REDUCE]
    assert sums == [parts[0].slot, parts[1].slot, whole.slot]


def test_an_array_that_others_read_is_copied_before_it_is_written_to() -> None:
    made, (_, x, _), here, there = parted()
    alias = joined([here, there], [x.take(here), x.take(there)])
    alias[here] = 7.0
    assert [op.function for op in made.operations() if op.form == METHOD][-2:] == ["copy", "put"]
    np.testing.assert_allclose(x.value, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(alias.value, [7.0, 2.0, 7.0, 4.0])


def test_constants_merge() -> None:
    made, (_, x, _), _, _ = parted()
    merged = 2.0 * (3.0 * x)
    assert made.definitions[merged.slot].arguments[0] == 6.0
    assert ((2.0 * x + 1.0) / 2.0).slot == (x + 0.5).slot
    assert (2.0 * x / 2.0).slot == x.slot
    assert len(applied(made, np.multiply)) == 3  # 3 * x, 6 * x, 2 * x
