"""The functions of numbers, on numbers, draws and symbolic variables."""

import numpy as np
import pytest

import siren

CASES = {
    "tan(x)": np.tan,
    "atan2(x, -2)": lambda x: np.arctan2(x, -2),
    "atan2(3, x)": lambda x: np.arctan2(3, x),
    "floor(x)": np.floor,
    "pow(x, 0)": lambda x: np.ones_like(x),
    "pow(x, 3)": lambda x: x**3,
    "pow(x, -2)": lambda x: x**-2.0,
    "pow(x * x, 0.3)": lambda x: (x * x) ** 0.3,
    "pow(2, x)": lambda x: 2**x,
}


@pytest.mark.parametrize("text", CASES)
def test_functions_of_numbers_and_of_draws(text: str) -> None:
    expected = CASES[text]
    assert siren.run(f"let x = -1.7 in {text}", particles=1)[0].mean == pytest.approx(
        expected(np.array(-1.7))
    )
    drawn = siren.run(f"let sample x <- gaussian(1, 4) in (x, {text})", particles=50, seed=1)
    xs, values = (output.draws(200, seed=2) for output in drawn)
    np.testing.assert_allclose(values, expected(xs))


def test_a_power_of_a_symbolic_variable_has_an_exact_mean() -> None:
    result = siren.run("let symbolic x <- gaussian(1, 4) in (pow(x, 2), pow(x, 4))", particles=1)
    assert [output.mean for output in result] == pytest.approx([5.0, 1 + 6 * 4 + 3 * 16])


def test_range_and_bearing_find_a_point() -> None:
    """The posterior of a place seen by its distance and direction, beside a grid."""
    text = """
    let sample x <- gaussian(-3, 1) in
    let sample y <- gaussian(4, 1) in
    let () = observe(gaussian(sqrt(pow(x, 2) + pow(y, 2)), 0.25), 5.5) in
    let () = observe(gaussian(atan2(y, x), 0.01), 2.3) in
    (x, y)
    """
    found = siren.run(text, particles=40_000, seed=1)
    x, y = np.meshgrid(np.linspace(-8, 2, 400), np.linspace(-1, 9, 400))
    log = -0.5 * ((x + 3) ** 2 + (y - 4) ** 2 + (np.hypot(x, y) - 5.5) ** 2 / 0.25)
    weights = np.exp(log - 0.5 * (np.arctan2(y, x) - 2.3) ** 2 / 0.01)
    weights /= weights.sum()
    assert found["x"].mean == pytest.approx((weights * x).sum(), abs=0.03)
    assert found["y"].mean == pytest.approx((weights * y).sum(), abs=0.03)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("let x = 2 in x^2", "pow"),
        ("let x = 2 in x ** 2", "pow"),
        ("let x = 5 in x % 2", "floor"),
        ("x <- gaussian(0, 1) in x", "let x <-"),
        ("sum([1, 2])", "fold"),
        ("arctan2(1, 2)", "atan2"),
        ("let x <- half_normal(1) in x", "truncated_gaussian"),
    ],
)
def test_who_comes_from_another_language_is_told_the_name_here(text: str, hint: str) -> None:
    with pytest.raises(siren.SirenError) as error:
        siren.run(text)
    assert error.value.hint is not None and hint in error.value.hint
