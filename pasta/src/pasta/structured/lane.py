"""A value on its way, and how its thread begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pasta.core.thread import Status, Thread
from pasta.core.vocabulary import Vocabulary
from pasta.structured.errors import ConstraintError
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.plan import Kind, Value
from pasta.structured.scanner import GateScanner, Scanner


@dataclass(frozen=True, slots=True, eq=False)
class Beginning:
    """What a value's thread puts before it decodes anything, and where the value stands then."""

    context: tuple[int, ...]  # tokens of the text that it sees
    forced: tuple[int, ...]  # tokens about which the schema leaves no choice
    written: bytes  # by those
    held: bytes  # all that the thread then holds, after the prompt
    matcher: Matcher
    scanner: Scanner | GateScanner
    whole: bytes | None = None  # the value, where nothing of it is left to decide: nothing is put then

    @property
    def before(self) -> bytes:
        """The text up to the value, where something of it is left to decide."""
        return self.held[: len(self.held) - len(self.written)]


def new_scanner(value: Value) -> Scanner | GateScanner:
    return GateScanner() if value.kind is Kind.GATE else Scanner()


def begin(value: Value, matcher: Matcher, before: bytes, held: bytes, grammars: Grammars) -> Beginning:
    """`before` is the text up to the value, of which the thread holds the first bytes already."""
    matcher = matcher.copy()
    scanner = new_scanner(value)
    forced = matcher.forced()
    end = scanner.copy().push(forced)
    if end is not None:
        return Beginning((), (), b"", held, matcher, scanner, forced[:end])
    tokens = matcher.forced_tokens() if forced else []
    written = b"".join(grammars.vocabulary.octets[token] for token in tokens)
    if len(written) < len(forced) and forced.endswith(b'"'):
        # A string begins. The library waits for a token that goes on after the quote; those are rare, and cost a step.
        quote = grammars.encode(forced[len(written) :])
        for token in quote:
            matcher.consume(token)
        tokens, written = [*tokens, *quote], forced
    scanner.push(written)
    context = tuple(grammars.encode(before[len(held) :]))
    return Beginning(context, tuple(tokens), written, before + written, matcher, scanner)


@dataclass(slots=True, eq=False)
class Lane:
    """A value on its way."""

    value: Value
    thread: Thread | None = None
    matcher: Matcher | None = None  # once it decodes
    scanner: Scanner | GateScanner | None = None
    status: Status = Status.QUEUED
    held: bytes = b""  # what its thread holds after the prompt
    written: bytes = b""  # of the value, its lead included
    said: str | None = None  # once it is done; None: left out
    sampled: int = 0  # tokens decoded
    forced: int = 0  # tokens that were put without being decoded
    closed: bool = False  # a limit ended it
    before: bytes = b""  # the text up to it, as it saw that
    guess: bool = False  # it sees what others may not say in the end: nobody is told of it
    chosen: list[int] = field(default_factory=list)  # tokens decoded, where somebody may guess by them
    ahead: deque[int] = field(default_factory=deque)  # tokens that its thread holds, and that are not decided yet
    likely: bytes | None = None  # what its thread holds with these, if they make it whole; it then says what `said` is

    def decode(self, beginning: Beginning) -> None:
        """Takes over where the value stands."""
        self.matcher, self.scanner = beginning.matcher.copy(), beginning.scanner.copy()
        self.held, self.written, self.forced = beginning.held, beginning.written, len(beginning.forced)

    def decode_all(self, matcher: Matcher) -> None:
        """Decodes the value from its very first byte: there is no token that could be put before."""
        self.matcher, self.scanner = matcher.copy(), new_scanner(self.value)

    def take(self, token: int, vocabulary: Vocabulary) -> tuple[list[int], bytes | None]:
        """Goes on by a token that was decided: what to put, that token first; or its last bytes, where it is whole."""
        assert self.matcher is not None and self.scanner is not None
        if token in vocabulary.eos:
            self.matcher.end()
            return [], b""
        octets = vocabulary.octets
        piece = octets[token]
        end = self.scanner.push(piece)
        if end is not None:
            return [], piece[:end]
        self.matcher.consume(token)
        forced = self.matcher.forced()
        end = self.scanner.copy().push(forced) if forced else None
        if end is not None:  # nothing of the value is left to decide
            return [], piece + forced[:end]
        tokens = [token, *(self.matcher.forced_tokens() if forced else ())]
        self.forced += len(tokens) - 1
        for each in tokens[1:]:
            self.scanner.push(octets[each])
        self.matcher.in_long_number = self.scanner.in_long_number
        text = b"".join([octets[each] for each in tokens])
        self.written += text
        self.held += text
        return tokens, None

    @property
    def holds(self) -> bytes:
        """What its thread holds after the prompt, guesses included."""
        return self.held if self.likely is None else self.likely

    def end(self, last: bytes) -> bytes:
        """The value is whole with these bytes; returns them as it takes them."""
        if self.value.kind is Kind.GATE:
            last = b"{" if last.endswith(b"{") else b"null"
        self.written += last
        said = self.written.decode().strip()
        if not said:
            raise ConstraintError(f"no value fits the schema at {self.value.pointer or 'its root'}")
        self.said = None if self.value.optional and said == "null" else said
        return last

    def count(self) -> None:
        """A token was decided."""
        self.sampled += 1
        if self.thread is not None:
            self.thread.sampled += 1

    def move(self, status: Status, reason: str = "") -> None:
        self.status = status
        if self.thread is not None:
            self.thread.status, self.thread.reason = status, reason


def is_closed(lane: Lane, lanes: Sequence[Lane]) -> bool:
    """Whether a value is not there: its gates have said `null`, or its array has fewer elements. They must be done."""
    gates = (lanes[gate] for gate in lane.value.gates)
    if any(gate.value.kind is Kind.GATE and gate.said != "{" for gate in gates):
        return True
    return any(int(lanes[count].said or 0) <= element for count, element in lane.value.elements)
