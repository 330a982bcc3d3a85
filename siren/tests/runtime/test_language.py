"""Functions of numbers, places in lists, and functions that come from Python."""

import numpy as np
import pytest

import siren
from siren.analysis import analyze
from siren.errors import RunError
from siren.functions import register
from siren.syntax import format_text, parse

METHODS = ["ssi", "ds", "bp"]


def mean(text: str, **options):
    return siren.run(text, **{"particles": 20_000, "seed": 0, **options})[0].mean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sin(0.5) + cos(0.5)", np.sin(0.5) + np.cos(0.5)),
        ("abs(0 - 3) + min(1, 2) + max(1, 2)", 6),
        ("[3, 4, 5][1]", 4),
        ("[[1, 2], [3, 4]][1][0]", 3),
        ("let xs = [1, 2] in xs[0] + xs[1] * 10", 21),
        ("-[1, 2][1]", -2),
        ("([[1, 2], [3, 4]] * [1, 1])[1]", 7),
        ("if [1, 2] <> [1, 3] && not (1, 2) <> (1, 2) then 1 else 0", 1),
        ("dot([1, 2], [3, 4])", 11),
        ("transpose([[1, 2], [3, 4]])[0][1]", 3),
        ("inverse([[2, 0], [0, 4]])[1][1]", 0.25),
        ("(2 * identity(2) + diagonal([1, 2]))[1][1]", 4),
    ],
)
def test_values(text, value):
    assert mean(text, particles=2) == pytest.approx(value, abs=1e-12)
    assert parse(format_text(text)) == parse(text)


@pytest.mark.parametrize("method", METHODS)
def test_functions_of_random_numbers(method):
    assert mean("let x <- gaussian(1, 1) in sin(x)", method=method) == pytest.approx(
        np.sin(1) * np.exp(-0.5), abs=0.02
    )
    assert mean("let x <- gaussian(0, 1) in abs(x)", method=method) == pytest.approx(
        np.sqrt(2 / np.pi), abs=0.02
    )
    assert mean("let x <- gaussian(0, 1) in max(x, 0)", method=method) == pytest.approx(
        1 / np.sqrt(2 * np.pi), abs=0.02
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_random_place(method):
    text = "let k <- uniform_int(0, 2) in let x <- gaussian(5, 1) in ([10, x, 30][k], k)"
    result = siren.run(text, method=method, particles=20_000, seed=0)
    assert result[0].mean == pytest.approx(15, abs=0.3)
    values = result[0].draws(2000, seed=1)
    places = result[1].draws(2000, seed=1)
    assert set(values[places == 0]) == {10} and set(values[places == 2]) == {30}
    assert values[places == 1].std() == pytest.approx(1, abs=0.1)


def test_a_place_forces_a_draw():
    text = "let symbolic k <- uniform_int(0, 1) in [1, 2][k]"
    assert not analyze(parse(text), "ssi").satisfiable
    with pytest.raises(siren.PlanError):
        siren.run(text, particles=5)
    accepted = "let symbolic x <- gaussian(0, 1) in let sample k <- uniform_int(0, 1) in [x, 2][k]"
    assert analyze(parse(accepted), "ssi").satisfiable


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2][2]", "no element 2 in a list of 2"),
        ("[1, 2][0 - 1]", "no element -1"),
        ("[][0]", "no element 0 in an empty list"),
        ("[1, 2][0.5]", "whole number, not 0.5"),
        ("[1, 2][0 / 0]", "whole number, not nan"),
        ("[1, 2][1 / 0]", "whole number, not inf"),
        ("let sample k <- bernoulli(0.5) in [1, 2][k / 0]", "whole number, not nan"),
        ("identity(1 / 0)", "whole number from 1 to 3,000, not inf"),
        ("identity(0 / 0)", "whole number from 1 to 3,000, not nan"),
        ("identity(100000)", "whole number from 1 to 3,000, not 100000"),
        ("let sample x <- gaussian(0.5, 0.01) in [1, 2, 3][1 + x]", "whole number"),
        ("[1, 2] + [1]", "cannot add or subtract a list of 2 and a list of 1"),
        ("[1, 2] * [1, 2]", "dot"),
        ("inverse([[1, 1], [1, 1]])", "singular"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(RunError, match=words):
        siren.run(text, particles=5)


def test_a_python_function():
    @register
    def wrap(angle):
        """The angle between -pi and pi."""
        return (angle + np.pi) % (2 * np.pi) - np.pi

    assert mean("wrap(4)", particles=2) == pytest.approx(4 - 2 * np.pi)
    for method in METHODS:
        assert mean("let x <- gaussian(4, 0.01) in wrap(x)", method=method) == pytest.approx(
            4 - 2 * np.pi, abs=0.01
        )
        text = "let sample x <- gaussian(4, 1) in let () = observe(gaussian(wrap(x), 0.1), 0 - 2) in x"
        assert mean(text, method=method) == pytest.approx(4.25, abs=0.05)
    with pytest.raises(siren.SirenError, match="takes 1 argument"):
        siren.run("wrap(1, 2)")
    with pytest.raises(ValueError, match="is a function of the language"):
        register(wrap, "exp")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("let x <- delta([1, 2]) in x[0] + List.hd(x)", 2),
        ("let x <- delta((1, 2)) in let (a, b) = x in b - a", 1),
        ("let x <- delta({a = 3}) in x.a", 3),
        ("let x <- delta(fun y -> y + 1) in x(4)", 5),
    ],
)
def test_a_delta_of_anything_is_that(text: str, value: float) -> None:
    [output] = siren.run(text, particles=2)
    assert (output.mean, output.sd) == (value, 0)


def test_a_delta_that_is_sampled_draws_what_is_in_it() -> None:
    text = "let z <- gaussian(0, 1) in let sample x <- delta([z, 2]) in x"
    assert siren.run(text, particles=2).plan == {"z": "sample"}
    with pytest.raises(siren.PlanError):
        siren.run(text, plan={"z": "symbolic"})
    assert not analyze(parse(text), "ssi", {"z": "symbolic"}).satisfiable


def test_a_delta_that_is_observed_is_of_a_number() -> None:
    with pytest.raises(RunError, match="observe expects the delta of a number, not of a list"):
        siren.run("let () = observe(delta([1, 2]), [1, 2]) in 1")


def test_a_uniform_int_of_too_many_values_is_refused() -> None:
    """Each of them would have a probability of its own in memory."""
    with pytest.raises(RunError, match=r"has 2,000,000,001 values, more than 1,000,000"):
        siren.run("let x <- uniform_int(-1e9, 1e9) in x", particles=2)


def test_a_list_that_is_observed_at_once_has_a_hint() -> None:
    with pytest.raises(RunError, match="observe expects a number, not a list") as caught:
        siren.run("let m <- gaussian(0, 1) in observe(gaussian(m, 1), ys)", data={"ys": [1.0, 2.0]})
    assert "`fold`" in (caught.value.hint or "")
