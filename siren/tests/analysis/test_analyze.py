"""What the analysis says of small programs, and why."""

import pytest

import siren
from siren.analysis import analyze
from siren.errors import PlanError, RunError
from siren.syntax import parse

WALK = """
val step = fun (y, xs) ->
  let symbolic x <- gaussian(List.hd(xs), 1.) in
  let () = observe(gaussian({mean}, 1.), y) in
  x :: xs
in
let xs = fold(step, ys, [0.]) in
{answer}
"""


def verdict(text: str, method: str = "ssi", **plan: str):
    return analyze(parse(text), method, plan, {"ys": [1.0, 2.0]})


def reason(text: str, method: str = "ssi", **plan: str) -> str:
    found = verdict(text, method, **plan)
    assert isinstance(found.problem, PlanError)
    return found.problem.message


def test_a_smoother_can_be_kept_where_edges_turn_around() -> None:
    text = WALK.format(mean="x", answer="xs")
    assert verdict(text, "ssi").satisfiable
    assert verdict(text, "bp").satisfiable
    assert "one path" in reason(text, "ds")


def test_a_filter_can_be_kept_by_all() -> None:
    text = WALK.format(mean="2. * x + 1.", answer="List.hd(xs)")
    assert all(verdict(text, method).satisfiable for method in ("ssi", "ds", "bp"))


def test_the_place_that_forces_a_draw_is_named() -> None:
    problem = verdict(WALK.format(mean="x * x", answer="xs")).problem
    assert problem is not None and problem.span is not None and problem.span.line == 3
    assert "not linear in `x`" in problem.message
    (note,) = problem.notes
    assert note.span is not None and note.span.line == 4


def test_a_walk_that_nothing_observes() -> None:
    text = """
    val step = fun (y, x) -> let symbolic x <- gaussian(x, 1.) in x in
    let x = fold(step, ys, 0.) in x
    """
    assert all(verdict(text, method).satisfiable for method in ("ssi", "ds", "bp"))


@pytest.mark.parametrize("seen", ["y < 0.3", "detected"])
def test_a_walk_that_some_steps_observe(seen: str) -> None:
    """As where a scan is empty: delayed sampling follows a chain of states, of any length, to the last."""
    text = """
    val step = fun (y, (x, v)) ->
      let symbolic v <- mv_gaussian([[1., 1.], [0., 1.]] * v, [[1., 0.], [0., 1.]]) in
      let symbolic x <- gaussian(0.9 * x + 1., 1.) in
      let sample detected <- bernoulli(0.9) in
      let () = if SEEN then observe(gaussian(x, 1.), y) else observe(gaussian(v[0], 1.), y) in
      (x, v)
    in
    let symbolic v0 <- mv_gaussian([0., 0.], [[1., 0.], [0., 1.]]) in
    let symbolic x0 <- gaussian(0., 1.) in
    let (x, v) = fold(step, ys, (x0, v0)) in
    """.replace("SEEN", seen)
    assert verdict(text + "(x, v)", "ds").satisfiable
    assert "one path" in reason(text + "(x0, x)", "ds")


def test_a_name_bound_again_is_another_variable() -> None:
    text = """
    val step = fun (y, x) ->
      let symbolic x <- gaussian(x, 1.) in
      let () = observe(gaussian(x, 1.), y) in
      x
    in
    let symbolic x <- gaussian(0., 1.) in
    let x = fold(step, ys, x) in
    x
    """
    assert all(verdict(text, method).satisfiable for method in ("ssi", "ds", "bp"))
    kept = text.replace("let x = fold(step, ys, x) in\n    x", "let z = fold(step, ys, x) in (x, z)")
    assert kept != text and not verdict(kept, "ds").satisfiable


def test_two_steps_back() -> None:
    text = """
    val step = fun (y, xs) ->
      let symbolic x <- gaussian(0.9 * List.hd(xs) - 0.2 * List.hd(List.tl(xs)), 1.) in
      let () = observe(gaussian(x, 1.), y) in
      x :: xs
    in
    let xs = fold(step, ys, [0., 0.]) in xs
    """
    assert verdict(text, "ssi").satisfiable
    assert not verdict(text, "ds").satisfiable


