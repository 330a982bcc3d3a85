"""What one step runs: stretches of many requests, side by side."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
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
    tokens, positions, slots, segments, places = (array("i") for _ in range(5))
    rows: list[Row] = []
    deciding: list[int] = []
    for request, start, end, decided in chunks:
        shift = len(tokens) - start
        tokens += request.tokens[start:end]
        positions += request.positions[start:end]
        slots += request.blocks.slots[start:end]
        segments += request.segments[start:end]
        places.extend(range(start, end))
        deciding += [row.place + shift for row in decided]
        rows += decided
    return Batch(tokens, positions, slots, segments, places, rows, deciding)


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
