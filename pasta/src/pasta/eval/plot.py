"""Plots as SVG, written by hand: points with intervals over plain axes. No package, and nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

OURS, THEIRS, INK, FAINT, LINE = "#0b57d0", "#8a8b93", "#1b1b1f", "#5f6068", "#d5d6dc"
COLOURS = ("#3c4043", "#0b57d0", "#b3261e", "#146c2e", "#8a4b00", "#7b3fb5", "#00696d", "#a8005c")
NOTE, LEADING = 11, 15  # sizes of a note's letters and lines
FONT = 'font-family="system-ui, sans-serif"'


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    x: float
    y: float
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    colour: str = OURS
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    low: float
    high: float
    logarithmic: bool = False
    ticks: tuple[float, ...] = ()

    @classmethod
    def around(cls, label: str, values: Sequence[float], room: float = 0.08) -> Axis:
        low, high = min(values), max(values)
        margin = room * ((high - low) or 1.0)
        return cls(label, low - margin, high + margin)

    def share(self, value: float) -> float:
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def marks(self) -> list[float]:
        if self.ticks:
            return list(self.ticks)
        step = 10 ** math.floor(math.log10(self.high - self.low))
        step *= next(factor for factor in (0.1, 0.2, 0.5, 1, 2) if (self.high - self.low) / (step * factor) <= 7)
        first = math.ceil(self.low / step)
        return [round(n * step, 10) for n in range(first, math.floor(self.high / step) + 1)]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a colour, and the names of the points that it runs through


def draw(panels: Sequence[Panel], title: str, note: str = "", width: int = 380, height: int = 400) -> str:
    """Panels side by side, as one SVG document; a note below them, in as many lines as it needs."""
    whole = width * len(panels)
    notes = wrap(note, int((whole - 24) / (0.56 * NOTE)))  # letters, about as wide as that
    high = height + 56 + LEADING * max(0, len(notes) - 1)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {high}" width="{whole}" '
        f'height="{high}" role="img" aria-label="{escape(title)}" {FONT}>',
        f'<rect width="{whole}" height="{high}" fill="#fff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="600" fill="{INK}">{escape(title)}</text>',
    ]
    for index, panel in enumerate(panels):
        out += [f'<g transform="translate({index * width} 32)">', *_panel(panel, width, height), "</g>"]
    for line, text in enumerate(notes):
        out.append(_text(12, height + 48 + LEADING * line, text, FAINT, NOTE, "start"))
    return "\n".join([*out, "</svg>"]) + "\n"


def _panel(panel: Panel, width: int, height: int) -> list[str]:
    left, right, top, bottom = 52, width - 14, 24, height - 44

    def place(x: float, y: float) -> tuple[float, float]:
        return left + panel.x.share(x) * (right - left), bottom - panel.y.share(y) * (bottom - top)

    out = [f'<text x="{left}" y="14" font-size="13" fill="{INK}">{escape(panel.title)}</text>']
    for mark in panel.y.marks():
        _, y = place(panel.x.low, mark)
        out.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{LINE}"/>')
        out.append(_text(left - 6, y + 4, f"{mark:g}", FAINT, 11, "end"))
    for mark in panel.x.marks():
        x, _ = place(mark, panel.y.low)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}" stroke="{FAINT}"/>')
        out.append(_text(x, bottom + 17, f"{mark:g}", FAINT, 11, "middle"))
    out.append(f'<line x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="{FAINT}"/>')
    out.append(_text((left + right) / 2, bottom + 34, panel.x.label, INK, 12, "middle"))
    out.append(
        f'<text transform="translate(13 {(top + bottom) / 2}) rotate(-90)" font-size="12" fill="{INK}" '
        f'text-anchor="middle">{escape(panel.y.label)}</text>'
    )
    spots = {point.name: place(point.x, point.y) for point in panel.points}
    for colour, names in panel.lines:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (spots[name] for name in names))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for point in panel.points:
        out += _point(point, place)
    return out + _labels(panel.points, spots, (left, top - 6, right + 10, bottom))


def _point(point: Point, place: object) -> list[str]:
    assert callable(place)
    x, y = place(point.x, point.y)
    out = []
    if point.x_range is not None:
        (a, _), (b, _) = place(point.x_range[0], point.y), place(point.x_range[1], point.y)
        out.append(f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{point.colour}" opacity=".5"/>')
    if point.y_range is not None:
        (_, a), (_, b) = place(point.x, point.y_range[0]), place(point.x, point.y_range[1])
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}" stroke="{point.colour}" opacity=".5"/>')
    fill = "#fff" if point.hollow else point.colour
    out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{point.colour}" stroke-width="1.5"/>')
    return out


def _labels(
    points: Sequence[Point], spots: dict[str, tuple[float, float]], area: tuple[float, float, float, float]
) -> list[str]:
    """Every name at the nearest place where it covers nothing; a thin line leads to it where that is far."""
    taken: list[tuple[float, ...]] = [(x - 5, y - 5, x + 5, y + 5) for x, y in spots.values()]
    out = []
    for point in sorted(points, key=lambda point: point.hollow):
        if not point.name or point.name.startswith("·"):
            continue
        x, y = spots[point.name]
        size = 10 if point.hollow else 11
        wide = 0.58 * size * len(point.name)
        for far, centre_x, centre_y in _around(x, y, wide, size):
            box = (centre_x - wide / 2, centre_y - size / 2 - 1, centre_x + wide / 2, centre_y + size / 2 + 1)
            if not _inside(box, area) or any(_meet(box, other) for other in taken):
                continue
            taken.append(box)
            if far > 12:
                end_x = min(max(x, box[0]), box[2])
                end_y = min(max(y, box[1]), box[3])
                out.append(
                    f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end_x:.1f}" y2="{end_y:.1f}" stroke="{point.colour}" '
                    'stroke-width=".7" opacity=".7"/>'
                )
            out.append(_text(centre_x, centre_y + 0.35 * size, point.name, point.colour, size, "middle"))
            break
    return out


def _around(x: float, y: float, wide: float, high: float) -> Iterator[tuple[float, float, float]]:
    """Places for the middle of a label about a point, nearest first, with the gap between the two."""
    for far in (4, 8, 14, 22, 32, 44, 58, 74, 92):
        for step in (1, 15, 7, 9, 0, 8, 4, 12, 2, 14, 6, 10, 3, 13, 5, 11):  # sixteenths of a turn, to the right first
            across, down = math.cos(step * math.pi / 8), -math.sin(step * math.pi / 8)
            yield far, x + across * (wide / 2 + far), y + down * (high / 2 + far)


def _inside(box: tuple[float, ...], area: tuple[float, float, float, float]) -> bool:
    return area[0] <= box[0] and area[1] <= box[1] and box[2] <= area[2] and box[3] <= area[3]


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _text(x: float, y: float, text: str, colour: str, size: int, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
    )
