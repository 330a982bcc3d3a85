"""The answer's text in reading order, given out as soon as it is certain.

Threads write at the same time; a reader wants one text. What stands at the front is ready at once, what
stands behind an unfinished block waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pasta.core.commands import MAIN
from pasta.core.detokenizer import HALF, Detokenizer, without_lead
from pasta.core.thread import Status, Thread
from pasta.core.tree import Block, Tree
from pasta.core.vocabulary import Vocabulary

DONE = Status.DONE


class Stitcher:
    """Reads the threads' texts in reading order, up to the first of the stop strings.

    The threads are the interpreter's own: what they hold, and which are done, is looked up when it is their turn.
    `lead` are spaces that the text does not begin with, although its tokens may: see `Vocabulary.lead`.
    """

    def __init__(self, threads: Sequence[Thread], vocabulary: Vocabulary, stop: Sequence[str] = (), *, lead: str = ""):
        self.stopped = False
        self._stop = tuple(stop)
        self._hold = max((len(text) for text in stop), default=1) - 1
        self._threads = threads
        self._octets, tags = vocabulary.octets, vocabulary.tags
        self._tag_ids, self._promise = (tags.all, tags.promise) if tags is not None else (frozenset[int](), -1)
        self._reading = [(MAIN, 0)]  # the thread being read and those around it, and the token at which each stands
        self._in_topic = False
        self._run = Detokenizer(self._octets, lead)  # of text between tags
        self._held = ""  # certain, but may begin a stop string
        self._given: list[str] = []

    @property
    def text(self) -> str:
        """All that was given out."""
        return "".join(self._given)

    def take(self) -> str:
        """The text that has become ready."""
        if self.stopped:
            return ""
        fresh = self._advance()
        if not self._stop and not self._held and fresh[-1:] != HALF:  # nothing is to be held back
            self._given.append(fresh)
            return fresh
        self._held += fresh
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
        self._given.append(out)
        return out

    def _advance(self) -> str:
        """The text of the tokens that have become certain."""
        if self._reading:
            number, index = self._reading[-1]
            thread = self._threads[number]
            if thread.status is not DONE and not self._in_topic:  # most often it wrote one more token, or none
                more = thread.tokens[index:]
                if not more:
                    return ""
                if len(more) == 1 and more[0] not in self._tag_ids:
                    self._reading[-1] = (number, index + 1)
                    return self._run.push(more[0])
        out: list[str] = []
        while self._reading:
            number, index = self._reading[-1]
            thread = self._threads[number]
            tokens, tags, child = thread.tokens, self._tag_ids, None
            while child is None and index < len(tokens):
                start = index
                while index < len(tokens) and tokens[index] not in tags:
                    index += 1
                if start < index and not self._in_topic:
                    out.append(self._run.push_all(tokens[start:index]))
                if index < len(tokens):
                    out.append(self._end_run())
                    self._in_topic = tokens[index] == self._promise
                    child = thread.blocks.get(index)
                    index += 1
            self._reading[-1] = (number, index)
            if child is not None:
                self._reading.append((child, 0))
            elif thread.status is DONE:
                out.append(self._end_run())
                self._reading.pop()
            else:
                break
        return "".join(out)

    def _end_run(self) -> str:
        text, self._run = self._run.flush(), Detokenizer(self._octets)
        return text


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
