"""What every step hands on is looked at once, and again only where a run comes in from elsewhere."""

import numpy as np
import pytest

from siren import runtime
from siren.compile.step import Compiled, compiled
from siren.errors import SirenError
from siren.syntax import ast, parse

WALK = """
val step = fun (y, (x, q)) ->
  let symbolic next <- gaussian(x, q) in
  let () = observe(gaussian(next, 0.5), y) in
  let () = resample() in (next, q)
in
let sample q <- gamma(2., 2.) in
let (x, q) = fold(step, ys, (0., q)) in (x, q)
"""


def steps_of(program: ast.Program, particles: int) -> Compiled:
    return compiled(program, ("step", "ssi", (), particles))


def test_variances_that_stay_positive_are_not_asked_about() -> None:
    program = parse(WALK)
    options = {"data": {"ys": np.linspace(-1.0, 1.0, 12)}, "particles": 20, "seed": 1}
    runtime.run(program, **options)
    runtime.run(program, **options)
    sources = [
        tree.source for tree in steps_of(program, 20).trees.values() if "if carried is None:" in tree.source
    ]
    assert sources
    entry, steady = (
        sources[-1].split("if carried is None:")[1].split("g0 = scope.now")[0].rsplit("return None\n    v", 1)
    )
    assert "minimum_reduce" in entry and "logical_and_reduce" not in steady and "minimum_reduce" not in steady


SHRINK = """
val step = fun (y, (x, q)) ->
  let sample next <- gaussian(x, q) in
  let () = observe(gaussian(next, 1.), y) in
  let () = resample() in (next, q - y)
in fold(step, ys, (0., 1.))
"""


@pytest.mark.parametrize("last", [0.5, 2.0])
def test_what_is_not_handed_on_is_asked_at_every_step(last: float) -> None:
    """A variance that a step makes negative is an error at the next, compiled or not."""
    program = parse(SHRINK)
    ys = [0.01] * 8 + [last, 0.0]
    outcomes = []
    for mode in (False, True, True):
        try:
            outcomes.append(
                runtime.run(program, data={"ys": ys}, particles=10, seed=1, compiled=mode).log_evidence
            )
        except SirenError as error:
            outcomes.append(error.render())
    assert outcomes[0] == pytest.approx(outcomes[1]) and outcomes[1] == pytest.approx(outcomes[2])
    assert isinstance(outcomes[0], str) is (last > 1)
