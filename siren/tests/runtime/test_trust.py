"""Programs whose answers were once silently wrong, and data that no model could have produced."""

import warnings

import numpy as np
import pytest

import siren
from siren.errors import RunError
from siren.inference.engine import Engine

METHODS = ["ssi", "ds", "bp"]


def run(text: str, **options):
    return siren.run(text, **{"particles": 4000, "seed": 3, **options})


@pytest.mark.parametrize("method", METHODS)
def test_draws_that_the_answer_forces_are_kept_when_particles_differ(method):
    text = (
        "let x <- gaussian(0.5, 1) in let g <- gamma(2, 2) in let y <- gaussian(x * x, 1 / g) in "
        "let z <- gaussian(y, if x < 0.3 then 1 else 1 / g) in (x, z)"
    )
    result = run(text, method=method, particles=20_000)
    assert result["x"].mean == pytest.approx(0.5, abs=0.03)
    assert result["z"].mean == pytest.approx(1.25, abs=0.06)


@pytest.mark.parametrize("method", METHODS)
def test_draws_are_joint(method):
    independent = run("let x <- gaussian(0, 1) in let y <- gaussian(0, 1) in (x, y)", method=method)
    x, y = (output.draws(4000, seed=1) for output in independent)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.06
    text = (
        "let x <- gaussian(0, 1) in let y <- gaussian(2 * x, 4) in "
        "let () = observe(gaussian(x + y, 1), 1) in (x, y, x * y)"
    )
    x, y, product = (output.draws(20_000, seed=1) for output in run(text, method=method))
    np.testing.assert_allclose(product, x * y)
    # p(x, y | 1): the precision matrix is [[1 + 1 + 1, -1/2 + 1], [1/2, 1/4 + 1]].
    covariance = np.linalg.inv([[3.0, 0.5], [0.5, 1.25]])
    np.testing.assert_allclose(np.cov(x, y), covariance, atol=0.03)


def test_draws_of_lists_are_joint():
    text = (
        "val step = fun (y, xs) -> let x <- gaussian(List.hd(xs), 1) in "
        "let () = observe(gaussian(x, 1), y) in x :: xs in fold(step, [1, 2, 0.5], [0])"
    )
    draws = run(text, particles=50)[0].draws(40_000, seed=2)
    precision = np.diag([3.0, 3.0, 2.0]) - np.eye(3, k=1) - np.eye(3, k=-1)
    covariance = np.linalg.inv(precision)[::-1, ::-1]
    np.testing.assert_allclose(np.cov(draws[:, :3].T), covariance, atol=0.02)


def test_draws_of_a_stream_belong_to_their_row():
    text = (
        "val step = fun (y, x) -> let x <- gaussian(x, 1) in "
        "let () = observe(gaussian(x, 1), y) in x in fold(step, data, 0)"
    )
    results = list(siren.stream(text, [1.0, 5.0, 9.0], particles=10, seed=1))
    for result in results:
        assert result[0].draws(20_000, seed=4).mean() == pytest.approx(result[0].mean, abs=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_the_spread_of_a_choice(method):
    result = run("let b <- bernoulli(0.5) in if b then 10 else 0", method=method)
    assert result[0].sd == pytest.approx(5, abs=0.1)
    result = run("let b <- bernoulli(0.5) in b", method=method)
    assert result[0].sd == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("particles", [1, 100, 7000, 10_000, 30_000])
def test_the_spread_of_what_is_drawn(particles):
    result = run("let g <- gamma(12.5, 4.8) in log(g)", particles=particles)
    assert result[0].sd == pytest.approx(0.2887, abs=0.01)


def test_few_particles_are_drawn_from_at_once(monkeypatch):
    """And not once more for each of 20,000 draws."""
    calls = []
    value = Engine.value
    monkeypatch.setattr(Engine, "value", lambda self, expr: calls.append(expr) or value(self, expr))
    result = run("let x <- gaussian(1, 1) in let y <- gaussian(2, 1) in x * y", particles=1)
    assert len(calls) < 100
    assert result[0].quantile(0.5) == pytest.approx(1.65, abs=0.1)


def test_the_spread_of_what_has_an_exact_mean_only():
    text = "let x <- gaussian(0, 1) in let y <- gaussian(0, 1) in if x < y then x * y else 1"
    whole = run(text, particles=10_000)[0]
    few = run(text, particles=3)[0]
    assert whole.sd == pytest.approx(few.sd, abs=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_a_particle_without_a_density_is_ruled_out_and_reported(method):
    text = "let sample x <- gaussian(1, 1) in\nlet () = observe(gaussian(sqrt(x), 1), 0.5) in x"
    with pytest.warns(UserWarning, match=r"line 2: the mean of the gaussian is nan in \d+ of 20000"):
        result = run(text, method=method, particles=20_000)
    grid = np.linspace(0, 7, 100_001)
    density = np.exp(-0.5 * (grid - 1) ** 2 - 0.5 * (0.5 - np.sqrt(grid)) ** 2)
    assert result[0].mean == pytest.approx((grid * density).sum() / density.sum(), abs=0.02)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "draw", ["gamma(x, 1)", "beta(2, x)", "gaussian(0, x)", "poisson(x)", "bernoulli(x)"]
)
def test_a_draw_with_an_undefined_parameter_is_reported(method, draw):
    text = (
        "let sample b <- bernoulli(0.5) in let x = if b then 0.5 else log(0 - 1) in "
        f"let sample y <- {draw} in b"
    )
    with pytest.warns(UserWarning, match="is nan in"):
        assert run(text, method=method)[0].mean == pytest.approx(1)
    with pytest.raises(RunError, match="is nan in every particle") as caught:
        run(f"let x = log(0 - 1) in\nlet sample y <- {draw} in y", method=method)
    assert caught.value.span.line == 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "observation",
    [
        "observe(bernoulli(p), 3)",
        "observe(poisson(3 * p), 0 - 1)",
        "observe(binomial(5, p), 7)",
        "observe(binomial(5, p), 2.5)",
        "observe(beta(2, 1 + p), 1.5)",
        "observe(gamma(2, p), 0 - 2)",
        "observe(categorical(0, 1, [p, 1 - p]), 2)",
        "observe(delta(1), 2)",
        "observe(beta_binomial(3, 1, 1), 4)",
        "observe(negative_binomial(3, p), 0 - 1)",
        "if p < 2 then observe(bernoulli(p), 3) else ()",
        "if p < 0.5 then observe(bernoulli(p), 3) else observe(bernoulli(p), 4)",
    ],
)
@pytest.mark.parametrize("annotation", ["", "sample"])
def test_an_impossible_observation_is_an_error(method, observation, annotation):
    text = f"let {annotation} p <- beta(2, 2) in\nlet () = {observation} in p"
    with pytest.raises(RunError, match="no particle can explain the observation") as caught:
        run(text, method=method, particles=300)
    assert caught.value.span.line == 2


