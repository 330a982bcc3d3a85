"""Discrete variables of which some values make an event impossible, against all combinations of values."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pytest

import siren
from siren.symbolic.algebra import mul, share
from siren.symbolic.expr import Column, Variable, of
from siren.symbolic.lanes import Scope

COIN = ((0, 0.5), (1, 0.5))
DIE = tuple((n, 1 / 6) for n in range(1, 7))
Prior = Iterable[tuple[int, float]]

PROGRAMS: dict[str, tuple[str, list[Prior], Callable[..., float]]] = {
    "sum of dice": (
        "let a <- uniform_int(1, 6) in let b <- uniform_int(1, 6) in"
        " let () = observe(bernoulli(if a + b > 9 then 1 else 0), true) in (a, b)",
        [DIE, DIE],
        lambda a, b: a + b > 9,
    ),
    "both": (
        "let a <- bernoulli(0.5) in let b <- bernoulli(0.5) in"
        " let () = observe(bernoulli(if a && b then 1 else 0), true) in (a, b)",
        [COIN, COIN],
        lambda a, b: a and b,
    ),
    "neither": (
        "let a <- bernoulli(0.5) in let b <- bernoulli(0.2) in"
        " let () = observe(bernoulli(if a || b then 1 else 0), false) in (a, b)",
        [COIN, ((0, 0.8), (1, 0.2))],
        lambda a, b: not (a or b),
    ),
    "exactly one": (
        "let a <- bernoulli(0.2) in let b <- bernoulli(0.5) in let c <- bernoulli(0.5) in"
        " let () = observe(bernoulli(if a = b then 0 else 1), true) in"
        " let () = observe(bernoulli(if b && c then 0 else 1), true) in (a, b, c)",
        [((0, 0.8), (1, 0.2)), COIN, COIN],
        lambda a, b, c: a != b and not (b and c),
    ),
    "a child in between": (
        "let a <- bernoulli(0.5) in let b <- bernoulli(if a then 1 else 0.5) in"
        " let () = observe(bernoulli(if a then if b then 0 else 1 else if b then 1 else 0), true) in (a, b)",
        [COIN, COIN],
        lambda a, b: (0 if a else 0.5) * (2 * b),
    ),
    "a die and a coin": (
        "let a <- uniform_int(1, 6) in let b <- bernoulli(if a > 4 then 1 else 0) in"
        " let c <- bernoulli(if b then 0.3 else 0) in"
        " let () = observe(bernoulli(if c && a > 5 then 1 else 0), false) in"
        " let () = observe(bernoulli(if a + b > 5 then 0.9 else 0), true) in (a, b, c)",
        [DIE, ((0, 1), (1, 1)), ((0, 1), (1, 1))],
        lambda a, b, c: (
            (b == (a > 4))
            * (0.3 * c + 0.7 * (1 - c) if b else 1 - c)
            * (not (c and a > 5))
            * 0.9
            * (a + b > 5)
        ),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_event_that_is_impossible_for_some_values(name: str) -> None:
    program, priors, likelihood = PROGRAMS[name]
    states = list(itertools.product(*priors))
    weights = np.array([np.prod([p for _, p in s]) * likelihood(*(v for v, _ in s)) for s in states])
    values = np.array([[v for v, _ in s] for s in states], float)
    mean = weights @ values / weights.sum()
    sd = np.sqrt(weights @ np.square(values - mean) / weights.sum())
    result = siren.run(program, particles=1, seed=0)
    assert set(result.plan.values()) == {"symbolic"}
    np.testing.assert_allclose([output.mean for output in result], mean, atol=1e-12)
    np.testing.assert_allclose([output.sd for output in result], sd, atol=1e-7)
    assert result.log_evidence == pytest.approx(np.log(weights.sum()))


def test_an_event_that_is_impossible_in_one_branch() -> None:
    """Where `c` holds both coins are heads: 0.25 * 0.9; elsewhere the second tells of `b`: 0.25 * 0.55."""
    program = """
    let sample c <- bernoulli(0.5) in
    let a <- bernoulli(0.5) in
    let b <- bernoulli(0.5) in
    let () =
      if c then observe(bernoulli(if a && b then 1 else 0), true) else observe(bernoulli(0.25), true)
    in
    let () = observe(bernoulli(if b then 0.9 else 0.2), true) in
    (c, a, b)
    """
    c, a, b = siren.run(program, particles=20_000, seed=1)
    heads = 0.225 / 0.3625
    assert c.mean == pytest.approx(heads, abs=0.01)
    assert a.mean == pytest.approx(heads + (1 - heads) * 0.5, abs=0.01)
    assert b.mean == pytest.approx(heads + (1 - heads) * 0.45 / 0.55, abs=0.01)


def test_the_share_of_a_whole_that_may_be_0() -> None:
    now = Scope(2).now
    a = Variable("a")
    whole = Column(np.array([0.0, 0.5]), now)
    result = share(mul(whole, of(a)), whole, 0.3)
    assert share(0.0, 0.0, of(a)).terms == of(a).terms
    np.testing.assert_allclose(result.terms[()], [0.3, 0.0])
    np.testing.assert_allclose(result.terms[((a, 1),)], [0.0, 1.0])
