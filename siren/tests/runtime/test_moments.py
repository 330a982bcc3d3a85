"""Means and spreads of polynomials against exact fractions, of variables whose mean is far from 0 too."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siren
from siren import distributions as f

magnitudes = st.floats(-3, 3).map(lambda power: 10.0**power)
means = st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1, 1]), st.floats(0, 6))
shapes = st.floats(1, 14).map(lambda power: 10.0**power)


def gaussian(k, mean, variance):
    return sum(
        math.comb(k, j) * math.prod(range(1, j, 2)) * variance ** (j // 2) * mean ** (k - j)
        for j in range(0, k + 1, 2)
    )


def gamma(k, shape, rate):
    if k < 0:
        return math.prod(rate / (shape - j) for j in range(1, 1 - k))
    return math.prod((shape + j) / rate for j in range(k))


def beta(k, a, b):
    if k < 0:
        return math.prod((a + b - j) / (a - j) for j in range(1, 1 - k))
    return math.prod((a + j) / (a + b + j) for j in range(k))


def uniform(k, low, high):
    return (high ** (k + 1) - low ** (k + 1)) / ((k + 1) * (high - low))


def laplace(k, location, scale):
    return sum(
        math.comb(k, j) * math.factorial(j) * scale**j * location ** (k - j) for j in range(0, k + 1, 2)
    )


# E[x ** k] in fractions, and parameters.
FAMILIES = {
    "gaussian": (gaussian, st.tuples(means, magnitudes)),
    "gamma": (gamma, st.tuples(shapes, magnitudes)),
    "beta": (beta, st.tuples(shapes, shapes)),
    "uniform": (uniform, st.builds(lambda low, width: (low, low + width), means, magnitudes)),
    "laplace": (laplace, st.tuples(means, magnitudes)),
}


def exact(terms, moment):
    """Mean and standard deviation of a sum of coefficients times powers, by their moments."""
    mean = sum(c * moment(k) for k, c in terms.items())
    square = sum(c * d * moment(k + j) for k, c in terms.items() for j, d in terms.items())
    return float(mean), math.sqrt(square - mean * mean)


def answer(text, **data):
    result = siren.run(text, data=data, particles=1000, seed=0)[0]
    return result.mean, result.sd


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_powers(name, data):
    moment, parameters = FAMILIES[name]
    p = data.draw(parameters)
    exponents = (1, 2, 3, -1, -2) if name in ("gamma", "beta") else (1, 2, 3)
    k = data.draw(st.sampled_from(exponents))
    power = " * ".join(["x"] * abs(k))
    text = f"let x <- {name}(a, b) in {power if k > 0 else f'1 / ({power})'}"
    expected = exact({k: 1}, lambda n: Fraction(moment(n, *map(Fraction, p))))
    assert answer(text, a=p[0], b=p[1]) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(means, magnitudes, st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_polynomials(mean, variance, coefficients):
    a, b, c, d = (math.copysign(x, mean**k) for k, x in enumerate(coefficients))
    text = "let x <- gaussian(mean, variance) in a + b * x + c * x * x + d * x * x * x"
    expected = exact(
        {k: Fraction(x) for k, x in enumerate((a, b, c, d))},
        lambda n: Fraction(gaussian(n, Fraction(mean), Fraction(variance))),
    )
    given = {"mean": mean, "variance": variance, "a": a, "b": b, "c": c, "d": d}
    assert answer(text, **given) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(means, magnitudes, magnitudes)
def test_what_is_left_of_large_numbers(mean, u, v):
    """The means of x * x and y * y agree in all digits but the last."""
    draws = "let x <- gaussian(mean, u) in let y <- gaussian(mean, v) in "
    data = {"mean": mean, "u": u, "v": v}
    assert answer(draws + "x * x - y * y", **data) == pytest.approx(
        (u - v, math.sqrt(4 * mean**2 * (u + v) + 2 * (u * u + v * v))), rel=1e-9
    )
    spread = math.sqrt(mean**2 * (u + v) + v * u + 2 * u * u)
    assert answer(draws + "x * y - x * x", **data) == pytest.approx((-u, spread), rel=1e-9)


@pytest.mark.parametrize(
    ("draw", "sd"),
    [
        ("gamma(1e14, 1e5)", 100.0),
        ("uniform(1.7e9, 1700000001)", math.sqrt(1 / 12)),
        ("student_t(1.7e9, 1, 4)", math.sqrt(2)),
        ("poisson(1e12)", 1e6),
        ("laplace(1.7e9, 1)", math.sqrt(2)),
        ("truncated_gaussian(1.7e9, 1, 1.7e9, 2e9)", math.sqrt(1 - 2 / math.pi)),
        ("lognormal(20, 1e-14)", math.exp(20) * 1e-7),
    ],
)
def test_the_spread_of_a_difference_of_any_family(draw, sd):
    mean, spread = answer(f"let x <- {draw} in let y <- {draw} in x - y")
    assert mean == 0
    assert spread == pytest.approx(math.sqrt(2) * sd, rel=1e-9)


def test_vectors_far_from_0():
    draw = "let x <- mv_gaussian([1e9, -1e9], [[1, 0.5], [0.5, 4]]) in let y <- gaussian(1e9, 1) in "
    assert answer(draw + "y - x[0]") == pytest.approx((0, math.sqrt(2)))
    # E[d0 d1] = 0.5; the spread is that of 1e9 (d1 - d0) + d0 d1
    assert answer(draw + "x[0] * x[1]") == pytest.approx((-1e18, math.sqrt(1e18 * (1 + 4 - 1))))
    assert answer(draw + "x[0] * x[1] + y * y")[0] == 1.5


def test_powers_of_a_vector_are_not_drawn():
    """The variance of a product of two is that of Isserlis."""
    draw = "let x <- mv_gaussian([2, 3], [[1, 0.5], [0.5, 4]]) in "
    assert answer(draw + "x[0] * x[0] * x[0]") == pytest.approx((14, math.sqrt(9 * 16 + 36 * 4 + 15)))
    spread = math.sqrt(4 * 4 + 9 * 1 + 2 * 6 * 0.5 + 1 * 4 + 0.25)
    assert answer(draw + "x[0] * x[1]") == pytest.approx((6.5, spread))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 10).map(lambda power: 10.0**power), min_size=3, max_size=3))
def test_products_of_probabilities(weights):
    a = [Fraction(weight) for weight in weights]

    def moment(*powers):
        up = math.prod(a[i] + j for i, n in enumerate(powers) for j in range(n))
        return up / math.prod(sum(a) + j for j in range(sum(powers)))

    draw = f"let p <- dirichlet([{', '.join(map(repr, weights))}]) in "
    for expr, powers in (("p[0] * p[0]", (2, 0, 0)), ("p[0] * p[2]", (1, 0, 1))):
        mean = moment(*powers)
        spread = math.sqrt(moment(*(2 * n for n in powers)) - mean**2)
        assert answer(draw + expr) == pytest.approx((float(mean), spread), rel=1e-6)


@pytest.mark.parametrize("variance", [1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_lognormals_about_their_mean(k, variance):
    """Where the variance is small, by the leading term; else by the sum of raw moments."""
    found = f.LOGNORMAL.central(k, 0.0, variance)
    assert f.LOGNORMAL.central(-k, 0.0, variance) == pytest.approx(found)
    if variance == 1.0:
        terms = [(-1) ** (k - j) * math.comb(k, j) * math.exp(j * j / 2 + (k - j) / 2) for j in range(k + 1)]
        assert found == pytest.approx(sum(terms))
    else:
        skewed = {2: 1, 3: 3 * variance**0.5, 4: 3, 5: 30 * variance**0.5}[k]
        assert found / variance ** (k / 2) == pytest.approx(skewed, rel=40 * variance)


@pytest.mark.parametrize("expr", ["2 * x + 1 < 2000000005", "-x > -1000000002", "x <= 1000000002"])
def test_probabilities_of_a_line(expr):
    chance = 0.8413447460685429
    expected = (chance, math.sqrt(chance * (1 - chance)))
    assert answer(f"let x <- gaussian(1e9, 4) in {expr}") == pytest.approx(expected, rel=1e-9)


def test_particles_that_differ():
    """Given m, the mean of x * x - y * y is the difference of the variances, whatever m is."""
    text = "let sample m <- uniform(1e9, 2e9) in let x <- gaussian(m, 1) in let y <- gaussian(m, 4) in "
    assert answer(text + "x * x - y * y")[0] == pytest.approx(-3)
    assert answer(text + "x - y") == pytest.approx((0, math.sqrt(5)))


def test_a_state_that_is_nearly_certain():
    """Of a hundred states the last, but for a chance in 1e18."""
    chances = [1e-18, *[0.0] * 98, 1.0]
    assert f.CATEGORICAL.variance(0.0, *chances) == pytest.approx(99**2 * 1e-18)


def test_infinite_spreads():
    assert answer("let g <- gamma(1.5, 1) in 1 / g") == (pytest.approx(2), math.inf)
    assert answer("let p <- beta(2.5, 1) in 1 / p / p")[1] == math.inf
    assert answer("let g <- gamma(0.5, 1) in 1 / g")[0] == math.inf


def test_a_long_product_has_a_mean():
    """Which has too many terms to be worked out from the means."""
    names = [f"x{i}" for i in range(20)]
    draws = " ".join(f"let {name} <- gaussian(1, 0.25) in" for name in names)
    assert answer(f"{draws} {' * '.join(names)}") == pytest.approx((1, math.sqrt(1.25**20 - 1)))


def test_a_family_with_raw_moments_only():
    """As one that a user registers."""

    class Squares(f.Distribution):
        name = "squares"
        parameters = (f.Parameter("high"),)

        def mean(self, *p):
            return p[0] / 2

        def variance(self, *p):
            return np.square(p[0]) / 12

        def moment(self, exponent, *p):
            return p[0] ** exponent / (exponent + 1)

    assert Squares().central(3, 2.0) == pytest.approx(0)
    assert Squares().central(4, 2.0) == pytest.approx(1 / 5)


def test_particles_that_agree_leave_no_spread():
    """Though 20,000 weights sum to 1 in all digits but the last."""
    text = "let sample k <- uniform_int(7, 8) in let () = observe(delta(k), 7) in let () = resample() in "
    result = siren.run(text + "[k, k + 1e9]", particles=20_000, seed=0)[0]
    assert result.mean.tolist() == [7, 7 + 1e9]
    assert result.sd.tolist() == [0, 0]


def test_powers_that_are_too_large():
    assert answer("let x <- gaussian(1e200, 1) in x * x * x") == (
        math.inf,
        pytest.approx(math.nan, nan_ok=True),
    )
    assert answer("let x <- laplace(1e200, 1) in x * x")[0] == math.inf
    assert math.isnan(answer("let g <- gamma(1e-300, 1e-300) in g * g")[1])  # which is not 0


@settings(max_examples=30, deadline=None)
@given(st.floats(1e9, 2e9), st.floats(-3, 3), magnitudes)
def test_powers_of_a_distance_between_large_numbers(place, distance, variance):
    """Which are not multiplied out: of x * x and d * d the digits that count are lost."""
    away = Fraction(place + distance) - Fraction(place)
    text = "let x <- gaussian(mean, variance) in let d = x - place in "
    given = {"mean": place + distance, "variance": variance, "place": place}
    for power, k in (("d * d", 2), ("d * d * d", 3)):
        expected = exact({k: 1}, lambda n: Fraction(gaussian(n, away, Fraction(variance))))
        assert answer(text + power, **given) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_square_of_the_distance_of_two_places():
    draws = "let x <- gaussian(5000000.25, 1) in let y <- gaussian(5000001.75, 2) in "
    expected = (1.5**2 + 3, math.sqrt(4 * 1.5**2 * 3 + 2 * 9))
    assert answer(draws + "(x - y) * (x - y)") == pytest.approx(expected, rel=1e-12)
    drawn = siren.run(draws + "(x - y) * (x - y)", particles=1000, seed=0)[0].draws(1000)
    assert drawn.min() >= 0


def test_what_is_linear_when_multiplied_out_stays_symbolic():
    text = (
        "let symbolic x <- gaussian(0, 1) in let () = observe(gaussian((x + 1) * (x + 1) - x * x, 1), 2) in x"
    )
    assert answer(text) == pytest.approx((0.4, math.sqrt(0.2)))


def test_a_product_observed_near_a_large_number():
    """Given x, the mean of the datum is (x - d) * (x - d) to the last digit."""
    text = "let sample x <- gaussian(d, 1) in let () = observe(gaussian((x - d) * (x - d), 0.01), 0) in x - d"
    near, far = (siren.run(text, data={"d": d}, particles=20_000, seed=0) for d in (0.0, 1.7e9))
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=1e-4)
    assert far[0].sd == pytest.approx(near[0].sd, rel=1e-4)


@pytest.mark.parametrize(
    "square", ["pow(x - d, 2)", "dot([x - d, 0], [x - d, 0])", "pow(x - d, 4) / pow(x - d, 2)"]
)
def test_other_ways_to_write_a_square(square):
    draw = "let d = 1.7e9 in let x <- gaussian(1700000000.5, 1) in "
    if "/" not in square:
        assert answer(draw + square) == pytest.approx((1.25, math.sqrt(3)), rel=1e-12)
    else:  # no polynomial, so it is drawn: as such
        assert answer(draw + square)[0] == pytest.approx(1.25, abs=0.1)


def test_a_sum_of_squares_stays_flat():
    """What a loop carries on is multiplied out, or it would grow with the data."""
    text = "let x <- gaussian(0, 1) in fold(fun (y, sum) -> sum + (x - y) * (x - y), List.range(0, 2000), 0)"
    ys = np.arange(2000.0)
    expected = (np.square(ys).sum() + 2000, math.sqrt(4 * ys.sum() ** 2 + 2 * 2000**2))
    assert answer(text) == pytest.approx(expected)


@pytest.mark.parametrize("line, expected", [("a + 3 * b", [1, 3]), ("a - b", [1, -1])])
def test_a_line_whose_coefficients_share_an_unknown_precision(line, expected):
    """Regression with unknown noise: given the precision all is gaussian, so a prediction is exact."""
    text = """
    let symbolic g <- gamma(3, 2) in
    let symbolic a <- gaussian(0, 10 / g) in
    let symbolic b <- gaussian(1, 4 / g) in
    let () = fold(fun ((x, y), ()) -> observe(gaussian(a + b * x, 1 / g), y), [(0, 1), (1, 3), (2, 2)], ()) in
    """
    x, y = np.array([[1, 0], [1, 1], [1, 2]]), np.array([1, 3, 2])
    before, start = np.diag([0.1, 0.25]), np.array([0, 1])
    precision = before + x.T @ x
    mean = np.linalg.solve(precision, before @ start + x.T @ y)
    rate = 2 + (y @ y + start @ before @ start - mean @ precision @ mean) / 2
    spread = rate / 3.5 * np.linalg.inv(precision)
    expected = np.array(expected)
    assert answer(text + line) == pytest.approx(
        (expected @ mean, math.sqrt(expected @ spread @ expected)), rel=1e-9
    )
    assert answer(text + "a * b")[0] == pytest.approx(mean[0] * mean[1] + spread[0, 1], rel=1e-9)
