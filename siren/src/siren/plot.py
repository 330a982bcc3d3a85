"""A picture of a result: every list over its index with its intervals, the single numbers side by side."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from siren.errors import SirenError
from siren.result import Output, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _BAND = "#1f4e79", "#5b9bd5"


def plot(result: Result, path: str | Path, title: str = "") -> None:
    """Draw the result into a file; the ending (.png, .svg, .pdf) says how. Needs `siren-ppl[plot]`."""
    figure = draw(result, title)
    try:
        figure.savefig(Path(path), dpi=150)
    except (OSError, ValueError) as error:
        raise SirenError(f"cannot write {path}: {error}") from None


def draw(result: Result, title: str = "") -> Figure:
    """The figure itself, for notebooks."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SirenError("Matplotlib is not installed", hint="pip install 'siren-ppl[plot]'") from None
    series = [output for output in result if output.is_series]
    numbers = [output for output in result if output.is_number]
    panels = len(series) + bool(numbers)
    if not panels:
        raise SirenError("nothing to plot: the program returns no numbers and no list of numbers")
    # No pyplot: the figure must neither need a display nor stay behind in global state.
    heights = [3.0] * len(series) + ([0.7 + 0.45 * len(numbers)] if numbers else [])
    figure = Figure(figsize=(9, sum(heights) + 0.6), layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axis, output in zip(axes, series, strict=False):
        _series(axis, output)
    if numbers:
        _numbers(axes[-1], numbers)
    kept = ", ".join(f"{name} {how}" for name, how in result.plan.items())
    about = f"{result.method} · {result.particles} particles · seed {result.seed}"
    lines = [title, about, *textwrap.wrap(kept, 110)]
    figure.suptitle("\n".join(line for line in lines if line), fontsize=10)
    return figure


def _series(axis: Axes, output: Output) -> None:
    index = np.arange(len(output.value))
    axis.margins(x=0.01)
    _plain(axis)
    if output.is_boolean:
        axis.fill_between(index, output.mean, step="mid", color=_BAND, alpha=0.6, lw=0)
        axis.set_ylim(0, 1)
        axis.set_ylabel(f"probability of {output.name}")
        return
    axis.fill_between(
        index, output.quantile(0.05), output.quantile(0.95), color=_BAND, alpha=0.25, lw=0, label="90 %"
    )
    axis.fill_between(
        index, output.quantile(0.25), output.quantile(0.75), color=_BAND, alpha=0.45, lw=0, label="50 %"
    )
    axis.plot(index, output.mean, color=_INK, lw=1.4, marker="o" if len(index) < 3 else "", label="mean")
    axis.set_ylabel(output.name)
    axis.legend(loc="upper right", fontsize=8, frameon=False, ncols=3)


def _numbers(axis: Axes, outputs: list[Output]) -> None:
    """One row a number, each scaled to its own interval: they need not share a unit."""
    for row, output in enumerate(reversed(outputs)):
        low, high = output.quantile(0.05), output.quantile(0.95)
        width = (high - low) or 1.0
        inner = [(output.quantile(q) - low) / width for q in (0.25, 0.75)]
        axis.plot([0, 1], [row, row], color=_BAND, alpha=0.6, lw=3, solid_capstyle="round")
        axis.plot(inner, [row, row], color=_BAND, lw=7, solid_capstyle="round")
        axis.plot((output.mean - low) / width, row, "o", color=_INK, ms=6)
        axis.annotate(f"{low:.4g} ", (0, row), ha="right", va="center", fontsize=8)
        axis.annotate(f" {high:.4g}", (1, row), ha="left", va="center", fontsize=8)
        axis.annotate(
            f"{output.mean:.4g}", ((output.mean - low) / width, row), (0, 7), textcoords="offset points",
            ha="center", fontsize=8,
        )  # fmt: skip
    axis.set_yticks(range(len(outputs)), [output.name for output in reversed(outputs)])
    axis.set_xticks([])
    axis.set_xlim(-0.15, 1.15)
    axis.set_ylim(-0.6, len(outputs) - 0.3)
    _plain(axis)
    axis.spines["bottom"].set_visible(False)


def _plain(axis: Any) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
