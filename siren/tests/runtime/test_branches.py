"""Particles that go different ways: what each does is what it would do alone."""

import numpy as np
import pytest
from scipy import stats

import siren
from siren.errors import PlanError, RunError, TooLargeError
from siren.runtime import run
from siren.syntax.parser import parse

METHODS = ("ssi", "ds", "bp")


def exact_mixture(ys: list[float]) -> tuple[float, float]:
    """P(flag) and E[x] where x ~ N(0, 4), flag ~ Bern(.4), and y ~ N(x, 1) is seen only where flag holds."""
    on = 0.4 * stats.norm(0, np.sqrt(5)).pdf(ys[0])
    off = 0.6 * stats.norm(0, 3).pdf(ys[0])
    chance = on / (on + off)
    return chance, chance * 0.8 * ys[0]


@pytest.mark.parametrize("method", METHODS)
def test_observe_in_one_branch(method: str) -> None:
    program = parse("""
      let x <- gaussian(0., 4.) in
      let sample flag <- bernoulli(0.4) in
      let () = if flag then observe(gaussian(x, 1.), y) else observe(gaussian(0., 9.), y) in
      (flag, x)
    """)
    chance, mean = exact_mixture([2.5])
    result = run(program, data={"y": 2.5}, method=method, particles=40_000, seed=0)
    assert result.value[0].mean == pytest.approx(chance, abs=0.02)
    assert result.value[1].mean == pytest.approx(mean, abs=0.05)
    assert result.plan["x"] == "symbolic"


@pytest.mark.parametrize("method", METHODS)
def test_a_variable_drawn_by_some_particles_is_dynamic(method: str) -> None:
    program = parse("""
      let x <- gaussian(1., 1.) in
      let sample flag <- bernoulli(0.5) in
      let () = if flag then observe(poisson(exp(x)), 2) else () in
      let y <- gaussian(2. * x, 1.) in
      let () = observe(gaussian(y, 1.), 3.) in
      (x, y)
    """)
    result = run(program, method=method, particles=30_000, seed=0)
    assert result.plan["x"] == "dynamic"
    grid = np.linspace(-8, 8, 4001)
    weight = stats.norm(1, 1).pdf(grid) * stats.norm(2 * grid, np.sqrt(2)).pdf(3.0)
    weight *= 0.5 * stats.poisson(np.exp(grid)).pmf(2) + 0.5
    assert result.value[0].mean == pytest.approx(float(np.sum(grid * weight) / weight.sum()), abs=0.03)
    with pytest.raises(PlanError, match="`x` is annotated `symbolic`"):
        run(program, method=method, particles=100, seed=0, plan={"x": "symbolic"})


@pytest.mark.parametrize("method", METHODS)
def test_assume_in_a_branch(method: str) -> None:
    program = parse("""
      val pick = fun flag ->
        if flag then let a <- gaussian(5., 1.) in a
        else let b <- gaussian(-5., 1.) in let c <- gaussian(b, 1.) in c
      in
      let sample flag <- bernoulli(0.5) in
      let x = pick(flag) in
      let () = observe(gaussian(x, 1.), 4.) in
      x
    """)
    result = run(program, method=method, particles=2_000, seed=0)
    assert result.value.mean == pytest.approx(4.5, abs=0.01)
    assert result.plan["a"] == "symbolic"


def test_lists_and_tuples_from_branches() -> None:
    program = parse("""
      let sample flag <- bernoulli(0.5) in
      let (a, l) = if flag then (1., [1., 2.]) else (2., [3., 4.]) in
      (a + List.hd(l), List.hd(List.tl(l)) - 2. * a)
    """)
    first, second = run(program, particles=1000, seed=0).value
    assert set(np.round(first.draws(50, seed=0), 6)) == {2.0, 5.0}
    assert second.mean == 0.0


def test_recursion_by_a_drawn_number() -> None:
    program = parse("""
      val count = fun n -> if n < 1. then 0. else 1. + count(n - 1.) in
      let sample n <- uniform_int(0, 5) in
      n - count(n)
    """)
    value = run(program, particles=500, seed=0).value
    assert value.mean == 0.0 and value.sd == 0.0


def test_resample_in_a_branch_keeps_the_others() -> None:
    program = parse("""
      let sample x <- gaussian(0., 1.) in
      let () =
        if x < 0. then let () = observe(gaussian(x, 0.5), -1.) in resample()
        else observe(gaussian(x, 0.5), -1.)
      in
      let () = resample() in
      x
    """)
    plain = parse("""
      let symbolic x <- gaussian(0., 1.) in
      let () = observe(gaussian(x, 0.5), -1.) in
      x
    """)
    result, exact = run(program, particles=60_000, seed=0), run(plain, particles=1, seed=0)
    assert result.value.mean == pytest.approx(exact.value.mean, abs=0.02)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=0.02)


