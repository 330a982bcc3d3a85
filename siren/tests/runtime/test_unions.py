"""Particles that hold different variables: what was chosen becomes one variable again."""

import gc
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import siren
from siren.compile import step as compiled_steps
from siren.symbolic.expr import Variable

# How a program may say that a particle takes a fresh rate when it changes: the lets, and the rate after them.
FORMS = {
    "of names": ("let fresh <- PRIOR in let rate = if change then fresh else rate in", "rate"),
    "drawn inside": ("let rate = if change then (let fresh <- PRIOR in fresh) else rate in", "rate"),
    "of tuples": (
        "let fresh <- PRIOR in let (rate, age) = if change then (fresh, 0) else (rate, age + 1) in",
        "rate",
    ),
    "in place": ("let fresh <- PRIOR in", "(if change then fresh else rate)"),
}
FAMILIES = {
    "poisson": ("gamma(2, 0.5)", "poisson(RATE)"),
    "bernoulli": ("beta(1, 1)", "bernoulli(RATE)"),
    "gaussian": ("gaussian(0, 9)", "gaussian(RATE, 1)"),
    "precision": ("gamma(2, 2)", "gaussian(0, 1 / RATE)"),
}


def program(form: str, family: str, history: bool = False) -> str:
    lets, rate = FORMS[form]
    prior, likelihood = FAMILIES[family]
    text = f"""
    val step = fun (y, (rate, age, rates)) ->
      let sample change <- bernoulli(0.2) in
      {lets}
      let () = observe({likelihood}, y) in
      let () = resample() in
      (RATE, age, {"RATE :: rates" if history else "rates"})
    in
    let start <- PRIOR in
    let (rate, age, rates) = fold(step, ys, (start, 0, [])) in
    (rate, List.rev(rates))
    """
    return text.replace("PRIOR", prior).replace("RATE", rate)


COUNTS = [3, 1, 9, 8, 1]


def smoothed_rates() -> tuple[np.ndarray, float]:
    """The posterior means of all rates and the log evidence: the sum over all patterns of changes."""
    weights, means = [], []
    for changes in product([False, True], repeat=len(COUNTS)):
        weight, rates, segment = 0.0, [], []
        for place, (y, change) in enumerate(zip(COUNTS, changes, strict=True)):
            weight += np.log(0.2 if change else 0.8)
            if change:
                segment = []
            segment.append(y)
            if place + 1 == len(COUNTS) or changes[place + 1]:
                shape, rate = 2 + sum(segment), 0.5 + len(segment)
                weight += 2 * np.log(0.5) - gammaln(2) + gammaln(shape) - shape * np.log(rate)
                weight -= sum(gammaln(y + 1) for y in segment)
                rates += [shape / rate] * len(segment)
        weights.append(weight)
        means.append(rates)
    total = logsumexp(weights)
    return np.exp(np.array(weights) - total) @ np.array(means), float(total)


