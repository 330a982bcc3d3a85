import warnings
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from siren import SirenError, run
from siren.plot import draw, plot, require_drawable

pytest.importorskip("matplotlib")


def test_series_and_numbers(tmp_path) -> None:
    result = run("let x <- gaussian(0, 1) in let y <- gaussian(x, 1) in ([x, y, x + y], x, 3 * y)", seed=0)
    assert len(draw(result).axes) == 3
    plot(result, tmp_path / "p.png", "title")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_booleans_are_shown_as_probabilities() -> None:
    result = run("let a <- bernoulli(0.3) in let b <- bernoulli(0.6) in [a, b]", seed=0)
    (axis,) = draw(result).axes
    assert axis.get_ylim() == (0, 1) and axis.get_ylabel().startswith("probability of")


def test_nothing_to_plot() -> None:
    with pytest.raises(SirenError, match="nothing to plot"):
        draw(run("()"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"axis": []}, "the axis is empty"),
        ({"axis": ["north", "south"]}, "neither of numbers nor of dates: 'north'"),
        ({"data": {"xs": ["north", "south"]}}, "no list of numbers"),
        ({"data": {"xs": [[1, 2], [3]]}}, "no list of numbers"),
        ({"data": {"xs": 3}}, "no list of numbers"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict, words: str) -> None:
    result = run("let x <- gaussian(0, 1) in let xs = [x, 2 * x] in xs", seed=0)
    with pytest.raises(SirenError, match=words):
        draw(result, **options)
    with pytest.raises(SirenError, match=words):
        require_drawable(**{"axis": None, "data": None, **options})


def test_no_data_are_no_points() -> None:
    result = run("let x <- gaussian(0, 1) in let xs = [x, 2 * x] in xs", seed=0)
    (panel,) = draw(result, data={"xs": []}).axes
    assert len(panel.lines[-1].get_xdata()) == 0


def test_a_constant_is_a_point_and_a_number_has_an_axis() -> None:
    result = run("let x <- gaussian(5, 1) in (3, x)", seed=0)
    constant, number = draw(result).axes
    assert [line.get_xdata().tolist() for line in constant.lines] == [[3.0]] and not constant.patches
    assert constant.texts[0].get_text() == "3"
    low, high = number.get_xlim()
    assert low < 3.4 and high > 6.6 and len(number.get_xticks()) > 2


def test_a_number_far_from_zero_has_the_digits_of_its_spread() -> None:
    figure = draw(run("let x <- gaussian(523456, 4) in x", particles=1, seed=0))
    assert figure.axes[0].get_title() == "523456  (523452.7 to 523459.3)"
    figure = draw(run("[1709294436, 2][0]", seed=0))
    assert figure.axes[0].texts[0].get_text() == "1709294436"


def test_nested_lists_are_drawn() -> None:
    result = run("let x <- gaussian(0, 1) in [[x, 1], [2 * x, 2], [3 * x, 3]]", seed=0)
    (axis,) = draw(result).axes
    assert [len(line.get_xdata()) for line in axis.lines] == [3, 3]
    np.testing.assert_allclose(axis.lines[1].get_ydata(), [1, 2, 3])
    pairs = run("let x <- gaussian(0, 1) in [(x, 1), (x, 4)]", seed=0)
    np.testing.assert_allclose(draw(pairs).axes[0].lines[1].get_ydata(), [1, 4])
    many = run("let x <- gaussian(0, 1) in [[x, 1, 2, 3, 4, 5, 6], [x, 1, 2, 3, 4, 5, 6]]", seed=0)
    assert draw(many).axes[0].images[0].get_array().shape == (7, 2)


def test_data_and_axis() -> None:
    result = run("let x <- gaussian(0, 1) in let xs = [x, x + 1, x + 2] in xs", seed=0)
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    (axis,) = draw(result, axis=days, data={"xs": [0.9, np.nan, 2.1]}).axes
    shown = {line.get_label(): line for line in axis.lines}
    np.testing.assert_allclose(shown["data"].get_ydata(), [0.9, np.nan, 2.1])
    # The list began one step before the axis does.
    assert str(shown["mean"].get_xdata()[0]).startswith("2023-12-31")
    with pytest.raises(SirenError, match="no list `ys` to draw data over"):
        draw(result, data={"ys": [1.0]})


