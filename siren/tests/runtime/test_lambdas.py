"""Functions without a name: what they see, and that inference cannot tell them from named ones."""

import sys
from pathlib import Path

import numpy as np
import pytest

import siren
from siren.analysis import analyze
from siren.errors import CheckErrors, RunError
from siren.syntax import ast
from siren.syntax.traverse import everything, walk

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))

from rewriting import nameless

from benchmarks.suite import METHODS, suite

SUITE = suite()


def value(text: str, **options):
    return siren.run(text, particles=options.pop("particles", 10), seed=0, **options)[0].mean


def test_it_sees_what_is_around_it():
    assert value("let a = 10 in fold(fun (x, s) -> s + a * x, [1, 2, 3], 0)") == 60


def test_it_sees_what_was_bound_where_it_was_written():
    assert value("let a = 1 in let f = fun x -> x + a in let a = 100 in f(5) + a") == 106


def test_functions_take_and_give_functions():
    text = """
      val twice = fun (f, x) -> f(f(x)) in
      val plus = fun n -> fun x -> x + n in
      let f = plus(3) in twice(f, 1)"""
    assert value(text) == 7
    assert value("val plus = fun n -> fun (x, s) -> s + x + n in fold(plus(1), [1, 2], 0)") == 5


def test_a_name_that_holds_a_function_wins_over_a_defined_one():
    assert value("val f = fun x -> 1 in let f = fun x -> 2 in f(0)") == 2
    assert value("let exp = fun x -> 7 in exp(0)") == 7
    assert value("let exp = 3 in exp(0) + exp") == 4  # programs of old


def test_filter_keeps_the_elements_for_which_the_function_holds():
    assert list(value("List.filter(fun x -> x > 1.5, [1, 2, 3])")) == [2, 3]
    assert list(
        value("List.map(fun (a, b) -> a * b, List.filter(fun (a, _) -> a > 1, [(1, 2), (3, 4)]))")
    ) == [12]


def test_a_random_variable_that_is_captured_stays_symbolic():
    result = siren.run("let a <- gaussian(0, 1) in let f = fun x -> 2 * a + x in (f(1), List.map(f, [0, 5]))")
    assert result.plan == {"a": "symbolic"}
    assert result[0].mean == 1 and result[0].sd == pytest.approx(2)


LOOP = """
  let {keep} a <- gaussian(0, 1) in
  let x = fold(fun (y, x) ->
    let x <- gaussian(x + a, 1) in
    let () = observe(gaussian(x, 1), y) in
    let () = resample() in
    x, ys, 0) in
  (x, a)"""
NAMED = """
  val step = fun (y, (x, a)) ->
    let x <- gaussian(x + a, 1) in
    let () = observe(gaussian(x, 1), y) in
    let () = resample() in
    (x, a) in
  let {keep} a <- gaussian(0, 1) in
  fold(step, ys, (0, a))"""
YS = np.random.default_rng(3).normal(size=40).cumsum().tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("keep", ["", "sample", "symbolic"])
@pytest.mark.parametrize("method", METHODS)
def test_a_captured_parameter_is_a_parameter_in_the_state(method, keep, compiled):
    from siren.runtime.session import run

    both = []
    for text in (LOOP, NAMED):
        program = siren.parse(text.replace("{keep}", keep))
        try:
            found = run(program, data={"ys": YS}, method=method, particles=60, seed=5, compiled=compiled)
            both.append((found.plan, found.log_evidence, *(leaf.mean for leaf in found.value)))
        except siren.PlanError as error:
            both.append(error.message)
        assert analyze(program, method, data={"ys": [1.0]}).satisfiable == (not isinstance(both[-1], str))
    if isinstance(both[0], str):
        assert both[0] == both[1]
    else:
        assert both[0][0] == both[1][0]
        assert both[0][1:] == pytest.approx(both[1][1:], rel=1e-9)


def test_captured_values_follow_resampling_and_do_not_stay_behind():
    """Each particle keeps its own parameter: its estimate must be the posterior, not the prior."""
    a = siren.run(LOOP.replace("{keep}", "sample"), data={"ys": YS}, particles=4000, seed=1)[1]
    exact = siren.run(NAMED.replace("{keep}", "symbolic"), data={"ys": YS}, particles=1)[1]
    assert a.mean == pytest.approx(exact.mean, abs=0.1)