def test_equal_conditions_are_decided_alike() -> None:
    text = """
    let sample s <- bernoulli(0.5) in
    let symbolic x <- gaussian(0., 1.) in
    let symbolic g <- gamma(1., 1.) in
    let mean = if s then x else 0. in
    let variance = if {condition} then 1. else 1. / g in
    let () = observe(gaussian(mean, variance), 1.) in
    (x, g)
    """
    assert verdict(text.format(condition="s")).satisfiable
    assert not verdict(text.format(condition="not s")).satisfiable


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_data_may_be_zero(method: str) -> None:
    """Under ds and bp, y = 0 makes `b` the only parent, and what follows differs."""
    text = """
    val step = fun (y, (a, b)) ->
      let () = observe(gaussian(y * a + b, 1.), 2.) in
      (a, b)
    in
    let symbolic a <- gaussian(0., 1.) in
    let b <- gaussian(0., 1.) in
    let (a, b) = fold(step, ys, (a, b)) in
    (a, b)
    """
    assert verdict(text, method).satisfiable
    assert verdict(text, method, b="symbolic").satisfiable == (method == "ssi")


def test_a_plan_without_promises_is_kept() -> None:
    assert verdict("let x <- gaussian(0., 1.) in if x < 0. then 1. else 2.").satisfiable
    assert verdict("let symbolic x <- gaussian(0., 1.) in x", x="sample").satisfiable


def test_what_is_not_understood_is_rejected() -> None:
    text = WALK.format(mean="x", answer="List.hd(List.rev(xs))")
    assert "cannot be shown" in reason(text)
    endless = "val f = fun x -> if x < 0. then f(x) else x in let symbolic y <- gaussian(0., 1.) in f(y)"
    assert not verdict(endless).satisfiable


@pytest.mark.parametrize("read", ["xs[floor(3 * place)]", "List.hd(List.tl(List.tl(List.tl(xs))))"])
def test_what_is_not_understood_is_said_where_it_stands(read: str) -> None:
    text = f"""
    val step = fun (y, xs) ->
      let symbolic x <- gaussian(0, 1) in
      let sample place <- uniform(0, 1) in
      let xs = x :: xs in
      let () = if List.len(xs) > 3 then
        observe(gaussian({read}, 1), y) else () in
      xs
    in
    List.len(fold(step, ys, []))
    """
    problem = verdict(text).problem
    assert problem and "an old random element of a list of unknown length is read again" in problem.message
    assert problem.span and problem.span.line == 7


def breaks(text: str, method: str, **data: list[float]) -> bool:
    """Whether a run breaks the plan."""
    try:
        siren.run(text, method=method, data=data or None, particles=10, seed=0)
    except PlanError:
        return True
    return False


def test_a_coefficient_of_zero_changes_who_is_a_parent() -> None:
    """Only if y = 0 does `b` stay random, and then `c` is in its way."""
    text = """
    let a <- gaussian(0., 1.) in
    let b <- gaussian(0., 1.) in
    let () = observe(gaussian(List.hd(ys) * a + b, 1.), 2.) in
    let symbolic c <- gaussian(b, 1.) in
    let () = observe(gaussian(c, 1.), 1.) in
    let () = observe(gaussian(b, 1.), 1.) in
    c
    """
    assert not breaks(text, "ds", ys=[1.0]) and breaks(text, "ds", ys=[0.0])
    assert not verdict(text, "ds").satisfiable


def test_the_order_of_exchanges_decides_who_is_drawn() -> None:
    """An observation of x2 turns the edge around, and then x2 is in the way instead of x1."""
    text = """
    let x1 <- gaussian(0., 1.) in
    let symbolic x2 <- gaussian(x1, 1.) in
    let () = {first} in
    let () = observe(gaussian(x1 * x2, 1.), 1.) in
    x2
    """
    kept = text.format(first="()")
    broken = text.format(first="observe(gaussian(x2, 1.), 1.)")
    assert not breaks(kept, "ssi") and breaks(broken, "ssi")
    assert not verdict(broken).satisfiable


ROUND = """
val step = fun (y, (flags, p, q, r)) ->
  let symbolic flag <- bernoulli(p) in
  (flag :: flags, q, r, p)
in
let p <- beta(1., 1.) in
let q <- beta(1., 1.) in
let r <- beta(1., 1.) in
let (flags, p, q, r) = fold(step, ys, ([], p, q, r)) in
flags
"""


