"""The answer's text in reading order, given out as soon as it is certain.

Threads write at the same time; a reader wants one text. What stands at the front is ready at once, what
stands behind an unfinished block waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pasta.core.commands import MAIN
from pasta.core.detokenizer import HALF, without_lead
from pasta.core.tree import Block, Tree
from pasta.core.vocabulary import Vocabulary


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
        # A character that is not whole, at the end of what is certain, may still be dropped by a cut.
        return self._give(len(self._held[: max(0, len(self._held) - self._hold)].rstrip(HALF)))

    def finish(self, text: str | None = None) -> str:
        """What was held back, once nothing more can come. `text` is the whole answer where it was cut."""
        if text is not None:
            self._held = text[len(self.text) :]
            self._reading.clear()
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


def text_of(tree: Tree, vocabulary: Vocabulary, prompt: Sequence[int] = (), *, cut: bool = False) -> str:
    """The text of an answer to a prompt. Where it was cut, characters at its end that are not whole are left out."""
    runs: list[list[int]] = [[]]  # tokens of text between tags
    tags = vocabulary.tags

    def walk(items: Tree) -> None:
        topic = False
        for item in items:
            if isinstance(item, Block):
                walk(item.items)
            elif tags is not None and item in tags:
                topic = item == tags.promise
                runs.append([])
            elif not topic:
                runs[-1].append(item)

    walk(tree)
    text = without_lead(vocabulary.decode(runs[0]), vocabulary.lead(prompt))
    text += "".join(map(vocabulary.decode, runs[1:]))
    return text.rstrip(HALF) if cut else text
