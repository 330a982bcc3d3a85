"""The published artifact's defects, each with the right answer."""

import numpy as np
import pytest

from siren.errors import PlanError, RunError
from siren.runtime import run
from siren.syntax.parser import parse


def test_one_seed_but_particles_differ() -> None:
    program = parse("let sample x <- gaussian(0, 1) in x")
    first, again = (run(program, particles=500, seed=7) for _ in range(2))
    assert first.value.sd == pytest.approx(1.0, abs=0.15)
    assert first.value.mean == again.value.mean
    assert first.value.mean != run(program, particles=500, seed=8).value.mean


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("val f = fun x -> let () = resample() in x in 10 - f(2)", 8.0),
        ("val f = fun x -> let () = resample() in x in (1, f(2))", (1.0, 2.0)),
    ],
)
def test_resample_inside_an_argument(source: str, expected: object) -> None:
    value = run(parse(source), particles=5, seed=0).value
    assert (tuple(v.mean for v in value) if isinstance(value, tuple) else value.mean) == expected


def test_resample_inside_an_argument_keeps_particles_together() -> None:
    """(f(x), x) with a resample in f: both halves are of the same particle."""
    program = parse("""
      val f = fun x -> let () = observe(gaussian(x, 1.), 2.) in let () = resample() in x in
      let sample x <- gaussian(0., 1.) in
      let (a, b) = (f(x), x) in
      (a - b) * (a - b)
    """)
    assert run(program, particles=300, seed=0).value.mean == 0.0


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_a_coefficient_that_cancels(method: str) -> None:
    program = parse("""
      let x <- gaussian(0., 1.) in
      let z <- gaussian(x, 1.) in
      let () = observe(gaussian(x + z, 1.), 3.) in
      (x, z, x - x)
    """)
    result = run(program, method=method, particles=20_000, seed=0)
    # x, z, y are jointly gaussian: cov(x, y) = 2, cov(z, y) = 3, var(y) = 6.
    tolerance = 1e-12 if method == "ssi" else 0.05
    assert result.value[0].mean == pytest.approx(1.0, abs=tolerance)
    assert result.value[1].mean == pytest.approx(1.5, abs=tolerance)
    assert result.value[2].mean == 0.0


def test_means_of_nonlinear_expressions() -> None:
    program = parse("""
      let symbolic x <- gaussian(1., 1.) in
      let () = observe(gaussian(x, 0.5), 1.) in
      let symbolic g <- gamma(3., 2.) in
      (x * x, 1. / g, x < 1., x * g, exp(x))
    """)
    square, inverse, below, product, grown = run(program, particles=4000, seed=0).value
    assert square.mean == pytest.approx(1 + 1 / 3)
    assert inverse.mean == pytest.approx(1.0)
    assert inverse.sd == pytest.approx(1.0)
    assert below.mean == pytest.approx(0.5)
    assert product.mean == pytest.approx(1.5)
    assert grown.mean == pytest.approx(np.exp(1 + 1 / 6), rel=0.05)
    plugged = run(program, particles=10, seed=0, mean="plugin").value
    assert [v.mean for v in plugged[:4]] == pytest.approx([1.0, 2 / 3, 0.0, 1.5])


def test_variance_two_over_g_keeps_g_symbolic() -> None:
    program = parse("""
      let symbolic g <- gamma(2., 2.) in
      let () = observe(gaussian(0., 2. / g), 1.) in
      g
    """)
    assert run(program, particles=3, seed=0).value.mean == pytest.approx(2.5 / 2.25)


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ("let x <- gaussian(0., 0. - 1.) in\nx", "variance", 1),
        ("let x = 1. in\nlet () = observe(gaussian(0., 0.), x) in x", "must be positive", 2),
        ("let x <- bernoulli(1.5) in x", "between 0 and 1", 1),
        ("let x = 1. in\nList.hd([])", "empty list", 2),
    ],
)
def test_errors_say_where(source: str, words: str, line: int) -> None:
    with pytest.raises(RunError, match=words) as caught:
        run(parse(source), particles=3, seed=0)
    assert caught.value.span is not None and caught.value.span.line == line


def test_certain_and_impossible_outcomes() -> None:
    assert run(parse("let () = observe(bernoulli(1.), true) in 1"), particles=3, seed=0).log_evidence == 0.0
    with pytest.raises(RunError, match="no particle can explain the observation 1"):
        run(parse("let () = observe(bernoulli(0.), true) in 1"), particles=3, seed=0)


def test_log_evidence_and_ess() -> None:
    """y ~ N(0, 2) after x ~ N(0, 1) is integrated out by particles."""
    program = parse("""
      let sample x <- gaussian(0., 1.) in
      let () = observe(gaussian(x, 1.), 1.) in
      let () = resample() in
      x
    """)
    result = run(program, particles=50_000, seed=0)
    assert result.log_evidence == pytest.approx(-0.5 * np.log(4 * np.pi) - 0.25, abs=0.02)
    assert 0 < result.ess[0] < 50_000
    for scheme in ("systematic", "stratified", "residual"):
        other = run(program, particles=50_000, seed=0, resample=scheme, ess=0.5)
        assert other.value.mean == pytest.approx(0.5, abs=0.03)
        assert other.log_evidence == pytest.approx(result.log_evidence, abs=0.05)


def test_a_plan_that_cannot_be_kept_names_the_lines_and_the_rule() -> None:
    program = parse("""let symbolic x <- gaussian(0., 1.) in
let () = observe(poisson(x * x), 2) in
x""")
    with pytest.raises(PlanError) as caught:
        run(program, particles=3, seed=0)
    error = caught.value
    assert error.span is not None and error.span.line == 1
    assert error.notes[0].span is not None and error.notes[0].span.line == 2
    assert "`x`" in error.message and "gaussian parent of a poisson" in error.message


def test_default_plan_is_reported() -> None:
    program = parse("""
      let g <- gamma(1., 1.) in
      let x <- gaussian(0., 1. / g) in
      let () = observe(gaussian(x, 1.), 1.) in
      (g, x)
    """)
    assert run(program, particles=10, seed=0).plan == {"g": "symbolic", "x": "sample"}
    assert run(program, particles=10, seed=0, method="bp").plan == {"g": "sample", "x": "symbolic"}
