"""Vectors: multivariate normal and Dirichlet, against closed forms."""

from itertools import pairwise

import numpy as np
import pytest

import siren
from siren.analysis import analyze
from siren.errors import RunError

METHODS = ["ssi", "ds", "bp"]
RNG = np.random.default_rng(7)


def spd(size: int) -> np.ndarray:
    root = RNG.normal(size=(size, size))
    return root @ root.T + 0.5 * np.eye(size)


def kalman(ys, f, q, h, r, m, s):
    """Filtered means and covariances, and the log density of the data."""
    means, spreads, score = [], [], 0.0
    for y in ys:
        m, s = f @ m, f @ s @ f.T + q
        total = h @ s @ h.T + r
        off = y - h @ m
        score -= 0.5 * (off @ np.linalg.solve(total, off) + np.linalg.slogdet(2 * np.pi * total)[1])
        gain = s @ h.T @ np.linalg.inv(total)
        m, s = m + gain @ off, s - gain @ h @ s
        means.append(m)
        spreads.append(s)
    return np.array(means), np.array(spreads), score


FILTER = """
val step = fun (y, (xs, f, q, h, r)) ->
  let symbolic x <- mv_gaussian(f * List.hd(xs), q) in
  let () = observe(mv_gaussian(h * x, r), y) in
  (x :: xs, f, q, h, r)
in
let symbolic x <- mv_gaussian(m, s) in
let (xs, f, q, h, r) = fold(step, ys, ([x], f, q, h, r)) in
"""


