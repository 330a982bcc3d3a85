"""Checks may be left out only where another one is stronger."""

import math

import numpy as np
import pytest

from siren import runtime
from siren.compile.facts import Fact, Proof, consequences, established, needs
from siren.compile.tape import REDUCE, UFUNC, Operation, Slot
from siren.errors import SirenError
from siren.syntax import parse

# 3 = sum(0), 4 = 3 > -inf, 5 = 3 < inf, 2 = log(1), 0 = 2 - 1
DEFINITIONS = {
    operation.out: operation
    for operation in (
        Operation(UFUNC, np.log, (Slot(1),), (), 2),
        Operation(UFUNC, np.subtract, (Slot(2), Slot(1)), (), 0),
        Operation(REDUCE, np.add, (Slot(0),), (), 3),
        Operation(UFUNC, np.greater, (Slot(3), -math.inf), (), 4),
        Operation(UFUNC, np.less, (Slot(3), math.inf), (), 5),
    )
}


def known(*slots: int) -> set[Fact]:
    facts: set[Fact] = set()
    for slot in slots:
        fact = established(DEFINITIONS, slot, True)
        assert fact is not None
        facts |= consequences(DEFINITIONS, facts, fact)
    return facts


def test_a_sum_that_is_finite_makes_everything_behind_it_finite_and_positive_under_a_logarithm() -> None:
    facts = known(4, 5)
    assert {("finite", 0), ("finite", 1), ("finite", 2), ("positive", 1)} <= facts
    proof = Proof(DEFINITIONS, facts)
    assert proof.holds(("nonnegative", 1)) and not proof.holds(("positive", 2))


@pytest.mark.parametrize("half", [4, 5])
def test_one_side_of_being_finite_is_not_enough(half: int) -> None:
    """A particle of weight zero has a score of -inf, which is below infinity."""
    facts = known(half)
    other = needs(DEFINITIONS, 9 - half, True)
    proof = Proof(DEFINITIONS, facts)
    assert other is not None and not all(proof.holds(fact) for fact in other)
    assert not proof.holds(("positive", 1))


@pytest.mark.parametrize("late", [0.0, -1.0, math.inf])
def test_parameters_that_go_wrong_late_are_reported(late: float) -> None:
    text = """
val step = fun (row, x) ->
  let sample v <- gamma(2., 2.) in
  let sample next <- gaussian(x, v * List.hd(row)) in
  let () = observe(gaussian(next, v * List.hd(row)), List.hd(List.tl(row))) in
  let () = resample() in next
in fold(step, rows, 0.)
"""
    rows = [[1.0, 0.3]] * 10 + [[late, 0.2]]
    program = parse(text)
    messages = []
    for mode in (False, True, True):
        with pytest.raises(SirenError) as error, np.errstate(all="ignore"):
            runtime.run(program, data={"rows": rows}, particles=16, seed=1, compiled=mode)
        messages.append(error.value.render())
    assert messages[0] == messages[1] == messages[2]