def test_a_choice_between_two_variables_stays_symbolic() -> None:
    """The walk of a switching system: x = if s then x1 else x0, step after step, against enumeration."""
    program = parse("""
      val step = fun (y, xs) ->
        let sample s <- bernoulli(0.5) in
        let symbolic x1 <- gaussian(List.hd(xs), 4.) in
        let symbolic x0 <- gaussian(List.hd(xs), 0.25) in
        let x = if s then x1 else x0 in
        let () = observe(gaussian(x, 1.), y) in
        let () = resample() in
        cons(x, xs)
      in
      List.rev(fold(step, data, [0.]))
    """)
    ys = [1.0, 3.0, 2.5]
    total, mean = 0.0, np.zeros(3)
    for code in range(8):
        q = np.array([4.0 if code >> t & 1 else 0.25 for t in range(3)])
        cov = np.array([[q[: min(i, j) + 1].sum() for j in range(3)] for i in range(3)])
        spread = cov + np.eye(3)
        weight = stats.multivariate_normal(np.zeros(3), spread).pdf(ys)
        total += weight
        mean += weight * (cov @ np.linalg.solve(spread, ys))
    result = run(program, data={"data": ys}, particles=20_000, seed=0)
    np.testing.assert_allclose([x.mean for x in result.value[1:]], mean / total, atol=0.03)
    assert result.log_evidence == pytest.approx(np.log(total / 8), abs=0.03)
    assert result.plan == {"s": "sample", "x1": "symbolic", "x0": "symbolic"}


def test_an_infinite_mean_is_no_error() -> None:
    value = run(parse("let g <- gamma(1., 1.) in 1. / g"), particles=10, seed=0).value
    assert value.mean == np.inf and np.isnan(value.sd)
    assert value.quantile(0.5) == pytest.approx(1 / np.log(2), rel=0.1)


def test_terms_that_vanish_in_some_lanes() -> None:
    program = parse("""
      let v0 <- binomial(3, 0.4) in
      let v2 <- bernoulli(0.3) in
      let v3 <- gaussian(v2, 0.3) in
      [v0 * v2, v3]
    """)
    product, shifted = run(program, particles=20_000, seed=1).value
    assert product.mean == pytest.approx(0.36, abs=0.02)
    assert shifted.mean == pytest.approx(0.3, abs=0.02)


def test_parts_of_structures_follow_resampling() -> None:
    """A list of probabilities and a tuple, made before a resampling and used after it."""
    program = parse("""
      let sample p <- beta(2., 2.) in
      let probabilities = [p, 1. - p] in
      let pair = (p, 1.) in
      let () = observe(bernoulli(p), true) in
      let () = resample() in
      let () = observe(categorical(0, 1, probabilities), 0) in
      let () = resample() in
      (p, if pair = (p, 1.) then 1. else 0.)
    """)
    chance, same = run(program, particles=40_000, seed=0).value
    assert chance.mean == pytest.approx(4 / 6, abs=0.01)
    assert same.mean == 1.0


def test_the_tail_of_a_list_must_be_a_list() -> None:
    with pytest.raises(RunError, match="expects a list"):
        run(parse("1. :: 2."), particles=2, seed=0)


@pytest.mark.parametrize("how", ["sample", "symbolic"])
def test_sides_of_different_kinds_are_refused_where_they_stand(how: str) -> None:
    with pytest.raises(RunError, match="disagree on a value: a list or a number") as caught:
        run(parse(f"let {how} b <- bernoulli(0.5) in\nif b then 1 else [1]"), particles=20, seed=0)
    assert (caught.value.span.line, caught.value.span.column) == (2, 1)
    assert "same kind" in caught.value.hint


CHANGES = """
val step = fun (win, rate) ->
  let changed <- bernoulli(0.1) in
  let fresh <- beta(2, 2) in
  let rate = if changed then fresh else rate in
  let () = observe(bernoulli(rate), win) in
  rate
in
let first <- beta(2, 2) in
fold(step, wins, first)
"""


def test_a_switch_whose_values_are_too_many_together_is_named() -> None:
    """The run had no end."""
    data = {"wins": [1, 1, 0, 0, 0, 0, 1, 1, 1, 1]}
    with pytest.raises(TooLargeError, match="`changed` took in all steps") as found:
        siren.run(CHANGES, data=data, particles=2, seed=0)
    assert found.value.span is not None and found.value.span.line == 6
    assert "annotate `changed` as `sample`" in found.value.render()
    assert siren.run(CHANGES, data=data, plan={"changed": "sample"}, seed=0).plan["fresh"] == "symbolic"
