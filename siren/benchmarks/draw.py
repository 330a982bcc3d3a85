"""Pictures of what a plan is worth. Needs `siren-ppl[plot]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from siren.errors import SirenError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED, _GREY = "#1f5fa8", "#d1495b", "#b9c4d0"
_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
_METHOD_INK: Final = {"ssi": "#1f5fa8", "ds": "#d1495b", "bp": "#3d8b5f"}


def draw_gains(gains: list[dict[str, Any]], path: Path) -> None:
    """For each pair, both gains with their intervals."""
    figure = _figure((9, 0.9 + 0.2 * len(gains)))
    left, right = figure.subplots(1, 2, sharey=True)
    for axis, kind, title in (
        (left, "accuracy", "error of the default / of the best plan in equal time"),
        (right, "time", "time of the default / of the best plan to equal error"),
    ):
        for height, gain in enumerate(reversed(gains)):
            value, low, high = gain[kind]["ratio"]
            ink = _METHOD_INK[gain["method"]]
            axis.plot([low, high], [height, height], color=ink, lw=2.5, alpha=0.45, solid_capstyle="round")
            axis.plot(value, height, "o", color=ink, ms=4.5)
        axis.axvline(1, color=_GREY, lw=1)
        axis.set_xscale("log")
        axis.set_title(title, fontsize=9)
        axis.xaxis.set_major_formatter("{x:g}")
        _bare(axis)
    labels = [f"{gain['benchmark']} {gain['method']}" for gain in reversed(gains)]
    left.set_yticks(range(len(gains)), labels, fontsize=8)
    left.set_ylim(-0.7, len(gains) - 0.3)
    figure.savefig(path, dpi=110)


def draw_frontiers(cells: list[dict[str, Any]], path: Path, method: str = "ssi") -> None:
    """Error over time of every plan, a panel for each benchmark; the default stands out, and the best."""
    names = list(dict.fromkeys(cell["benchmark"] for cell in cells if cell["method"] == method))
    columns = 4
    rows = -(-len(names) // columns)
    figure = _figure((11, 0.5 + 2.5 * rows))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes, names, strict=False):
        lines: dict[int | None, list[tuple[int, float, float]]] = {}
        for cell in cells:
            if (cell["benchmark"], cell["method"]) == (name, method):
                point = (cell["particles"], cell["seconds"], cell["error"])
                lines.setdefault(cell["plan"], []).append(point)
        # With the most particles there is the least luck.
        last = {plan: max(points)[2] for plan, points in lines.items() if plan is not None}
        best = min(last, key=lambda plan: last[plan])
        for plan, points in sorted(lines.items(), key=lambda item: (item[0] in (None, best), item[0] or 0)):
            ink, width = {None: (_RED, 2.0), best: (_BLUE, 2.0)}.get(plan, (_GREY, 1.0))
            _, seconds, errors = zip(*sorted(points), strict=True)
            axis.plot(seconds, errors, "o-", color=ink, lw=width, ms=width + 1.2)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(_SECONDS, [f"{tick:g}" for tick in _SECONDS])
        times = [seconds for points in lines.values() for _, seconds, _ in points]
        axis.set_xlim(min(times) * 0.85, max(times) * 1.18)
        axis.xaxis.set_minor_formatter("")
        axis.yaxis.set_minor_formatter("")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_title(f"{name} (best: plan {best})", fontsize=9)
        axis.tick_params(labelsize=7)
        _bare(axis)
    axes[0].plot([], [], color=_RED, label="no plan")
    axes[0].plot([], [], color=_BLUE, label="best plan")
    axes[0].plot([], [], color=_GREY, label="other plans")
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("processor seconds a run", fontsize=9)
    figure.supylabel("distance from the posterior, in standard deviations", fontsize=9)
    figure.savefig(path, dpi=110)


def _figure(size: tuple[float, float]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SirenError("Matplotlib is not installed", hint="pip install 'siren-ppl[plot]'") from None
    return Figure(figsize=size, layout="constrained")


def _bare(axis: Axes) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
