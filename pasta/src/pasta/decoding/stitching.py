"""The answer's text in reading order, given out as soon as it is certain.

Threads write at the same time; a reader wants one text. What stands at the front is ready at once, what
stands behind an unfinished block waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pasta.core.commands import MAIN


@dataclass(slots=True)
class _Part:
    """What a thread wrote: texts, and the children that stand between them."""

    pieces: list[str | int] = field(default_factory=list)
    read: int = 0
    done: bool = False


class Stitcher:
    """Puts the threads' texts together, up to the first of the stop strings."""

    def __init__(self, stop: Sequence[str] = ()):
        self.text = ""  # all that was given out
        self.stopped = False
        self._stop = tuple(stop)
        self._hold = max((len(text) for text in stop), default=1) - 1
        self._parts = {MAIN: _Part()}
        self._reading = [MAIN]  # the thread being read, and those around it
        self._held = ""  # certain, but may begin a stop string

    def write(self, thread: int, text: str) -> None:
        self._parts[thread].pieces.append(text)

    def fork(self, parent: int, child: int) -> None:
        self._parts[parent].pieces.append(child)
        self._parts[child] = _Part()

    def end(self, thread: int) -> None:
        self._parts[thread].done = True

    def take(self) -> str:
        """The text that has become ready."""
        if self.stopped:
            return ""
        self._held += self._advance()
        found = [(cut + len(text), cut) for text in self._stop if (cut := self._held.find(text)) >= 0]
        if found:
            self.stopped = True
            return self._give(min(found)[1])  # the first to be complete, whatever the pieces it came in
        return self._give(max(0, len(self._held) - self._hold))

    def finish(self) -> str:
        """What was held back, once nothing more can come."""
        out = self.take()
        return out if self.stopped else out + self._give(len(self._held))

    def _give(self, count: int) -> str:
        out, self._held = self._held[:count], self._held[count:]
        self.text += out
        return out

    def _advance(self) -> str:
        out: list[str] = []
        while self._reading:
            part = self._parts[self._reading[-1]]
            if part.read < len(part.pieces):
                piece = part.pieces[part.read]
                part.read += 1
                if isinstance(piece, str):
                    out.append(piece)
                else:
                    self._reading.append(piece)
            elif part.done:
                self._reading.pop()
            else:
                break
        return "".join(out)
