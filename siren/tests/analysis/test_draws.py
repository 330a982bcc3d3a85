"""What a draw leaves behind, in the analysis as in a run: vectors, choices, numbers that rules look at."""

import pytest

import siren
from siren.analysis import analyze
from siren.errors import PlanError

BROKEN_STICK = """
let b <- beta(2, 2) in
let symbolic c <- categorical([b, 0.5 * (1 - b), 0.5 * (1 - b)]) in
let (b, c) = fold(fun (y, (b, c)) -> let () = observe(gaussian(0, 1), y) in (b, c), ys, (b, c)) in
(b, c)
"""
MULTIPLE = "let b <- beta(2, 2) in let symbolic c <- categorical([ys[0] * b, 1 - ys[0] * b]) in (b, c)"


def accepts(program: str, method: str) -> bool:
    return analyze(siren.parse(program), method, {}, {"ys": [1.0]}).satisfiable


def test_a_vector_that_is_drawn_goes_through_a_loop() -> None:
    """The analysis of it was an IndexError."""
    program = """
    let symbolic p <- beta(2, 2) in
    let weights <- dirichlet([1, 1, 1]) in
    let kind <- categorical(weights) in
    let p = fold(fun (y, p) -> let () = observe(bernoulli(0.5), y) in p, ys, p) in
    (p, weights)
    """
    assert accepts(program, "bp")


def test_a_draw_that_decides_a_choice_of_parents() -> None:
    """The choice was left open, and that was an AssertionError."""
    program = """
    let kind <- categorical([0.1, 0.1, 0.8]) in
    let flag <- bernoulli(0.7) in
    let g <- gamma(2, 1) in
    let x <- gaussian(0, 0.5) in
    let symbolic v <- gamma(2, g) in
    if flag then observe(gaussian((if kind = 0 then x else x), 1 / g), ys[0]) else ()
    """
    assert accepts(program, "ssi")
    siren.run(program, data={"ys": [0.3]}, particles=50, seed=0)


@pytest.mark.parametrize("method", ["ssi", "ds"])
@pytest.mark.parametrize("program", [BROKEN_STICK, MULTIPLE])
def test_whether_a_rule_fits_depends_on_numbers(program: str, method: str) -> None:
    """Where none fits, `b` is drawn in the place of `c`. The first was accepted, as if that were sure."""
    assert not accepts(program, method)
    with pytest.raises(PlanError):
        siren.run(program, data={"ys": [1.0]}, method=method, particles=4, seed=0)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_a_variable_that_only_other_particles_ask_for(method: str) -> None:
    """`flag` is drawn where `kind` is not 0; elsewhere it is named, and nothing depends on it. That was an
    AssertionError under ds."""
    program = """
    let kind <- categorical([0.7, 0.2, 0.1]) in
    let flag <- bernoulli(0.2) in
    let x <- gaussian(0, 0.5) in
    let step = fun (y, ()) ->
      observe(gaussian(if kind = 0 then x else if flag then x else 2 * x, 0.5), y)
    in
    let () = fold(step, [0.4, 0.1, -1.2], ()) in
    x
    """
    runs = [siren.run(program, method=method, particles=4000, seed=seed)["x"].mean for seed in range(3)]
    # From a grid over x.
    assert sum(runs) / 3 == pytest.approx(-0.1647, abs=0.02)