def model(size=6, seen=2, steps=12):
    f = np.eye(size) + 0.3 * np.eye(size, k=seen)
    h = np.eye(seen, size)
    return {
        "ys": RNG.normal(size=(steps, seen)), "f": f, "q": 0.1 * spd(size), "h": h, "r": spd(seen),
        "m": RNG.normal(size=size), "s": spd(size),
    }  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_a_kalman_filter_of_dimension_six(method):
    data = model()
    means, spreads, score = kalman(**data)
    result = siren.run(FILTER + "List.hd(xs)", data=data, method=method, particles=3, seed=0)
    np.testing.assert_allclose(result[0].mean, means[-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result[0].sd, np.sqrt(np.diag(spreads[-1])), rtol=0, atol=1e-9)
    assert result.log_evidence == pytest.approx(score, abs=1e-8)
    assert result.plan == {"x": "symbolic"}
    draws = result[0].draws(40_000)
    np.testing.assert_allclose(np.cov(draws.T), spreads[-1], atol=0.05 * spreads[-1].max())


@pytest.mark.parametrize("method", ["ssi", "bp"])
def test_a_smoother(method):
    """The whole history against the joint gaussian of all states."""
    data = model(size=3, seen=1, steps=4)
    size, steps = 3, len(data["ys"])
    big = np.zeros(((steps + 1) * size, (steps + 1) * size))
    mean = np.zeros((steps + 1) * size)
    blocks = [slice(i * size, (i + 1) * size) for i in range(steps + 1)]
    mean[blocks[0]], big[blocks[0], blocks[0]] = data["m"], data["s"]
    for before, now in pairwise(blocks):
        mean[now] = data["f"] @ mean[before]
        past = slice(0, now.start)
        big[now, past] = data["f"] @ big[before, past]
        big[past, now] = big[now, past].T
        big[now, now] = data["f"] @ big[before, before] @ data["f"].T + data["q"]
    h = np.zeros((steps, len(mean)))
    for i, block in enumerate(blocks[1:]):
        h[i, block] = data["h"]
    gain = big @ h.T @ np.linalg.inv(h @ big @ h.T + data["r"][0, 0] * np.eye(steps))
    mean = mean + gain @ (data["ys"][:, 0] - h @ mean)
    big = big - gain @ h @ big
    result = siren.run(FILTER + "List.rev(xs)", data=data, method=method, particles=2, seed=0)
    np.testing.assert_allclose(np.ravel(result[0].mean), mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.ravel(result[0].sd), np.sqrt(np.diag(big)), rtol=0, atol=1e-9)
    draws = result[0].draws(40_000).reshape(40_000, -1)
    np.testing.assert_allclose(np.cov(draws.T), big, atol=0.05 * big.max())


@pytest.mark.parametrize("method", ["ssi", "bp"])
def test_numbers_and_vectors_meet(method):
    """A number above a vector, and a number below it."""
    text = (
        "let a <- gaussian(1, 2) in let x <- mv_gaussian([a, 2 * a + 1], [[1, 0.5], [0.5, 2]]) in "
        "let () = observe(gaussian(3 * List.hd(x) - List.hd(List.tl(x)), 0.7), 2) in (a, x)"
    )
    joint = np.zeros((3, 3))
    up = np.array([[1.0], [2.0]])
    joint[0, 0] = 2.0
    joint[1:, :1], joint[:1, 1:] = up * 2, up.T * 2
    joint[1:, 1:] = up @ up.T * 2 + np.array([[1, 0.5], [0.5, 2]])
    mean, h = np.array([1.0, 1.0, 3.0]), np.array([0.0, 3.0, -1.0])
    gain = joint @ h / (h @ joint @ h + 0.7)
    mean, joint = mean + gain * (2 - h @ mean), joint - np.outer(gain, h @ joint)
    result = siren.run(text, method=method, particles=4, seed=0)
    np.testing.assert_allclose([result["a"].mean, *result["x"].mean], mean, atol=1e-12)
    np.testing.assert_allclose([result["a"].sd, *result["x"].sd], np.sqrt(np.diag(joint)), atol=1e-12)
    a, x = result["a"].draws(40_000), result["x"].draws(40_000)
    np.testing.assert_allclose(np.cov(np.column_stack([a, x]).T), joint, atol=0.06)


@pytest.mark.parametrize("method", METHODS)
def test_particles_of_their_own_matrices(method):
    """A sampled variance: every particle has a Kalman filter of its own, and is weighed by it."""
    text = (
        "let sample q <- gamma(2, 2) in let x <- mv_gaussian([0, 0], [[q, 0], [0, 1]]) in "
        "let () = observe(mv_gaussian(x, [[1, 0], [0, 1]]), [1.5, -1]) in "
        "let () = resample() in (x, q)"
    )
    grid = np.linspace(1e-3, 15, 20_000)
    weight = 4 * grid * np.exp(-2 * grid) * np.exp(-0.5 * 2.25 / (1 + grid)) / np.sqrt(1 + grid)
    weight /= weight.sum()
    result = siren.run(text, method=method, particles=20_000, seed=1, resample="systematic")
    assert result["q"].mean == pytest.approx((weight * grid).sum(), abs=0.02)
    assert result["x"].mean[0] == pytest.approx((weight * 1.5 * grid / (1 + grid)).sum(), abs=0.02)
    assert result["x"].mean[1] == pytest.approx(-0.5, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_sampled_vectors(method):
    text = (
        "let sample x <- mv_gaussian([1, 2], [[2, 1], [1, 2]]) in "
        "let () = observe(gaussian(List.hd(x), 1), 3) in (x, List.hd(x) * List.hd(List.tl(x)))"
    )
    result = siren.run(text, method=method, particles=60_000, seed=0)
    np.testing.assert_allclose(result["x"].mean, [1 + 4 / 3, 2 + 2 / 3], atol=0.03)


def test_particles_ask_different_things_of_one_vector():
    """The vector is alike in all of them."""
    sums = """
let x <- mv_gaussian([1, 3], [[2, 0.5], [0.5, 1]]) in
let sample w <- bernoulli(0.5) in
(w, 2 * w * x[0] + x[1], if w then x[0] else x[1])
"""
    result = siren.run(sums, particles=400, seed=0)
    w = result["w"].mean
    for output, ones, zeros in ((result[1], (5, 11), (3, 1)), (result[2], (1, 2), (3, 1))):
        mean = w * ones[0] + (1 - w) * zeros[0]
        square = w * (ones[0] ** 2 + ones[1]) + (1 - w) * (zeros[0] ** 2 + zeros[1])
        assert (output.mean, output.sd) == pytest.approx((mean, np.sqrt(square - mean**2)))


def test_products_of_components_are_exact():
    text = (
        "let x <- mv_gaussian([1, 2], [[2, 0.5], [0.5, 3]]) in let a = List.hd(x) in "
        "let b = List.hd(List.tl(x)) in (a * b, a * a, a + 2 * b)"
    )
    product, square, total = siren.run(text, particles=2, seed=0)
    assert product.mean == pytest.approx(2.5, abs=1e-12)
    assert square.mean == pytest.approx(3, abs=1e-12)
    assert total.sd == pytest.approx(np.sqrt(2 + 12 + 2), abs=1e-12)


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_probabilities_are_learnt(method):
    text = (
        "val step = fun (y, p) -> let () = observe(categorical(p), y) in p in "
        "let symbolic p <- dirichlet([1, 2, 3]) in fold(step, [0, 2, 2, 1, 2], p)"
    )
    result = siren.run(text, method=method, particles=2, seed=0)
    np.testing.assert_allclose(result[0].mean, np.array([2, 3, 6]) / 11, atol=1e-12)
    sd = [np.sqrt(a * (11 - a) / (121 * 12)) for a in (2, 3, 6)]
    np.testing.assert_allclose(result[0].sd, sd, atol=1e-12)
    np.testing.assert_allclose(result[0].draws(1000).sum(axis=1), 1)
    # P(0) P(2|0) P(2|..) P(1|..) P(2|..)
    assert result.log_evidence == pytest.approx(np.log(1 / 6 * 3 / 7 * 4 / 8 * 2 / 9 * 5 / 10))
    assert analyze(siren.parse(text), method).satisfiable


def test_a_hidden_category():
    text = "let p <- dirichlet([1, 1]) in let k <- categorical(p) in let () = observe(gaussian(k, 1), 2) in p"
    result = siren.run(text, particles=40_000, seed=0)
    odds = np.exp(-0.5 * (2 - np.arange(2)) ** 2)
    odds /= odds.sum()
    assert result[0].mean[1] == pytest.approx((1 + odds[1]) / 3, abs=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_the_analysis_follows_vectors(method):
    text = (
        "val step = fun (y, x) -> let symbolic x <- mv_gaussian([[1, 0.5], [0, 1]] * x, identity(2)) in "
        "let () = observe(mv_gaussian([[1, 0]] * x, [[1]]), y) in x in "
        "let symbolic x <- mv_gaussian([0, 0], identity(2)) in fold(step, ys, x)"
    )
    verdict = analyze(siren.parse(text), method, None, {"ys": [[1.0], [2.0]]})
    assert verdict.satisfiable, verdict


@pytest.mark.parametrize("method", ["ssi", "bp"])
def test_the_analysis_follows_matrices_that_are_data(method):
    data = {name: value.tolist() for name, value in model(size=2, seen=1, steps=2).items()}
    program = siren.parse(FILTER + "List.hd(xs)")
    verdict = analyze(program, method, {"x": "symbolic"}, data)
    assert verdict.satisfiable, verdict


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("let x <- mv_gaussian([1, 2], [[1, 0]]) in x", "needs a covariance of 2 rows of 2"),
        ("let x <- mv_gaussian([1, 2], [[1, 0], [0.5, 1]]) in x", "must be symmetric"),
        ("let sample x <- mv_gaussian([1, 2], [[1, 2], [2, 1]]) in x", "negative eigenvalue"),
        ("let () = observe(mv_gaussian([1], [[1]]), [1, 2]) in 1", "a list of 1 numbers, not a list of 2"),
        ("let () = observe(mv_gaussian([1], [[0]]), [1]) in 1", "positive definite"),
        (
            "let x <- mv_gaussian([1, 2], [3, 4]) in x",
            "must be a list of rows of numbers, but holds a number",
        ),
        ("let x <- mv_gaussian([1, 2], [[1, 0], 1]) in x", "`covariance` of `mv_gaussian` must be"),
        ("let x <- mv_gaussian([1, 2], [[1, 0], [0, [1]]]) in x", "but holds a list"),
        ("let x <- mv_gaussian([[1], [2]], identity(2)) in x", "`mean` of `mv_gaussian` must be a list of n"),
        ("let x <- mv_gaussian([], []) in x", "the mean of mv_gaussian is an empty list"),
        ("let x <- categorical([[0.5], [0.5]]) in x", "`probabilities` of `categorical` must be"),
        ("let x <- dirichlet([1]) in x", "two weights"),
        ("transpose([[1, 2], [3]])", "not a list of rows of 2, 1"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(RunError, match=words):
        siren.run(text, particles=2)


def test_variances_in_the_place_of_a_covariance():
    """That was a TypeError."""
    with pytest.raises(RunError) as caught:
        siren.run("let x <- mv_gaussian([0, 0], [1, 4]) in x", particles=2)
    assert caught.value.hint == "`diagonal([a, b])` makes one of the variances `a` and `b`"


@pytest.mark.parametrize("arguments", ["[[1, 2], [3, 4]], x", "x, [[1, 2], [3, 4]]", "[[1, 2]], x"])
def test_a_matrix_is_not_multiplied_with_dot(arguments):
    """That was an AttributeError."""
    text = f"let x <- mv_gaussian([0, 1], identity(2)) in dot({arguments})"
    with pytest.raises(RunError, match="dot expects two lists of numbers") as caught:
        siren.run(text, particles=2)
    assert "multiplied with `*`" in caught.value.hint


@pytest.mark.parametrize(
    ("product", "words"),
    [
        ("[[1, [2]], [3, 4]] * x", "a list of 2 lists that hold lists and a list of 2"),
        ("[[[1, 2]], [[3, 4]]] * x", "a list of 2 lists that hold lists and a list of 2"),
        ("[[1, 2], [3, 4]] * [x, 1]", "a matrix of 2 x 2 and a list of 2, numbers and lists"),
        ("[[], []] * x", "a matrix of 2 x 0 and a list of 2"),
    ],
)
def test_lists_that_are_no_matrix_are_not_multiplied(product, words):
    """They were a TypeError and an IndexError."""
    with pytest.raises(RunError, match=f"cannot multiply {words}"):
        siren.run(f"let x <- mv_gaussian([0, 1], identity(2)) in {product}", particles=2)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_the_mean_of_a_product_of_components_is_exact(method):
    """Delayed sampling drew them."""
    text = "let x <- mv_gaussian([1, 2], [[2, 0.5], [0.5, 1]]) in (x[0] * x[1], x[0] * x[0])"
    product, square = siren.run(text, particles=2, method=method, seed=0)
    assert product.mean == pytest.approx(1 * 2 + 0.5) and square.mean == pytest.approx(1 + 2)
    assert product.sd == pytest.approx(np.sqrt(2 * 1 + 0.5**2 + 1 * 1 + 4 * 2 + 2 * 1 * 2 * 0.5))
