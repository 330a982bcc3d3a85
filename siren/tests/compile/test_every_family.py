"""Steps that draw from a family and observe it are compiled, and give what the interpreter gives."""

import numpy as np
import pytest

import siren
from siren.compile import step as compiled_steps
from siren.runtime.loops import Loops

FAMILIES = [
    "gaussian(a, b)",
    "gamma(b, b)",
    "exponential(b)",
    "beta(b, b)",
    "student_t(a, b, 5)",
    "bernoulli(p)",
    "binomial(5, p)",
    "binomial(n, p)",  # some particles cannot have seen so many
    "beta_binomial(n, b, b)",
    "negative_binomial(b, p)",
    "poisson(b)",
    "categorical([p, 1 - p])",
    "uniform_int(0, 3)",
    "uniform(a - 1, a + 9)",
    "laplace(a, b)",
    "lognormal(a, b)",
    "truncated_gaussian(a, b, -3, 3)",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_of_every_family_is_compiled(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"""
    val step = fun (y, x) ->
      let sample a <- gaussian(0, 0.01) in
      let sample b <- gamma(9, 9) in
      let sample p <- beta(2, 2) in
      let sample n <- poisson(3) in
      let sample x <- {family} in
      let () = observe({family}, y) in
      let () = resample() in
      x
    in
    fold(step, ys, 0)
    """
    ys = [0.5 if family.startswith("beta(") else 1.0] * 12
    made: list[compiled_steps.Compiled] = []

    def compiled(*about: object) -> compiled_steps.Compiled:
        made.append(compiled_steps.Compiled())
        return made[-1]

    monkeypatch.setattr(compiled_steps, "compiled", compiled)
    quick = siren.run(program, data={"ys": ys}, particles=200, seed=1)
    assert made[0].hits >= 8 and not made[0].failures
    monkeypatch.setattr(Loops, "_stepper", lambda self, step, shared: step.run)
    slow = siren.run(program, data={"ys": ys}, particles=200, seed=1)
    assert len(made) == 1
    np.testing.assert_allclose(quick[0].draws(50, seed=1), slow[0].draws(50, seed=1))
    assert quick.log_evidence == pytest.approx(slow.log_evidence)
