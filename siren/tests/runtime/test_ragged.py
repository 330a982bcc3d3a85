"""Lists that differ in length between particles, against the same computed particle by particle."""

import numpy as np
import pytest

import siren
from siren.analysis import analyze
from siren.errors import EmptyListError, RunError
from siren.runtime.session import run

PARTICLES = 4000
LISTS = """
let sample b <- bernoulli(0.5) in
let sample c <- bernoulli(0.3) in
let sample u <- gaussian(0, 1) in
let xs = if b then [u, 2] else [3 * u] in
let ys = if c then 7 :: xs else xs in
"""


def reference(b: bool, c: bool, u: float) -> list[float]:
    xs = [u, 2.0] if b else [3 * u]
    return [7.0, *xs] if c else xs


def per_particle(text: str, seed: int = 1) -> tuple[list[list[float]], np.ndarray]:
    """The list of each particle as plain Python has it, and what the program makes of it in that particle."""
    result = siren.run(f"{LISTS} (b, c, u, {text})", particles=PARTICLES, seed=seed)
    b, c, u, value = (output.draws(3000, seed=2) for output in result)
    return [reference(*row) for row in zip(b > 0.5, c > 0.5, u, strict=True)], value


def total(items: list[float]) -> float:
    value = 0.0
    for item in items:
        value = 0.5 * value + item
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("List.len(ys)", len),
        ("List.hd(ys)", lambda items: items[0]),
        ("List.hd(List.rev(ys))", lambda items: items[-1]),
        ("List.len(List.tl(ys))", lambda items: len(items) - 1),
        ("ys[List.len(ys) - 1]", lambda items: items[-1]),
        ("fold(fun (x, s) -> 0.5 * s + x, ys, 0)", total),
        ("fold(fun (x, s) -> 0.5 * s + x, List.rev(ys), 0)", lambda items: total(items[::-1])),
        ("fold(fun (x, s) -> 0.5 * s + x, List.map(fun x -> x * x, ys), 0)",
         lambda items: total([x * x for x in items])),
        ("List.len(List.filter(fun x -> x > 0.5, ys))", lambda items: sum(x > 0.5 for x in items)),
        ("fold(fun (x, s) -> 0.5 * s + x, 1 :: List.filter(fun x -> x > 0.5, ys), 0)",
         lambda items: total([1, *(x for x in items if x > 0.5)])),
        ("if List.len(ys) > 1 then List.hd(List.tl(ys)) else 0", lambda i: i[1] if len(i) > 1 else 0),
    ],
)  # fmt: skip
def test_the_library_does_in_each_particle_what_it_does_to_its_list(text, expected):
    lists, values = per_particle(text)
    np.testing.assert_allclose(values, [expected(items) for items in lists], atol=1e-9)


def test_lists_of_lists_and_of_records():
    text = "fold(fun (r, s) -> s + r.x + List.len(r.l), List.map(fun x -> {x = x, l = List.tl(ys)}, ys), 0)"
    lists, values = per_particle(text)
    np.testing.assert_allclose(
        values, [sum(items) + len(items) * (len(items) - 1) for items in lists], atol=1e-9
    )


SWITCHING = """
let xs = fold(fun (y, xs) ->
  let x <- gaussian(0, 4) in
  let {how} k <- bernoulli(0.5) in
  let () = observe(gaussian(if k then x else 0, 1), y) in
  let () = resample() in
  if k then x :: xs else xs, ys, []) in
"""
YS = [0.1, 2.5, -0.4, 3.0]