@pytest.mark.parametrize("method", ["ssi", "ds"])
def test_what_is_put_away_need_not_be_settled(method: str) -> None:
    """The first and the fourth flag have the same parent, and the answer asks for both. When the fourth
    comes, the first has long been put away: only `is_settled` can tell that it will be drawn."""
    assert not breaks(ROUND, method, ys=[1.0] * 3) and breaks(ROUND, method, ys=[1.0] * 4)
    assert not verdict(ROUND, method).satisfiable


def test_what_is_put_away_is_settled_where_nothing_can_touch_it() -> None:
    """Under bp a flag is no child of its beta, gaussians stay a joint gaussian under ssi, and a flag without
    a parent is nobody's business."""
    assert verdict(ROUND, "bp").satisfiable
    assert verdict(WALK.format(mean="x", answer="xs"), "ssi").satisfiable
    alone = ROUND.replace("bernoulli(p)", "bernoulli(0.5)")
    assert all(verdict(alone, method).satisfiable for method in ("ssi", "ds", "bp"))


EMPTY_START = """
val step = fun (y, xs) ->
  let x <- gaussian(0, 1) in
  let () = observe(gaussian(x, 1), y) in
  x :: xs
in
let xs = fold(step, ys, []) in
"""


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
@pytest.mark.parametrize("answer", ["List.hd(xs)", "(List.hd(xs), List.len(xs))"])
def test_a_list_that_starts_empty_has_a_head_when_it_is_read(method, answer):
    """Without data the run ends with an error; it does not break the plan."""
    assert analyze(parse(EMPTY_START + answer), method, {"x": "symbolic"}, {"ys": [1.0]}).satisfiable


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_no_false_accept_after_an_empty_start(method):
    text = EMPTY_START + "let () = observe(gaussian(List.hd(xs) * List.hd(xs), 1), 1) in List.hd(xs)"
    assert not analyze(parse(text), method, {"x": "symbolic"}, {"ys": [1.0]}).satisfiable


def test_a_program_that_always_fails_is_not_accepted():
    verdict = analyze(parse("let x <- gaussian(0, 1) in List.hd([]) + x"), "ssi", {"x": "symbolic"})
    assert not verdict.satisfiable and "empty list" in verdict.problem.message


def test_a_fault_inside_the_analysis_is_raised(monkeypatch):
    def broken(self, dist):
        raise TypeError("a fault")

    monkeypatch.setattr("siren.analysis.engines.AbstractSSI._is_closed", broken)
    with pytest.raises(TypeError, match="a fault"):
        analyze(parse("let x <- gaussian(0, 1) in x"), "ssi", {"x": "symbolic"})


@pytest.mark.parametrize("distribution", ["poisson(y * g)", "exponential(y * g)", "gaussian(0, y / g)"])
def test_what_a_datum_multiplies_is_a_multiple_whatever_its_sign(distribution: str) -> None:
    """A negative one ends the run: that is a mistake in the data, and no draw."""
    text = (
        f"val step = fun (y, g) -> let () = observe({distribution}, 1) in g in\n"
        "let symbolic g <- gamma(2, 1) in fold(step, ys, g)"
    )
    assert verdict(text, "ssi").satisfiable and verdict(text, "ds").satisfiable
    for method in ("ssi", "ds"):
        assert siren.run(text, data={"ys": [1.0, 2.0]}, method=method, particles=2).plan == {"g": "symbolic"}
        with pytest.raises(RunError, match=r"the factor of `g` in the .* must not be negative, not -2"):
            siren.run(text, data={"ys": [1.0, -2.0]}, method=method, particles=2)


@pytest.mark.parametrize("observed, kept", [("p", True), ("p * v", False)])
def test_a_state_that_sums_up_all_pushes(observed: str, kept: bool) -> None:
    text = f"""
    val step = fun (y, (p, v)) ->
      let symbolic push <- gaussian(0, 0.3) in
      let v = v + push in
      let p = p + v in
      let () = observe(gaussian({observed}, 4), y) in
      (p, v)
    in
    let symbolic p <- gaussian(0, 100) in
    let (p, v) = fold(step, ys, (p, 0)) in
    (p, v)
    """
    assert verdict(text).satisfiable is kept


