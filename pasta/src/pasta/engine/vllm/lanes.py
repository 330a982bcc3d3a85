"""One answer as one request: its threads are lanes of a single stream of tokens.

vLLM knows a request as a list of tokens, and computes those that it has not computed yet. So the stream holds, step by
step, the token that each deciding lane chose, in order, and then what the interpreter put beside them: `<async>`, the
`<sync/>` of a thread that joins, and tokens that waited for their turn. Every token of the stream has a slot of the KV
cache. One that no thread put (a withheld `<sync/>`, the end of a thread that waits) is seen by nobody.

Lanes are a function of the prompt's length, the interpreter's limits and the stream: whoever reads the same stream,
in the worker, in another rank or after a preemption, comes to the same segments and positions.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from pasta.core.commands import MAIN, Command, Fork, Join, Put
from pasta.core.grammar import Expect
from pasta.core.interpreter import Interpreter
from pasta.core.runs import feed_text, text_steps
from pasta.core.segments import SegmentTable, Thread
from pasta.core.tags import Tags
from pasta.errors import PastaError

WORDS = 16  # of 32 bits: the segments that an answer may have
ROOT, NOBODY = 0, 1  # segments: the prompt with what follows up to the first fork, and tokens that no thread put


class Lane(NamedTuple):
    """A token after which a thread decides."""

    thread: int
    expect: Expect
    place: int  # in the request, the prompt included
    position: int


class Lanes:
    """The threads of one request. `end` is a token that ends a response: twice in a row, it ends the stream."""

    def __init__(self, prompt_length: int, interpreter: Interpreter, end: int):
        self.prompt_length = prompt_length
        self.interpreter = interpreter
        self.end = end
        self.table = SegmentTable()
        self._threads = {MAIN: Thread(self.table)}
        self.table.root()  # NOBODY
        self.tokens, self.positions, self.segments = (array("i") for _ in range(3))  # of the stream
        last = prompt_length - 1
        self.deciding = [Lane(MAIN, interpreter.begin(prompt_length), last, last)]
        self._words: list[bytes] = []
        self._own: dict[int, int] = {}  # by thread: where the stream has the token that it chose in this step

    @property
    def held(self) -> int:
        """How many tokens the request has, the prompt's included."""
        return self.prompt_length + len(self.tokens)

    @property
    def finished(self) -> bool:
        return self.interpreter.finish_reason is not None

    def take(self, chosen: Sequence[int]) -> list[int]:
        """Takes the token of each deciding lane, in order; returns what the stream goes on with."""
        lanes, self.deciding = self.deciding, []
        start = len(self.tokens)
        self.tokens.extend(chosen)  # nobody's, until they are put
        self.positions.extend([0] * len(chosen))
        self.segments.extend([NOBODY] * len(chosen))
        self._own = {lane.thread: start + index for index, lane in enumerate(lanes)}
        feed = self.interpreter.feed
        for lane, token in zip(lanes, chosen, strict=True):
            if self.finished:
                break
            for command in feed(lane.thread, token):
                if type(command) is Put:  # most are
                    self._put(command)
                else:
                    self._carry_out(command)
        if self.finished:
            return [*chosen, self.end, self.end]
        return self.tokens[start:].tolist()

    def text_steps(self) -> int:
        """For how many steps each lane may put text, and those tokens are all that the stream goes on with."""
        return text_steps(self.interpreter, [lane.thread for lane in self.deciding])

    def is_steady(self, start: int) -> bool:
        """Whether all that the request holds from a place on are its lanes, in order, and each goes on right behind.

        Not so after a promise: the next token is of another segment, and further on.
        """
        own, prompt = self.segments, self.prompt_length
        return len(self.deciding) == self.held - start and all(
            lane.place == place
            and lane.position + 1 == self.interpreter.threads[lane.thread].position
            and own[place - prompt] == self._threads[lane.thread].segment
            for place, lane in enumerate(self.deciding, start)
        )

    def take_text(self, tokens: Sequence[int]) -> None:
        """Takes a token of each lane, step by step, for at most `text_steps` steps: of lanes that are steady."""
        lanes, count = self.deciding, len(self.deciding)
        steps = len(tokens) // count
        feed_text(self.interpreter, [lane.thread for lane in lanes], tokens)
        self.tokens.extend(tokens)
        self.positions.extend([lane.position + step for step in range(1, steps + 1) for lane in lanes])
        self.segments.extend([self._threads[lane.thread].segment for lane in lanes] * steps)
        last = self.held - count
        self.deciding = [
            Lane(lane.thread, lane.expect, last + index, lane.position + steps) for index, lane in enumerate(lanes)
        ]

    def cut(self) -> list[int]:
        """Ends the stream where it is: the request has no room for more."""
        self.interpreter.cut("length")
        return [self.end, self.end]

    def words(self) -> list[bytes]:
        """By segment: the bit set of those that it sees, in `WORDS` words."""
        words = self._words
        words += [seen.to_bytes(4 * WORDS, "little") for seen in self.table.sees[len(words) :]]
        return words

    def read(self, stream: Sequence[int]) -> None:
        """Takes in a stream that was decoded before."""
        place = 0
        while place < len(stream):
            count = len(self.deciding)
            expected = self.take(stream[place : place + count])
            if list(stream[place : place + len(expected)]) != expected:
                raise PastaError(f"the stream does not follow from its own tokens at place {place}")
            place += len(expected)

    def _put(self, command: Put) -> None:
        thread, token, position, expect, _ = command
        segment = self._threads[thread].segment
        index = self._own.pop(thread, None)
        if index is not None and is_own(self.tokens[index], token, self.interpreter.tags):
            self.positions[index], self.segments[index] = position, segment
        else:
            index = len(self.tokens)
            self.tokens.append(token)
            self.positions.append(position)
            self.segments.append(segment)
        if expect is not None:
            self.deciding.append(Lane(thread, expect, self.prompt_length + index, position))

    def _carry_out(self, command: Command) -> None:
        match command:
            case Fork(parent, child):
                self._threads[child] = self._threads[parent].fork()
            case Join(thread, children):
                self._threads[thread].join([self._threads[child] for child in children])


def is_own(chosen: int, token: int, tags: Tags | None) -> bool:
    """Whether a token that is put is the one that its thread chose in this step, and stays in its place.

    A `<sync/>` never does: it sees its children's last tokens, which may stand after it.
    """
    return token == chosen and (tags is None or token != tags.sync)