def exact() -> tuple[np.ndarray, float]:
    """P(k = 1 | y) of each step, and the expected sum of the elements that are there."""
    from scipy.stats import norm

    seen, not_seen = norm.pdf(YS, 0, np.sqrt(5)), norm.pdf(YS, 0, 1)
    chances = seen / (seen + not_seen)
    return chances, float(np.sum(chances * np.array(YS) * 4 / 5))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_history_that_only_some_particles_extend(compiled):
    """The elements stay symbolic, and are those of the particle's own ancestors."""
    text = SWITCHING.replace("{how}", "sample") + "(List.len(xs), fold(fun (x, s) -> s + x, xs, 0))"
    result = run(siren.parse(text), data={"ys": YS}, particles=20_000, seed=3, compiled=compiled)
    chances, mean = exact()
    length, total = result.value
    assert result.plan["x"] == "symbolic"
    assert length.mean == pytest.approx(chances.sum(), abs=0.03)
    assert length.sd == pytest.approx(np.sqrt((chances * (1 - chances)).sum()), abs=0.03)
    assert total.mean == pytest.approx(mean, abs=0.05)


def test_a_random_condition_is_drawn_where_lengths_depend_on_it():
    result = siren.run(
        "let b <- bernoulli(0.5) in let xs = if b then [1, 2] else [3] in (List.len(xs), b)", seed=1
    )
    assert result.plan == {"b": "sample"}
    kept = siren.run("let b <- bernoulli(0.5) in let xs = if b then [1, 2] else [3, 4] in (xs, b)", seed=1)
    assert kept.plan == {"b": "symbolic"}


def test_the_summary_says_how_many_elements_there_are_and_how_surely():
    result = siren.run(
        "let sample b <- bernoulli(0.25) in let xs = if b then [1, 5] else [3] in xs",
        particles=20_000,
        seed=1,
    )
    (output,) = result
    labels = [label for label, _ in output.leaves()]
    assert labels == ["List.len(xs)", "xs[0]", "xs[1]"]
    length = output.lengths["List.len(xs)"]
    assert length.mean == pytest.approx(1.25, abs=0.02) and length.quantile(0.5) == 1
    # Of those that have a second element, all have 5; and a quarter has one.
    assert output.mean[1] == pytest.approx(5) and output.sd[1] == pytest.approx(0, abs=1e-9)
    assert output.share == pytest.approx([1, 0.25], abs=0.02)
    drawn = output.draws(2000)
    assert np.isnan(drawn[:, 1]).mean() == pytest.approx(0.75, abs=0.05)
    assert (drawn[~np.isnan(drawn[:, 1])] == [1, 5]).all()
    shown = result.to_json()["outputs"]["xs"]
    assert shown["share"] == pytest.approx([1, 0.25], abs=0.02)
    assert shown["lengths"]["List.len(xs)"]["mean"] == pytest.approx(1.25, abs=0.02)


def test_the_table_shows_what_exists(tmp_path, capsys):
    from siren.cli.show import show_result

    show_result(siren.run(f"{LISTS} ys", particles=100, seed=1), 20)
    shown = capsys.readouterr().out
    assert "exists" in shown and "List.len(ys)" in shown and "100%" in shown


def test_what_is_empty_in_some_particles_has_no_head():
    text = "let sample b <- bernoulli(0.5) in let xs = if b then [1] else [] in "
    with pytest.raises(EmptyListError, match=r"List.hd of a list that is empty in \d+ of 100 particles"):
        siren.run(text + "List.hd(xs)", particles=100, seed=1)
    assert siren.run(text + "if b then List.hd(xs) else 2", particles=1000, seed=1)[0].mean == pytest.approx(
        1.5, abs=0.1
    )


