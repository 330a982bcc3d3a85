"""What one step runs: stretches of many requests, side by side."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from pasta.engine.request import Chunk, Row


class Batch(NamedTuple):
    """The tokens of a step, each with what the model must know of it."""

    tokens: array[int]
    positions: array[int]
    slots: array[int]  # where each goes in the pool
    segments: array[int]
    places: array[int]  # of each in its request
    rows: list[Row]  # those that decide
    deciding: list[int]  # where these stand in the batch


def gather(chunks: Sequence[Chunk]) -> Batch:
    rows = list(chain.from_iterable([chunk.rows for chunk in chunks]))
    slots = join([request.blocks.slots[start:end] for request, start, end, _ in chunks])
    if len(rows) == len(slots):  # each decides, as in most steps: they know it all
        return Batch(
            array("i", [row.token for row in rows]),
            array("i", [row.position for row in rows]),
            slots,
            array("i", [row.segment for row in rows]),
            array("i", [row.place for row in rows]),
            rows,
            list(range(len(rows))),
        )
    deciding: list[int] = []
    first = 0
    for _, start, end, decided in chunks:
        deciding += [first + row.place - start for row in decided]
        first += end - start
    return Batch(
        join([request.tokens[start:end] for request, start, end, _ in chunks]),
        join([request.positions[start:end] for request, start, end, _ in chunks]),
        slots,
        join([request.segments[start:end] for request, start, end, _ in chunks]),
        array("i", chain.from_iterable(range(start, end) for _, start, end, _ in chunks)),
        rows,
        deciding,
    )


def join(parts: Iterable[array[int]]) -> array[int]:
    return array("i", b"".join(parts))


def share(budget: int, backlogs: Sequence[int]) -> list[int]:
    """How much of each request's backlog runs in the next step, in the order in which they came.

    Half of the budget is for the one that came first, which so gets on whatever comes after it. The rest is for the
    shortest, which would wait long behind a long one, and make it wait little.
    """
    if sum(backlogs) <= budget:
        return list(backlogs)
    shares = [0] * len(backlogs)
    first = next(index for index, backlog in enumerate(backlogs) if backlog)
    shares[first] = min(backlogs[first], (budget + 1) // 2)
    left = budget - shares[first]
    for index in sorted(range(len(backlogs)), key=backlogs.__getitem__):
        more = min(left, backlogs[index] - shares[index])
        shares[index] += more
        left -= more
    return shares