def test_an_impossible_observation_names_its_step():
    text = (
        "val step = fun (y, p) -> let () = observe(bernoulli(p), y) in let () = resample() in p in "
        "let p <- beta(1, 1) in fold(step, [1, 0, 3, 1], p)"
    )
    with pytest.raises(RunError, match=r"the observation 3 \(step 3\)"):
        run(text)


@pytest.mark.parametrize("method", METHODS)
def test_some_particles_are_ruled_out(method):
    """n is 0 to 9 at random, of which the binomial allows up to 5; the beta is updated by these only."""
    text = (
        "let p <- beta(1, 1) in let sample n <- uniform_int(0, 9) in "
        "let () = observe(binomial(5, p), n) in let () = observe(bernoulli(p), true) in (p, n)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(text, method=method, particles=30_000)
    k = np.arange(6)  # the binomial is uniform; then weight (k+1)/7 and Beta(k + 2, 6 - k)
    weights = (k + 1) / (k + 1).sum()
    assert result["n"].mean == pytest.approx((weights * k).sum(), abs=0.05)
    assert result["p"].mean == pytest.approx((weights * (k + 2) / 8).sum(), abs=0.01)


def test_observing_what_is_infinite_is_an_error():
    with pytest.raises(RunError, match="the observed value is inf") as caught:
        run("let x <- gaussian(0, 1) in let () = observe(gaussian(x, 1), 1 / 0) in x")
    assert "a cell that is left empty is skipped" in caught.value.render()


def test_a_missing_covariate_is_an_error_that_says_how_to_leave_it_out():
    text = "val f = fun ({u, y}, x) -> let () = observe(gaussian(u * x, 1), y) in x in "
    text += "let symbolic x <- gaussian(0, 1) in fold(f, rows, x)"
    rows = [{"u": 1, "y": 2}, {"u": None, "y": 3}]
    with pytest.raises(RunError, match=r"is nan in every particle \(step 2\)") as caught:
        run(text, data={"rows": rows})
    assert "a missing datum that it is computed from (`x = x` is false of one" in caught.value.render()
    left_out = text.replace("observe(", "if not u = u then () else observe(")
    assert run(left_out, data={"rows": rows})[0].mean == pytest.approx(1)


def test_a_negative_variance_is_an_error_in_one_particle_too():
    with pytest.raises(RunError, match="the variance of the gaussian must not be negative, not -"):
        run("let sample x <- gaussian(0, 1) in let sample y <- gaussian(0, x) in y")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "text",
    [
        "let v = 0 - 1 in let x <- gaussian(0, 4) in let () = observe(gaussian(x, v), 2) in x",
        "let v = 0 - 1 in let x <- gaussian(0, 4) in let y <- gaussian(x, v) in "
        "let () = observe(gaussian(y, 1), 2) in (x, y)",
        "let v <- gaussian(1, 1) in let y <- gaussian(0, v) in let () = observe(gaussian(y, 9), 1) in y",
        "let c = 0 - 1 in let g <- gamma(2, 2) in let m <- gaussian(0, c / g) in "
        "let () = observe(gaussian(m, 2 / g), 1) in (m, g)",
    ],
)
def test_a_negative_variance_is_an_error_beside_a_random_mean_too(text, method):
    """The sum of the variances may be positive all the same, and nothing else would tell."""
    with pytest.raises(RunError, match="the variance of the gaussian must not be negative") as error:
        run(text, method=method, particles=100)
    assert error.value.span is not None


