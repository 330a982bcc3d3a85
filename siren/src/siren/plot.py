"""A picture of a result: every list over its axis with its intervals and the data, or as a path in the plane,
every number with its posterior."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from siren.digits import number
from siren.errors import SirenError, did_you_mean
from siren.result import Leaf, Output, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from siren.prediction import Checks

_INK, _BAND, _DATA = "#1f4e79", "#5b9bd5", "#c0504d"
_COLOURS: Final = ("#1f4e79", "#c0504d", "#4f7f3a", "#7a4f9a", "#b5761f", "#2f8f8f")
# A list of more lists than can be told apart as lines is shown as an image of its means.
_LINES: Final = len(_COLOURS)
_IN_A_ROW: Final = 3
_DRAWS: Final = 4000
# Of a path in the plane: places that have an ellipse at most, and draws that each is made of.
_ELLIPSES: Final = 40
_DRAWS_OF_A_PLACE: Final = 1000
# Beside the answer, where data lie too far away to be drawn; as a share of its width.
_ROOM: Final = 0.6


def require_matplotlib() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SirenError("Matplotlib is not installed", hint="pip install 'siren-ppl[plot]'") from None
    return Figure


def plot(
    result: Result,
    path: str | Path,
    title: str = "",
    axis: Sequence[Any] | None = None,
    data: Mapping[str, Any] | None = None,
    plane: Sequence[str] = (),
) -> None:
    """Draw the result into a file; the ending (.png, .svg, .pdf) says how. Needs `siren-ppl[plot]`."""
    figure = draw(result, title, axis, data, plane)
    try:
        figure.savefig(Path(path), dpi=150)
    except (OSError, ValueError) as error:
        raise SirenError(f"cannot write {path}: {error}") from None


def draw(
    result: Result,
    title: str = "",
    axis: Sequence[Any] | None = None,
    data: Mapping[str, Any] | None = None,
    plane: Sequence[str] = (),
) -> Figure:
    """The figure itself, for notebooks.

    `axis` has a number or a date for each element of the lists; a list that is longer, by what it began with,
    ends where the axis ends. `data` has, by the name of an output, values to be drawn over it as points. The
    lists named in `plane` are drawn as paths: of each element the first number across, the second upward.
    """
    lists = [output for output in result if _series(output.value)]
    numbers = [output for output in result if output.is_number]
    points = {name: _points(name, values) for name, values in (data or {}).items()}
    known = [output.name for output in lists]
    for name, what in [*((name, "to draw data over") for name in points), *((n, "to draw") for n in plane)]:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known) or 'none'}"
            raise SirenError(f"there is no list `{name}` {what}", hint=hint)
    rows = -(-len(numbers) // _IN_A_ROW)
    if not lists and not rows:
        raise SirenError("nothing to plot: the program returns no numbers and no list of numbers")
    # No pyplot: the figure must neither need a display nor stay behind in global state.
    heights = [6.0 if output.name in plane else 3.2 for output in lists] + [1.9] * rows
    figure = require_matplotlib()(figsize=(9, sum(heights) + 0.6), layout="constrained")
    grid = figure.add_gridspec(len(heights), 12, height_ratios=heights)
    for place, output in enumerate(lists):
        panel = figure.add_subplot(grid[place, :])
        if output.name in plane:
            _path(panel, output, points.get(output.name))
        else:
            _list(panel, output, axis, points.get(output.name))
    for place, output in enumerate(numbers):
        row, column = divmod(place, _IN_A_ROW)
        width = 12 // min(_IN_A_ROW, len(numbers) - row * _IN_A_ROW)
        cell = grid[len(lists) + row, column * width : (column + 1) * width]
        _number(figure.add_subplot(cell), output)
    kept = ", ".join(f"{name} {how}" for name, how in result.plan.items())
    particles = f"{result.particles} particle{'s' * (result.particles > 1)}"
    about = f"{result.method} · {particles} · seed {result.seed}"
    lines = [title, about, *textwrap.wrap(kept, 110)]
    figure.suptitle("\n".join(line for line in lines if line), fontsize=10)
    return figure


def draw_checks(checks: Checks, axis: Sequence[Any] | None = None, title: str = "") -> Figure:
    """The data over what was predicted of them, and the shares of the predictions that lie below the data."""
    if not checks.predictions:
        raise SirenError("nothing to plot: the program observes nothing")
    figure = require_matplotlib()(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    places = _along(axis, len(checks.predictions))
    for outer, alpha in ((0.05, 0.25), (0.25, 0.45)):
        low, high = (
            np.array([np.quantile(p.draws, q) for p in checks.predictions]) for q in (outer, 1 - outer)
        )
        label = f"{1 - 2 * outer:.0%} predicted"
        left.fill_between(places, low, high, color=_BAND, alpha=alpha, lw=0, label=label)
    left.plot(places, checks.values, "o", color=_DATA, ms=3.5, alpha=0.8, label="data")
    left.legend(loc="best", fontsize=8, frameon=False)
    left.set_title(f"{checks.coverage(0.9):.0%} of the data in the 90 % intervals", fontsize=9)
    right.hist(checks.below, bins=np.linspace(0, 1, 11), color=_BAND, alpha=0.6)
    right.axhline(len(checks.predictions) / 10, color=_INK, lw=1, ls=":")
    right.set_title(f"uniform? p = {checks.p_value():.2g}", fontsize=9)
    right.set_xlabel("share of the prediction below the datum")
    for panel in (left, right):
        _plain(panel)
    figure.suptitle(title, fontsize=10)
    return figure


def _series(value: Any) -> list[list[Leaf]]:
    """The lists of numbers in a list: itself, or the parts of its elements one by one. A list of rows that
    differ in length has as many as all rows have."""
    if not isinstance(value, list) or not value:
        return []
    rows = [_flat(item) for item in value]
    width = min(len(row) for row in rows)
    return [[row[place] for row in rows] for place in range(width)]


def _flat(value: Any) -> list[Leaf]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flat(item)]
    return [value] if hasattr(value, "quantile") else []


def require_drawable(axis: Sequence[Any] | None, data: Mapping[str, Any] | None) -> None:
    """Refuse what cannot be drawn, before a run whose picture it was meant for."""
    if axis is not None:
        _places(axis)
    for name, values in (data or {}).items():
        _points(name, values)


def _points(name: str, values: Any) -> Any:
    """Data as an array: a number for each step, or several."""
    try:
        points = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        points = np.asarray(None)
    if points.ndim not in (1, 2):
        raise SirenError(
            f"the data to draw over `{name}` are no list of numbers", hint="name a column: FILE:column"
        )
    return points


def _places(axis: Sequence[Any]) -> Any:
    """An axis as an array of numbers or dates."""
    places = np.asarray(axis)
    try:
        if places.dtype.kind in "OU":
            places = np.asarray([_date(place) for place in axis], dtype="datetime64[us]")
    except ValueError:
        raise SirenError(f"the axis is neither of numbers nor of dates: {axis[0]!r}") from None
    if not places.size:
        raise SirenError("the axis is empty", hint="leave it out to count steps")
    return places.astype("datetime64[us]") if places.dtype.kind == "M" else places


def _date(place: object) -> str:
    """A date or time as NumPy reads it; one with a zone as UTC, of which NumPy knows no other."""
    text = str(place)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() if moment.tzinfo else text


def _along(axis: Sequence[Any] | None, length: int) -> Any:
    """Where the elements of a list stand. Steps before the axis begins are as far apart as its first two."""
    if axis is None:
        return np.arange(length)
    places = _places(axis)
    if len(places) >= length:
        return places[len(places) - length :]
    gap = places[1] - places[0] if len(places) > 1 else places[0] - places[0]
    before = [places[0] - gap * step for step in range(length - len(places), 0, -1)]
    return np.concatenate([np.asarray(before, dtype=places.dtype), places])


def _list(panel: Axes, output: Output, axis: Sequence[Any] | None, data: Any) -> None:
    series = _series(output.value)
    places = _along(axis, len(series[0]))
    panel.margins(x=0.01)
    _plain(panel)
    panel.set_ylabel(output.name)
    if axis is None:
        panel.set_xlabel("step")
    if len(series) > _LINES:
        means = np.array([[leaf.mean for leaf in line] for line in series])
        image = panel.imshow(means, aspect="auto", origin="lower", cmap="viridis", interpolation="nearest")
        panel.figure.colorbar(image, ax=panel, label="mean")
        return
    if output.is_boolean and len(series) == 1:
        panel.fill_between(places, output.mean, step="mid", color=_BAND, alpha=0.6, lw=0)
        panel.set_ylim(0, 1)
        panel.set_ylabel(f"probability of {output.name}")
        return
    for index, line in enumerate(series):
        _line(panel, places, line, _COLOURS[index], f"[{index}] " if len(series) > 1 else "")
    if data is not None:
        shown = min(len(data), len(places))
        panel.plot(
            places[len(places) - shown :],
            data[len(data) - shown :],
            "o",
            color=_DATA,
            ms=3.5,
            alpha=0.8,
            zorder=4,
            label="data",
        )
        _focus(panel, series, data)
    panel.legend(loc="best", fontsize=8, frameon=False, ncols=4)


def _line(panel: Axes, places: Any, line: list[Leaf], colour: str, label: str) -> None:
    band = _BAND if not label else colour
    for outer, alpha, name in ((0.05, 0.25, "90 %"), (0.25, 0.45, "50 %")):
        low, high = ([leaf.quantile(q) for leaf in line] for q in (outer, 1 - outer))
        panel.fill_between(places, low, high, color=band, alpha=alpha, lw=0, label=None if label else name)
    means = [leaf.mean for leaf in line]
    marker = "o" if len(places) < 3 else ""
    panel.plot(places, means, color=colour, lw=1.4, marker=marker, label=f"{label}mean")


def _path(panel: Axes, output: Output, data: Any) -> None:
    """The means joined by a line, and ellipses of 90 %, as wide as those of a gaussian of the same spread."""
    from matplotlib.collections import EllipseCollection

    series = _series(output.value)
    if len(series) < 2 or (data is not None and (data.ndim < 2 or data.shape[1] < 2)):
        what = f"`{output.name}`" if len(series) < 2 else f"the data over `{output.name}`"
        hint = "return lists of [x, y]" if len(series) < 2 else "name two columns: FILE:x,y"
        raise SirenError(f"{what} cannot be drawn in the plane: its elements are single numbers", hint=hint)
    _plain(panel)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_xlabel(f"{output.name}[0]")
    panel.set_ylabel(f"{output.name}[1]")
    means = np.array([[leaf.mean for leaf in line] for line in series[:2]])
    last = means.shape[1] - 1
    shown = np.arange(last, -1, -(1 + last // _ELLIPSES))
    sizes, angles, reach = [], [], []
    for place in shown:
        draws = np.array([line[place].draws(_DRAWS_OF_A_PLACE) for line in series[:2]])
        draws = draws[:, np.isfinite(draws).all(axis=0)]  # few, of an element that few particles have
        square = -2 * np.log(0.1) * (np.cov(draws) if draws.shape[1] > 1 else np.zeros((2, 2)))
        squares, axes = np.linalg.eigh(square)
        sizes.append(2 * np.sqrt(np.maximum(squares, 0)))
        angles.append(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
        reach.append(np.sqrt(np.diag(square)))
    widths, heights = np.transpose(sizes)
    panel.add_collection(
        EllipseCollection(
            widths, heights, angles, units="xy", offsets=means[:, shown].T, offset_transform=panel.transData,
            facecolor=_BAND, alpha=0.25, lw=0,
        )
    )  # fmt: skip
    panel.plot([], [], "o", color=_BAND, alpha=0.5, ms=9, mew=0, label="90 %")
    panel.plot(*means, color=_INK, lw=1.4, label="mean")
    panel.plot(*means[:, -1], "o", color=_INK, ms=5, label="end")
    # Room for the ellipses, but for those that would press the path into a dot, as that of a vague start.
    low, high = means.min(axis=1), means.max(axis=1)
    most = max(*(high - low), *np.median(reach, axis=0))
    low = np.maximum((means[:, shown].T - reach).min(axis=0), low - most)
    high = np.minimum((means[:, shown].T + reach).max(axis=0), high + most)
    panel.update_datalim([low, high])
    if data is not None:
        panel.plot(data[:, 0], data[:, 1], "o", color=_DATA, ms=3, alpha=0.6, zorder=1, label="data")
        width = max(*(high - low), 1e-12)
        if _beyond(data[:, :2], low, high, width).any():
            room = _ROOM * width
            panel.set_xlim(low[0] - room, high[0] + room)
            panel.set_ylim(low[1] - room, high[1] + room)
            _count_outside(panel, _beyond(data[:, :2], low, high, room).any(axis=1))
    panel.legend(loc="best", fontsize=8, frameon=False, ncols=4)


def _focus(panel: Axes, series: list[list[Leaf]], data: Any) -> None:
    """A few wild data must not press the rest into a line: they are marked at the edge."""
    low = min(leaf.quantile(0.05) for line in series for leaf in line)
    high = max(leaf.quantile(0.95) for line in series for leaf in line)
    width = max(high - low, 1e-12)
    if _beyond(data, low, high, width).any():
        room = _ROOM * width
        panel.set_ylim(low - room, high + room)
        _count_outside(panel, _beyond(data, low, high, room))


def _beyond(data: Any, low: Any, high: Any, by: float) -> Any:
    return (data < low - by) | (data > high + by)


def _count_outside(panel: Axes, outside: Any) -> None:
    panel.annotate(
        f"{int(outside.sum())} data outside of the picture", (0.99, 0.02), xycoords="axes fraction",
        ha="right", fontsize=8, color=_DATA,
    )  # fmt: skip


def _number(panel: Axes, output: Output) -> None:
    """The posterior on its own axis; a number that is certain as just that."""
    _plain(panel)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_xlabel(output.name)
    if output.is_boolean:
        panel.barh([0], [output.mean], color=_BAND, alpha=0.6)
        panel.set_xlim(0, 1)
        panel.set_xlabel(f"probability of {output.name}: {output.mean:.3g}")
        return
    low, middle, high = (output.quantile(q) for q in (0.05, 0.5, 0.95))
    if not high > low:
        panel.plot([middle], [0], "o", color=_INK, ms=6)
        text = number(middle, output.sd)
        panel.annotate(text, (middle, 0), (0, 8), textcoords="offset points", ha="center")
        return
    draws = output.draws(_DRAWS)
    width = high - low
    inside = draws[(draws > low - width) & (draws < high + width)]
    panel.hist(inside, bins=60, density=True, color=_BAND, alpha=0.45)
    for place, style in ((low, ":"), (middle, "-"), (high, ":")):
        panel.axvline(place, color=_INK, lw=1.2, ls=style)
    shown = [number(value, output.sd, digits=4) for value in (middle, low, high)]
    panel.set_title("{}  ({} to {})".format(*shown), fontsize=9)


def _plain(panel: Any) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
