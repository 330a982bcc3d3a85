"""Data written in the program: long lists, through whose steps there are many ways."""

import pytest

from siren.analysis import analyze
from siren.syntax import parse

OUTLIERS = """
val step = fun (y, (x, rate)) ->
  let symbolic x <- gaussian(x, 1) in
  let sample outlier <- bernoulli(rate) in
  let () = if outlier then observe(gaussian(0, 100), y) else observe(gaussian(x, 1), y) in
  let () = resample() in
  (x, rate)
in
let symbolic rate <- beta(1, 9) in
let (x, rate) = fold(step, YS, (0, rate)) in
(rate, x)
"""
CHOSEN_BY_DATA = """
val step = fun (y, x) ->
  let sample noisy <- bernoulli(0.1) in
  let () = observe(gaussian(if y > 9 then x * x else x, if noisy then 9 else 1), y) in
  let () = if noisy then resample() else () in
  x
in
let symbolic x <- gaussian(0, 1) in
fold(step, YS, x)
"""


def written(text: str, *more: float) -> str:
    return text.replace("YS", str([step / 8 for step in range(20)] + list(more)))


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_a_switch_at_each_of_many_data(method: str) -> None:
    """There are two to the power of 20 ways through it."""
    assert analyze(parse(written(OUTLIERS)), method).satisfiable


def test_what_cannot_be_kept_is_still_found() -> None:
    problem = analyze(parse(written(OUTLIERS)), "ssi", {"outlier": "symbolic"}).problem
    assert problem is not None and "its value is needed" in problem.message


def test_whether_a_plan_can_be_kept_may_hang_on_the_numbers() -> None:
    short = CHOSEN_BY_DATA.replace("YS", "[1, 2, 3, 4]")
    assert analyze(parse(short), "ssi").satisfiable
    broken = analyze(parse(written(CHOSEN_BY_DATA, 10)), "ssi").problem
    assert broken is not None and "not linear in `x`" in broken.message


def test_a_run_that_ends_for_want_of_an_element_breaks_no_plan() -> None:
    text = """
    val step = fun (y, xs) ->
      let symbolic x <- gaussian(List.hd(xs), 1) in
      let () = observe(gaussian(x, 1), y) in
      x :: xs
    in
    let xs = fold(step, ys, [0]) in
    xs[1] - xs[0]
    """
    assert analyze(parse(text), "ssi", data={"ys": [1.0, 2.0]}).satisfiable