def test_a_variance_of_zero_is_none_of_those():
    result = run(
        "let x <- gaussian(0, 4) in let v = 0 in let () = observe(gaussian(x, v), 2) in x", particles=1
    )
    assert (result["x"].mean, result["x"].sd) == (2.0, 0.0)


def test_a_covariance_with_a_negative_eigenvalue_is_an_error():
    text = (
        "let x <- mv_gaussian([0, 0], 4 * identity(2)) in let y <- mv_gaussian(x, [[1, q], [q, 1]]) in "
        "let () = observe(mv_gaussian(y, identity(2)), [1, 2]) in y"
    )
    with pytest.raises(RunError, match="negative eigenvalue, -1") as error:
        run(text, data={"q": 2}, particles=1)
    assert error.value.span is not None
    singular = run(text, data={"q": 1}, particles=1)  # y[0] and y[1] move by the same
    assert singular["y"].sd[0] == pytest.approx(singular["y"].sd[1])


@pytest.mark.parametrize("method", METHODS)
def test_both_sides_of_a_random_choice_must_be_probabilities(method):
    text = "let z <- bernoulli(0.5) in let w <- bernoulli(if z then q else 0.5) in (z, w)"
    with pytest.raises(RunError, match="the p of the bernoulli must be between 0 and 1"):
        run(text, data={"q": 2}, method=method, particles=2)


def test_a_negative_multiple_is_an_error_and_no_negative_count():
    text = (
        "let rate <- gamma(2, 1) in let sample d <- gaussian(0, 1) in let next <- poisson(d * rate) in next"
    )
    with pytest.raises(
        RunError, match="the factor of `rate` in the rate of the poisson must not be negative"
    ):
        run(text)


def test_quantiles_of_what_is_no_number_are_none_either():
    big, undefined = siren.run("(1 / 0, log(0 - 1))")
    assert [big.quantile(q) for q in (0.05, 0.95)] == [np.inf, np.inf]
    assert np.isnan(undefined.quantile(0.5))
    assert siren.run("let x <- gaussian(0, 1) in x")["x"].quantile(0.5) == 0


def test_a_function_without_end_is_named():
    with pytest.raises(RunError, match="`again` calls itself too often") as caught:
        siren.run("val again = fun x -> 1 + again(x + 1) in again(0)")
    assert str(caught.value.span) == "1:5"


def test_a_random_end_is_to_be_drawn():
    text = "val f = fun n -> let {}c <- bernoulli(0.5) in if c then n else f(n + 1) in f(0)"
    with pytest.raises(RunError, match="`f` calls itself too often") as caught:
        siren.run(text.format(""), particles=10, seed=0)
    assert "annotate `c` as `sample`" in caught.value.hint
    assert [str(note.span) for note in caught.value.notes] == ["1:45"]
    assert siren.run(text.format("sample "), particles=4000, seed=0)[0].mean == pytest.approx(1, abs=0.1)


def test_random_bounds_say_what_to_do():
    with pytest.raises(RunError, match="the bounds of uniform_int must be known") as caught:
        siren.run("let n <- poisson(3) in let k <- uniform_int(1, n + 1) in k")
    assert caught.value.hint == "annotate `n` as `sample`"
    with pytest.raises(RunError, match=r"the bounds of List\.range must be known") as caught:
        siren.run("let sample n <- poisson(3) in List.range(0, n)")
    assert "`List.filter(fun i -> i < n, List.range(0, 100))`" in caught.value.hint
    text = "let sample n <- poisson(3) in List.len(List.filter(fun i -> i < n, List.range(0, 100)))"
    assert siren.run(text, particles=4000, seed=0)[0].mean == pytest.approx(3, abs=0.2)


def test_sums_of_a_list_and_a_number():
    with pytest.raises(RunError, match="cannot add or subtract a list of 2 and a number") as caught:
        siren.run("let f = fun (a, b) -> a + b in f([1, 2], 1)")
    assert caught.value.hint == "`+` and `-` take two numbers or two lists of one length"


@pytest.mark.parametrize("end", ["1e12", "1e999"])
def test_a_range_without_end_is_refused(end):
    with pytest.raises(RunError, match="at most 10,000,000 elements"):
        siren.run(f"List.range(0, {end})")


def test_what_the_answer_asks_for_is_blamed_on_the_answer():
    text = "let v <- gaussian(0, 1) in\nlet x <- gaussian(0, v) in\nx"
    with pytest.raises(RunError, match="the variance of the gaussian must not be negative") as caught:
        run(text)
    assert str(caught.value.span) == "3:1"
