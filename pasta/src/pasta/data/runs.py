"""From measured dependences to blocks: which siblings, how far, and which of them save most.

A *run* is what a parent promises between two syncs. From its first unit on, each unit either does without the
units of the run before it, and opens a block of its own; or it needs them, and joins the block before it; or it
can do neither, and the run ends there. A heading or a short line stays with the parent, if it too does without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pasta.data.pieces import Kind
from pasta.data.probes import Probe
from pasta.data.units import Answer, Unit

PROMISE_TOKENS = 5  # two tags and a topic, about

Rise = Callable[[Probe, int], float | None]  # nats that a unit loses under a probe; None: not measured yet


@dataclass(frozen=True, slots=True)
class Element:
    """Units `first` to `last`: a block, or text of the parent. `rise`: the nats that hiding costs them."""

    first: int
    last: int
    is_block: bool
    rise: float


@dataclass(frozen=True, slots=True)
class Run:
    """Elements one after another, the first of them a block, with a sync behind the last."""

    elements: tuple[Element, ...]
    saved: int  # decode steps
    rise: float

    @property
    def first(self) -> int:
        return self.elements[0].first

    @property
    def last(self) -> int:
        return self.elements[-1].last


@dataclass(frozen=True, slots=True)
class Grown:
    """A run as far as it is known, and the probes that would tell more."""

    elements: tuple[Element, ...]
    wanted: tuple[Probe, ...] = ()


def grow(answer: Answer, start: int, rise: Rise, limit: float, *, window: int, ahead: int) -> Grown:
    """Grows the run that begins at a unit.

    Args:
        answer: The answer.
        start: The run's first unit.
        rise: What was measured so far.
        limit: Nats per token that a unit may lose.
        window: The longest run, in units.
        ahead: How many units to ask about at once, where nothing is known.
    """
    units = answer.units
    elements = [Element(start, start, True, 0.0)]
    stop = min(len(units), start + window)

    def fits(probe: Probe, unit: int) -> bool | None:
        nats = rise(probe, unit)
        return None if nats is None else nats <= limit * units[unit].length

    at = start + 1
    while at < stop:
        unit = units[at]
        joins = _joins(units, at) and elements[-1].is_block
        # A small model hardly notices what "This" misses; a sentence that says so joins whatever was measured.
        is_crumb = unit.leans or (unit.piece.kind is Kind.SENTENCE and not unit.is_block)
        if (unit.leans and not joins) or (unit.sums_up and not unit.leans):
            break  # nor what "In conclusion" misses: such a sentence comes behind the sync
        if not (is_crumb and joins):
            single = Probe(start, at, at)
            independent = fits(single, at)
            if independent is None:
                asked = [(Probe(start, k, k), k) for k in range(at, min(stop, at + ahead))]
                return Grown(tuple(elements), tuple(probe for probe, k in asked if rise(probe, k) is None))
            if independent:
                elements.append(Element(at, at, unit.is_block, rise(single, at) or 0.0))
                at += 1
                continue
        if not joins:
            break  # it stays with the parent, behind the sync
        # The nearest block that it can join without missing anything; the run's first block misses nothing.
        for index in range(len(elements) - 1, -1, -1):
            first = elements[index].first
            if not all(element.is_block for element in elements[index:]) or not _is_prose(units, first, at):
                return Grown(tuple(elements))
            probe = Probe(start, first, at)
            fitting = True if first == start else fits(probe, at)
            if fitting is None:
                return Grown(tuple(elements), (probe,))
            if fitting:
                nats = sum(element.rise for element in elements[index:])
                nats += 0.0 if first == start else rise(probe, at) or 0.0
                elements[index:] = [Element(first, at, True, nats)]
                break
        at += 1
    return Grown(tuple(elements))


def _joins(units: Sequence[Unit], at: int) -> bool:
    """Whether a unit can stand in one block with the unit before it: nothing that orders blocks lies between."""
    return _is_prose(units, at - 1, at)


def _is_prose(units: Sequence[Unit], first: int, last: int) -> bool:
    inside = units[first : last + 1]
    return all(unit.piece.kind is Kind.SENTENCE for unit in inside) and not any(
        unit.gap_text.strip() for unit in inside[1:]
    )


def weigh(answer: Answer, elements: Sequence[Element]) -> list[Run]:
    """Every run that these elements begin, with what it saves; only those that save something."""
    runs = []
    units = answer.units
    begun = done = written = blocks = 0
    nats = 0.0
    for index, element in enumerate(elements):
        inside = units[element.first : element.last + 1]
        length = sum(len(unit.gap) + unit.length for unit in inside)
        lead = len(inside[0].gap)
        written += length
        nats += max(0.0, element.rise)
        if element.is_block:
            blocks += 1
            begun += lead + PROMISE_TOKENS
            done = max(done, begun + length - lead + 1)
        else:
            begun += length
        is_end = element.last == len(units) - 1
        saved = written - max(done, begun + (0 if is_end else 1))
        if blocks > 1 and saved > 0:
            runs.append(Run(tuple(elements[: index + 1]), saved, nats))
    return runs


def choose(answer: Answer, runs: Sequence[Run], allowed: float, min_saved: int) -> list[Run]:
    """The runs, one after another, that save most steps and together cost at most `allowed` nats."""
    count = len(answer.units)
    by_first: dict[int, list[Run]] = {}
    for run in runs:
        if run.saved >= min_saved:
            by_first.setdefault(run.first, []).append(run)

    def fits(chosen: Sequence[Run]) -> bool:
        return sum(run.rise for run in chosen) <= allowed

    low, high = 0.0, 1.0
    if fits(cheapest := best_at(low, by_first, count)):
        return cheapest
    while not fits(best_at(high, by_first, count)):
        high *= 4  # at some price only runs without any loss remain, and those cost nothing
        if high > 1e6:
            return []
    for _ in range(16):
        middle = (low + high) / 2
        if fits(best_at(middle, by_first, count)):
            high = middle
        else:
            low = middle
    return best_at(high, by_first, count)


def best_at(price: float, by_first: Mapping[int, Sequence[Run]], count: int) -> list[Run]:
    """The runs over `count` units, one after another, that save most where a nat costs so many steps."""
    worth = [0.0] * (count + 1)
    taken: list[Run | None] = [None] * count
    for at in range(count - 1, -1, -1):
        worth[at] = worth[at + 1]
        for run in by_first.get(at, ()):
            value = run.saved - price * run.rise + worth[run.last + 1]
            if value > worth[at]:
                worth[at], taken[at] = value, run
    chosen = []
    at = 0
    while at < count:
        here = taken[at]
        if here is not None:
            chosen.append(here)
        at = at + 1 if here is None else here.last + 1
    return chosen