@pytest.mark.parametrize("smoother", ["backward", "lag"])
def test_smoothing_sees_what_is_captured(smoother):
    text = """
      let sample a <- gaussian(0, 0.01) in
      let xs = fold(fun (y, xs) ->
        let sample x <- gaussian(List.hd(xs) + a, 1) in
        let () = observe(gaussian(x, 1), y) in
        let () = resample() in
        x :: xs, ys, [0]) in
      List.rev(xs)"""
    named = """
      val step = fun (y, (xs, a)) ->
        let sample x <- gaussian(List.hd(xs) + a, 1) in
        let () = observe(gaussian(x, 1), y) in
        let () = resample() in
        (x :: xs, a) in
      let sample a <- gaussian(0, 0.01) in
      let (xs, a) = fold(step, ys, ([0], a)) in
      List.rev(xs)"""
    found = [
        siren.smooth(t, data={"ys": YS[:8]}, how=smoother, particles=50, seed=2)[0].mean
        for t in (text, named)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_a_stream_goes_on_with_what_was_captured(tmp_path):
    text = "let sample a <- gaussian(0, 1) in let s = fold(fun (row, s) -> s + a * row.x, data, 0) in (s, a)"
    whole, half = (siren.Stream(text, particles=20, seed=3) for _ in range(2))
    for x in (1.0, 2.0):
        whole.push({"x": x})
        half.push({"x": x})
    half.save(tmp_path / "half")
    again = siren.Stream.resume(tmp_path / "half")
    assert again.push({"x": 4.0})[0].mean == whole.push({"x": 4.0})[0].mean != 0


def test_a_function_that_observes_makes_a_branch_impure():
    """Were `weigh(x)` taken for pure, both observations would count for everybody."""
    text = """
      let x <- bernoulli(0.5) in
      let weigh = fun p -> observe(bernoulli(p), true) in
      let () = if x then weigh(0.9) else weigh(0.1) in
      x"""
    assert value(text, particles=5000) == pytest.approx(0.9, abs=0.02)
    passed = "val run = fun (f, p) -> f(p) in " + text.replace("weigh(0.", "run(weigh, 0.")
    assert value(passed, particles=5000) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("fold(3, [1], 2)", "1:6", "needs a function, but this is a number"),
        ("let f = 3 in List.map(f, [1])", "1:23", "needs a function, but this is a number"),
        ("let f = 3 in f(1)", "1:14", "calling `f` needs a function, but this is a number"),
        ("List.map(fun x -> x + y, [1])", "1:23", "unknown name `y`"),
        ("List.map(fun (a, b) -> a, [1])", "1:15", "the pattern `(a, b)` cannot match a number"),
        ("let f = fun x -> x in f + 1", "1:23", "needs a number, but this is a function"),
        ("List.filter(fun x -> [x], [1])", "1:13", "needs a number, but this is a list"),
        ("List.fitler(fun x -> x, [1])", "1:1", "unknown function `List.fitler`"),
        ("val f = fun x -> x in f", "1:23", "`f` is a function, not a value"),
    ],
)
def test_mistakes_are_found_before_the_run(text, place, message):
    with pytest.raises(CheckErrors) as caught:
        siren.run(text)
    assert caught.value.render().startswith(f"<program>:{place}:") and message in caught.value.render()


def test_a_function_is_no_answer():
    with pytest.raises(RunError, match="a function is no answer"):
        siren.run("fun x -> x")


# The benchmark programs, with every function of theirs written where it is used.


def _plans(name: str, method: str) -> list[int]:
    benchmark = SUITE[name]
    good = benchmark.satisfiable[method]
    return [*good[:2], *[number for number in benchmark.plans if number not in good][:2]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SUITE)
def test_verdicts_do_not_depend_on_names(name, method):
    benchmark = SUITE[name]
    program = nameless(benchmark.program())
    assert not program.functions or any(_recurs(f) for f in program.functions)
    assert any(isinstance(node, ast.Lambda) for node in everything(program))
    for number in _plans(name, method):
        verdict = analyze(program, method, benchmark.plan(number))
        assert verdict.satisfiable == (number in benchmark.satisfiable[method]), verdict.problem


@pytest.mark.parametrize("name", SUITE)
def test_answers_do_not_depend_on_names(name):
    benchmark = SUITE[name]
    program = benchmark.program()
    plan = benchmark.plan(benchmark.satisfiable["ssi"][-1])  # the first of SLAM takes hours
    base = Path(program.source.name).parent
    found = []
    for tree in (program, nameless(program)):
        from siren.runtime.session import run

        result = run(tree, base=base, particles=20, seed=1, plan=plan)
        found.append((result.plan, result.log_evidence))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-9)


def _recurs(function: ast.Function) -> bool:
    return any(isinstance(node, ast.Call) and node.function == function.name for node in walk(function.body))