@pytest.mark.parametrize("method", ["ssi", "ds"])
@pytest.mark.parametrize("form", FORMS)
def test_rates_are_those_of_the_sum_over_all_changes(form: str, method: str) -> None:
    """A history too: its rates are names of variables that have been united many times since."""
    means, log_evidence = smoothed_rates()
    result = siren.run(
        program(form, "poisson", history=True),
        data={"ys": COUNTS},
        particles=20_000,
        seed=1,
        method=method,
        resample="systematic",
    )
    np.testing.assert_allclose(result[1].mean, means, atol=0.08)
    assert result["rate"].mean == pytest.approx(result[1].mean[-1], rel=1e-12)  # sums in another order
    assert result.log_evidence == pytest.approx(log_evidence, abs=0.03)
    assert result.plan == {"change": "sample", "fresh": "symbolic", "start": "symbolic"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[compiled_steps.Compiled]:
    """What is compiled in a test."""
    found: list[compiled_steps.Compiled] = []

    def compiled(*about: object) -> compiled_steps.Compiled:
        found.append(compiled_steps.Compiled())
        return found[-1]

    monkeypatch.setattr(compiled_steps, "compiled", compiled)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", FORMS)
def test_the_structure_of_a_step_stays_the_same(
    form: str, family: str, made: list[compiled_steps.Compiled]
) -> None:
    """After forty steps every particle may have changed at another one. No step takes longer for it."""
    ys = [1, 1, 1, 1, 0, 0, 0, 1, 0, 0] * 4
    plan = {"fresh": "symbolic", "start": "symbolic"}
    result = siren.run(program(form, family), data={"ys": ys}, particles=500, seed=3, plan=plan)
    assert result.plan["fresh"] == "symbolic"
    assert made[0].hits >= 30 and not made[0].failures
    assert max(len(tree.source.splitlines()) for tree in made[0].trees.values()) < 700


def test_a_plan_that_is_broken_names_the_variable_of_the_program() -> None:
    text = program("of names", "poisson").replace(
        "(rate, List.rev(rates))", "(if rate < 3 then resample() else ())"
    )
    with pytest.raises(siren.PlanError, match="`fresh` is annotated `symbolic`"):
        siren.run(text, data={"ys": COUNTS}, particles=500, seed=1, plan={"fresh": "symbolic"})


def test_a_step_that_grows_is_left_to_the_interpreter(made: list[compiled_steps.Compiled]) -> None:
    """Twice a rate cannot be united with a rate: lanes part over all of them, and no tape is made of that."""
    text = program("of names", "poisson").replace("then fresh", "then 2 * fresh").replace("0.2", "0.05")
    siren.run(text, data={"ys": [4] * 40}, particles=500, seed=1)
    assert "a step of too many operations" in made[0].reasons
    assert all(len(tree.source.splitlines()) < 10_000 for tree in made[0].trees.values())


# A target that flies straight or wildly, in the plane: as a vector, and number by number.
CHOOSE = {
    "of names": "let s = if turns then wild else calm in",
    "one kept": "let s = calm in let s = if turns then wild else s in",
    "drawn inside": "let s = if turns then (let wild <- mv_gaussian(s, identity(2)) in wild) else calm in",
}
VECTOR = """
val step = fun ({x, y}, s) ->
  let sample turns <- bernoulli(0.3) in
  let calm <- mv_gaussian(s, 0.01 * identity(2)) in
  let wild <- mv_gaussian(s, identity(2)) in
  CHOOSE
  let () = observe(gaussian(s[0], 0.5), x) in
  let () = observe(gaussian(s[1], 0.5), y) in
  let () = resample() in
  s
in
let start <- mv_gaussian([0, 0], identity(2)) in
fold(step, rows, start)
"""
NUMBERS = """
val step = fun ({x, y}, (a, b)) ->
  let sample turns <- bernoulli(0.3) in
  let a <- gaussian(a, if turns then 1 else 0.01) in
  let b <- gaussian(b, if turns then 1 else 0.01) in
  let () = observe(gaussian(a, 0.5), x) in
  let () = observe(gaussian(b, 0.5), y) in
  let () = resample() in
  (a, b)
in
let a <- gaussian(0, 1) in
let b <- gaussian(0, 1) in
let (a, b) = fold(step, rows, (a, b)) in
[a, b]
"""


@pytest.mark.parametrize("form", CHOOSE)
def test_vectors_that_particles_choose_between_become_one(form: str) -> None:
    walk = np.random.default_rng(1).normal(size=(25, 2)).cumsum(axis=0)
    rows = [{"x": x, "y": y} for x, y in walk]
    counts = []

    def count(done: int, total: int | None) -> None:
        gc.collect()
        counts.append(sum(type(thing) is Variable for thing in gc.get_objects()))

    program = siren.parse(VECTOR.replace("CHOOSE", CHOOSE[form]))
    run = siren.run(program, data={"rows": rows}, particles=100, seed=1, progress=count)
    numbers = siren.run(NUMBERS, data={"rows": rows}, particles=100, seed=1)
    np.testing.assert_allclose(run[0].mean, numbers[0].mean)
    np.testing.assert_allclose(run[0].sd, numbers[0].sd)
    assert run.log_evidence == pytest.approx(numbers.log_evidence)
    assert max(counts[5:]) <= counts[4] + 2  # no step leaves variables behind