def test_a_vector_has_one_length():
    text = "let sample b <- bernoulli(0.5) in let xs = if b then [1, 2] else [1] in "
    for use in ("let x <- dirichlet(xs) in x", "xs + xs", "observe(mv_gaussian([0], [[1]]), xs)"):
        with pytest.raises(RunError, match="same length in every particle") as raised:
            siren.run(text + use, particles=100, seed=1)
        assert raised.value.span is not None  # which list
    # In each branch all agree.
    whole = siren.run(
        text + "if b then dot(xs, [1, 1]) else dot(xs, [1])", particles=1000, seed=1
    )  # fmt: skip
    assert whole[0].mean == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("drawn", "chances"),
    [
        ("categorical(if b then [0.5, 0.2, 0.3] else [1])", [0.5, 0.2, 0.3]),
        ("uniform_int(0, if b then 2 else 0)", [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_categories_that_only_some_particles_have(drawn, chances):
    """As where targets come and go, or in a mixture of ever more components."""
    text = f"""
let sample b <- bernoulli(0.5) in
let c <- {drawn} in
let () = observe(bernoulli(if c = 2 then 0.9 else 0.1), true) in
(b, c)
"""
    with_b = np.array(chances) * [0.1, 0.1, 0.9]
    evidence = 0.5 * with_b.sum() + 0.5 * 0.1
    result = siren.run(text, particles=20_000, seed=1)
    assert result.plan["c"] == "symbolic"
    assert result["b"].mean == pytest.approx(0.5 * with_b.sum() / evidence, abs=0.01)
    assert result["c"].mean == pytest.approx(0.5 * with_b @ [0, 1, 2] / evidence, abs=0.02)
    assert result.log_evidence == pytest.approx(np.log(evidence), abs=0.02)


def test_bounds_that_some_particles_cannot_have():
    text = "let sample b <- bernoulli(0.5) in let c <- uniform_int(1, {}) in c"
    for bound, words in (
        ("if b then 3 else 0", "from 1 to 0 has no values"),
        ("b / 3", "known whole numbers"),
    ):
        with pytest.raises(RunError, match=words):
            siren.run(text.format(bound), particles=100, seed=1)


def test_impure_functions_run_for_those_who_have_the_element():
    """An observation for each element: particles with two elements are weighed twice."""
    text = """
      let sample b <- bernoulli(0.5) in
      let xs = if b then [true, true] else [true] in
      let () = fold(fun (x, ()) -> observe(bernoulli(0.25), x), xs, ()) in
      b"""
    result = siren.run(text, particles=20_000, seed=1)
    assert result[0].mean == pytest.approx(0.2, abs=0.02)
    assert result.log_evidence == pytest.approx(np.log(0.5 * 0.25**2 + 0.5 * 0.25), abs=0.02)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
@pytest.mark.parametrize("how", ["", "sample"])
def test_the_analysis_follows_every_length(method, how):
    """k is drawn, since lengths depend on it; x can stay symbolic where the algorithm allows it."""
    for body, name in (("List.len(xs)", "k"), ("List.len(xs)", "x"), ("xs", "x")):
        program = siren.parse(SWITCHING.replace("{how}", how) + body)
        verdict = analyze(program, method, {name: "symbolic"}, {"ys": [1.0]})
        drawn = set()
        for seed in range(3):
            plan = siren.run(program, data={"ys": YS}, method=method, particles=50, seed=seed).plan
            drawn |= {variable for variable, kind in plan.items() if kind != "symbolic"}
        if name in drawn:
            assert not verdict.satisfiable
        elif how == "sample":
            assert verdict.satisfiable, verdict.problem


def test_places_that_differ_between_particles_follow_resampling():
    text = """
      let sample a <- gaussian(0, 1) in
      let sample b <- gaussian(0, 1) in
      let sample k <- bernoulli(0.5) in
      let () = observe(gaussian(a, 0.1), 1) in
      let () = observe(gaussian(b, 0.1), 2) in
      let l = [a, b] in
      let () = resample() in
      let x = l[if k then 1 else 0] in
      x - (if k then b else a)"""
    assert siren.run(text, particles=500, seed=1)[0].sd == 0


def test_a_picture_and_arviz_data_of_a_list_that_differs_in_length():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = siren.run(f"{LISTS} {{ys = ys, u = u}}", particles=200, seed=1)
    assert result.plot().axes
    arviz = pytest.importorskip("arviz")
    assert arviz and result.to_arviz(draws=50).posterior["ys"].shape == (1, 50, 3)
