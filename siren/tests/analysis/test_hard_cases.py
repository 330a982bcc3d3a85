"""Programs of which the analysis once made a traceback."""

import pytest

import siren
from siren.analysis import analyze
from siren.errors import PlanError
from siren.syntax import parse


def test_a_state_whose_variance_a_step_takes_from_a_gamma() -> None:
    """Of states that go unobserved only the ends of a chain are kept, but not past one of random variance. A
    run draws the second state, because there is no rule for its parent, a student_t."""
    text = """
    val step = fun (y, (x, precision)) ->
      let symbolic next <- gaussian(if y < 0.3 then x else y, if y < 0.3 then 1 else 1 / precision) in
      (next, precision)
    in
    let symbolic precision <- gamma(2, 2) in
    fold(step, ys, (0, precision))
    """
    program, ys = parse(text), [1.0, 0.0, 0.0]
    problem = analyze(program, "ds", data={"ys": ys}).problem
    assert problem is not None and "`next` is annotated `symbolic`" in problem.message
    with pytest.raises(PlanError, match="student_t"):
        siren.run(program, data={"ys": ys}, method="ds", particles=2)


def test_a_choice_that_names_a_variable_in_vain_is_no_crash() -> None:
    text = """let z <- beta(2, 3) in
let v0 <- bernoulli(0.5 * z) in
let sample v1 <- bernoulli(if v0 then z else z) in
let () = observe(bernoulli(z), true) in (v1, v0, z)"""
    for name in ("z", "v0"):
        problem = analyze(parse(text), "ssi", {name: "symbolic"}).problem
        assert problem is not None and "it cannot be told whether a choice depends" in problem.message
