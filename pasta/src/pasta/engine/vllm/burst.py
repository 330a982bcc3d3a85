"""Steps that a worker takes on its own, one after another, while vLLM's scheduler knows of one.

Most tokens are text. A request whose lanes all put text needs no interpreter to know its next rows: they stand one
position further, behind as many places as it has lanes. So its text is gathered, and read in one go when something
else comes, or when the burst ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pasta.engine.vllm.plan import PLACE, POSITION, STATE, TOKEN, Rows, Span, numbers_of, place_spans
from pasta.engine.vllm.sampler import Answer, Choice

STEPS = 16  # of threads in one of vLLM's
SECONDS = 0.1  # after which no further step begins: whoever is new waits so long

# Computes the rows; the token of each that decides. The choices are None where all take the best that they may.
Decide = Callable[[Rows, list[int], list[Choice] | None], list[int]]


def ahead(rows: int) -> int:
    """Slots that a request has beyond the rows of its next step: for the steps of a burst, with a few forks.

    Of many threads it is fewer steps: the slots are taken from other requests.
    """
    return STEPS * (min(rows, 16) + 4)


@dataclass(slots=True, eq=False)
class Member:
    """One request of a burst."""

    answer: Answer
    request: int  # its row of the block tables
    room: int  # tokens that it may hold
    stream: list[int]  # what it has come to in this step of vLLM's
    pending: int = field(init=False)  # the last of them, which are not computed
    extra: int = 0  # how many were computed beyond what vLLM scheduled
    text: list[int] = field(default_factory=list)  # the last of them, which its interpreter has not read
    quiet: int = 0  # steps of text that it may yet take unread
    steady: bool = False  # its rows are its lanes, and what comes next stands right behind each
    changed: bool = True  # its rows are not those of the step before, moved on
    numbers: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.pending = len(self.stream)

    @property
    def goes_on(self) -> bool:
        lanes = self.answer.lanes
        return self.pending > 0 and not lanes.finished and lanes.held + len(self.text) <= self.room

    @property
    def choices(self) -> list[Choice]:
        lanes = len(self.answer.lanes.deciding)
        return [Choice(self.answer, lane, len(self.text) // lanes) for lane in range(lanes)]

    @property
    def span(self) -> Span:
        """What the next step computes of it, where its lanes have read all of its text."""
        lanes = self.answer.lanes
        return Span(lanes, lanes.held - self.pending, self.pending)

    def lay_out(self, numbers: np.ndarray) -> None:
        """Its rows, as its lanes are now."""
        self.numbers, self.changed = numbers, False
        self.steady = self.answer.lanes.is_steady(self.span.start)
        self.quiet = self.answer.text_steps() if self.steady else 0

    def deciding(self, first: int) -> Sequence[int]:
        """The rows after which its lanes decide, where it has those from the first on."""
        if self.steady:
            return range(first, first + self.pending)
        start = self.span.start
        return [first + lane.place - start for lane in self.answer.lanes.deciding]

    def take(self, tokens: list[int]) -> None:
        """Takes the token of each lane."""
        self.extra += self.pending
        if self.quiet and self.answer.lanes.interpreter.special.isdisjoint(tokens):
            self.quiet -= 1
            self.text += tokens
            return
        self.read()
        lanes = self.answer.lanes
        before = len(lanes.deciding), len(lanes.table.sees)
        stream = self.answer.take_all(tokens)
        self.stream += stream
        self.pending = len(stream)
        if self.steady and stream == tokens and before == (len(lanes.deciding), len(lanes.table.sees)):
            self.numbers[:, STATE] = [lane.expect for lane in lanes.deciding]  # a topic is written: all else moves on
            self.quiet = self.answer.text_steps()
        else:
            self.changed = True

    def read(self) -> None:
        if self.text:
            self.answer.lanes.take_text(self.text)
            self.stream += self.text
            self.text = []


class Burst:
    """Only where every request of a step decodes in threads. Whoever ends, or has no slots left, leaves it."""

    def __init__(self, answers: Sequence[Answer], streams: Sequence[list[int]], rooms: Sequence[int]):
        parts = zip(answers, rooms, streams, strict=True)
        self.members = [Member(answer, request, room, stream) for request, (answer, room, stream) in enumerate(parts)]

    def run(self, steps: int, decide: Decide, seconds: float = SECONDS) -> None:
        until = time.perf_counter() + seconds
        layout: Layout | None = None
        for _ in range(steps):
            going = [member for member in self.members if member.goes_on]
            if not going or time.perf_counter() > until:
                break
            if layout is None or len(going) < len(layout.members) or any(member.changed for member in going):
                layout = Layout(going)
            layout.take(decide(layout.rows, layout.deciding, layout.choices()))
        for member in self.members:
            member.read()


class Layout:
    """The rows of all members, and after which of them lanes decide. They move on as long as all of it is text."""

    def __init__(self, members: Sequence[Member]):
        fresh = [member for member in members if member.changed]
        laid, at = numbers_of([(member.request, member.span) for member in fresh]), 0
        for member in fresh:
            member.lay_out(laid[at : at + member.pending])
            at += member.pending
        self.members = members
        numbers = np.concatenate([member.numbers for member in members])
        self.deciding: list[int] = []
        spans, first = [], 0
        for member in members:
            self.deciding += member.deciding(first)
            spans.append((member.pending, member.request, member.answer.lanes.held + len(member.text)))
            member.numbers = numbers[first : first + member.pending]
            first += member.pending
        self.rows = Rows(numbers, place_spans(spans))
        self._pace = np.repeat(self.rows.spans[1], self.rows.spans[1])
        self._plain = all(member.answer.greedy and not member.answer.scripted for member in members)

    def choices(self) -> list[Choice] | None:
        return None if self._plain else [choice for member in self.members for choice in member.choices]

    def take(self, tokens: list[int]) -> None:
        """Takes the token of each lane; the rows of whoever put text are then those of the next step."""
        at = 0
        for member in self.members:
            count = len(member.answer.lanes.deciding)
            member.take(tokens[at : at + count])
            at += count
        numbers, spans = self.rows
        numbers[self.deciding, TOKEN] = tokens
        numbers[:, POSITION] += 1
        numbers[:, PLACE] += self._pace
        spans[3] += spans[1]
