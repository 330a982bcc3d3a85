import pytest

from siren import SirenError, run
from siren.plot import draw, plot

pytest.importorskip("matplotlib")


def test_series_and_numbers(tmp_path) -> None:
    result = run("let x <- gaussian(0, 1) in let y <- gaussian(x, 1) in ([x, y, x + y], x, 3 * y)", seed=0)
    assert len(draw(result).axes) == 2
    plot(result, tmp_path / "p.png", "title")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_booleans_are_shown_as_probabilities() -> None:
    result = run("let a <- bernoulli(0.3) in let b <- bernoulli(0.6) in [a, b]", seed=0)
    (axis,) = draw(result).axes
    assert axis.get_ylim() == (0, 1) and axis.get_ylabel().startswith("probability of")


def test_nothing_to_plot() -> None:
    with pytest.raises(SirenError, match="nothing to plot"):
        draw(run("()"))