def test_wild_data_do_not_press_the_rest_into_a_line() -> None:
    result = run("let x <- gaussian(0, 1) in let xs = [x, x] in xs", seed=0)
    (axis,) = draw(result, data={"xs": [0.1, 1e6]}).axes
    assert axis.get_ylim()[1] < 10 and "1 data outside" in axis.texts[0].get_text()


def test_what_the_picture_leaves_out_is_counted() -> None:
    """The second of the data was neither drawn nor counted."""
    result = run("let x <- gaussian(0, 1) in let xs = [x, x, x] in xs", seed=0)
    (axis,) = draw(result, data={"xs": [0.1, 4.5, 1e6]}).axes
    assert axis.get_ylim()[1] < 4.5 and "2 data outside" in axis.texts[0].get_text()


def test_ellipses_are_not_cut_off() -> None:
    """But one of a vague start, which would leave a dot of the path."""
    result = run("let x <- gaussian(0, 1) in let track = [[x, 0], [5, x], [10, 0]] in track", seed=0)
    (panel,) = draw(result, plane=["track"]).axes
    assert panel.get_xlim()[0] < -2 and panel.get_ylim()[0] < -2 and panel.get_ylim()[1] > 2
    result = run("let x <- gaussian(0, 1e6) in let track = [[x, 0], [5, 0], [10, 0]] in track", seed=0)
    (panel,) = draw(result, plane=["track"]).axes
    assert panel.get_xlim()[0] > -30 and panel.get_xlim()[1] < 40


def test_a_path_in_the_plane() -> None:
    """The second place is twice as uncertain along the diagonal as the first, and certain across it."""
    result = run("let x <- gaussian(0, 1) in let track = [[x, x], [2 * x + 5, 2 * x + 1]] in track", seed=0)
    (panel,) = draw(result, data={"track": [[0, 0], [5, 1], [900, 1]]}, plane=["track"]).axes
    path = next(line for line in panel.lines if line.get_label() == "mean")
    np.testing.assert_allclose(path.get_xydata(), [[0, 0], [5, 1]], atol=1e-12)
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("track[0]", "track[1]") and panel.get_aspect() == 1
    (ellipses,) = panel.collections
    np.testing.assert_allclose(ellipses.get_angles() % 180, [135, 135], atol=1e-6)
    long = 2 * np.sqrt(2 * 4.605)
    sizes = ellipses.get_widths() + ellipses.get_heights()
    np.testing.assert_allclose(sizes, [2 * long, long], rtol=0.1)
    assert panel.get_xlim()[1] < 100 and "1 data outside" in panel.texts[0].get_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"plane": ["xs"]}, "`xs` cannot be drawn in the plane"),
        (
            {"plane": ["track"], "data": {"track": [1, 2]}},
            "the data over `track` cannot be drawn in the plane",
        ),
        ({"plane": ["trak"]}, "there is no list `trak` to draw"),
    ],
)
def test_what_is_no_path_is_refused(options: dict, words: str) -> None:
    text = "let x <- gaussian(0, 1) in let xs = [x, x] in let track = [[x, x], [x, 2]] in (xs, track)"
    with pytest.raises(SirenError, match=words):
        draw(run(text, seed=0), **options)


def test_a_path_may_go_on_in_few_particles() -> None:
    text = """
    let sample longer <- bernoulli(0.0003) in
    let track = if longer then [[0, 0], [1, 1]] else [[0, 0]] in
    track
    """
    result = run(text, particles=3000, seed=1)
    assert 0 < result["track"].share[1][0] < 0.001
    (panel,) = draw(result, plane=["track"]).axes
    assert len(panel.collections[0].get_offsets()) == 2


def test_times_with_a_zone_are_drawn_as_utc_without_a_warning() -> None:
    result = run("let x <- gaussian(0, 1) in let xs = [x, 2 * x] in xs", seed=0)
    east = timezone(timedelta(hours=2))
    times = [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 15, tzinfo=east)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (panel,) = draw(result, axis=times).axes
    found = panel.lines[0].get_xdata()
    assert list(found) == list(np.array(["2024-01-01T12", "2024-01-01T13"], "datetime64[us]"))
