"""A result that has been pickled gives the same figures and draws."""

import copy
import pickle

import numpy as np
import pytest

import siren

HISTORY = """
val step = fun (y, xs) ->
  let x <- gaussian(List.hd(xs), 1) in
  let () = observe(gaussian(x, 1), y) in
  let () = resample() in
  x :: xs
in
let xs = fold(step, ys, [0]) in xs
"""
PROGRAMS = {
    "number": "(3, true, 0 / 0)",
    "gaussian": "let x <- gaussian(0, 1) in let () = observe(gaussian(x, 1), 1) in (x, 1 - 2 * x, x * x)",
    "mixture": "let sample o <- bernoulli(0.3) in let x <- gaussian(if o then 0 else 5, 1) in (o, x)",
    "discrete": "let a <- uniform_int(1, 6) in let b <- bernoulli(if a > 4 then 0.9 else 0) in (a, b, a + b)",
    "draws": "let x <- gaussian(0, 1) in let g <- gamma(2, 1) in (x * g, exp(x), g)",
    "vector": "let x <- mv_gaussian([0, 1], [[1, 0.5], [0.5, 2]]) in (x, x[0] + x[1])",
    "record": "let p <- beta(1, 2) in let n <- poisson(3) in {rate = p, count = n}",
    "list": HISTORY,
    "lists of several lengths": """
    let sample n <- poisson(2) in
    let xs = List.filter(fun i -> i <= n, List.range(0, 4)) in
    List.map(fun i -> let x <- gaussian(i, 1) in x, xs)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_the_figures_are_the_same(name: str, method: str) -> None:
    result = siren.run(PROGRAMS[name], data={"ys": [1.0, 2.0, 1.5]}, particles=5, seed=0, method=method)
    again = pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result) and again.to_json() == result.to_json()
    for output, other in zip(result, again, strict=True):
        np.testing.assert_array_equal(other.draws(20), output.draws(20))
        for (_, leaf), (_, same) in zip(output.leaves(), other.leaves(), strict=True):
            np.testing.assert_equal((same.mean, same.sd), (leaf.mean, leaf.sd))
            assert [same.quantile(q) for q in (0.1, 0.5)] == pytest.approx(
                [leaf.quantile(q) for q in (0.1, 0.5)], rel=1e-12, nan_ok=True
            )


def test_a_long_history_is_no_trouble() -> None:
    result = siren.run(HISTORY, data={"ys": [1.0, 2.0] * 1500}, particles=2, seed=0)
    again = copy.deepcopy(result)
    np.testing.assert_array_equal(again["xs"].sd, result["xs"].sd)
    np.testing.assert_array_equal(again["xs"].draws(2), result["xs"].draws(2))


def test_the_results_of_a_stream() -> None:
    for result in siren.stream(HISTORY.replace("ys", "data"), iter([1.0, 2.0]), particles=3, seed=0):
        assert pickle.loads(pickle.dumps(result)).to_json() == result.to_json()