def test_a_sum_of_this_step_is_told_apart_when_the_next_one_draws_it() -> None:
    text = """
    val step = fun (y, (sum, level)) ->
      let symbolic level <- gaussian(level, 1) in
      let () = if sum < 0 then observe(gaussian(level, 1), y) else () in
      let left <- gaussian(0, 1) in
      let right <- gaussian(0, 1) in
      (left + right, level)
    in
    let (sum, level) = fold(step, ys, (0, 0)) in
    level
    """
    assert verdict(text).satisfiable


@pytest.mark.parametrize("variance, kept", [("1 / g", True), ("y / g", False)])
def test_regression_with_unknown_noise(variance: str, kept: bool) -> None:
    """Whatever the datum is that a coefficient is multiplied with, a variance that was positive stays so."""
    text = f"""
    let symbolic g <- gamma(3, 2) in
    let symbolic a <- gaussian(0, 10 / g) in
    let symbolic b <- gaussian(0, 4 / g) in
    let () = fold(fun (y, ()) -> observe(gaussian(a + b * y, {variance}), y), ys, ()) in
    (a, b, g)
    """
    assert verdict(text).satisfiable is kept


SCHOOLS = """
let mu <- gaussian(0., 100.) in
let school = fun y ->
  let effect <- gaussian(mu, 4.) in
  let () = observe(gaussian(effect, {variance}), y) in
  effect
in
{answer}
"""


@pytest.mark.parametrize(
    "answer", ["let effects = List.map(school, ys) in (mu, effects)", "(List.map(school, ys), mu)"]
)
def test_a_random_function_of_every_datum(answer: str) -> None:
    text = SCHOOLS.format(variance="1.", answer=answer)
    assert verdict(text, "ssi", mu="symbolic", effect="symbolic").satisfiable
    assert verdict(text, "bp", mu="symbolic", effect="symbolic").satisfiable
    assert "one path" in reason(text, "ds", mu="symbolic", effect="symbolic")
    assert verdict(text, "ds", mu="sample", effect="symbolic").satisfiable
    text = SCHOOLS.format(variance="effect * effect", answer=answer)
    assert "effect" in reason(text, "ssi", effect="symbolic")


def test_a_random_function_of_every_datum_of_every_datum() -> None:
    """What the outer one has made is kept while the inner one runs."""
    text = """
    let mu <- gaussian(0., 100.) in
    let inner = fun y -> let b <- gaussian(mu, 4.) in let () = observe(gaussian(b, 1.), y) in b in
    let outer = fun y ->
      let a <- gaussian(mu, 4.) in
      let () = observe(gaussian(a, 1.), y) in
      let _ = List.map(inner, ys) in
      a
    in
    let each = List.map(outer, ys) in
    (mu, each)
    """
    assert verdict(text, "ssi", a="symbolic", b="symbolic").satisfiable
    assert "one path" in reason(text, "ds", a="symbolic")


def test_loops_in_a_tuple_are_followed_one_after_the_other() -> None:
    text = """
    val seen = fun (y, x) -> let () = observe(gaussian({mean}, 1.), y) in x in
    let a <- gaussian(0., 1.) in
    let b <- gaussian(a, 1.) in
    (fold(seen, ys, a), fold(seen, ys, b), b)
    """
    assert verdict(text.format(mean="x"), "ssi", a="symbolic", b="symbolic").satisfiable
    assert "`a`" in reason(text.format(mean="x * x"), "ssi", a="symbolic")


def test_a_state_that_doubles_with_every_step_is_given_up() -> None:
    """Each count holds the one before it twice."""
    text = """
    val step = fun (y, (on, count)) ->
      let on <- bernoulli(if on then 0.9 else 0.1) in
      let () = observe(bernoulli(if on then 0.9 else 0.2), y < 0.) in
      (on, if on then count + 1. else count)
    in
    let (on, count) = fold(step, ys, (true, 0.)) in
    (on, count)
    """
    assert verdict(text, "ssi", on="symbolic").satisfiable
    assert not verdict(text, "ds", on="symbolic").satisfiable
