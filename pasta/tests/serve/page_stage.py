"""What the page's tests share: a server whose model answers what it is told to, and what a visitor does."""

from __future__ import annotations

import threading
from typing import Any

from serve_support import Running

from pasta.core.tree import spell, threads_of
from pasta.lang import parse
from support import PilotedEngine

WIDTHS = (320, 390, 768, 1280)
FORKING = """Sleep well. Here is **what helps**:

1.<promise topic="A steady routine" tokens=3/><async> **A steady routine**: the same hours.</async>

2.<promise topic="No distractions" tokens=3/><async> No `TV` before *bed*, and a dark room.
   - Plugs
   - Noise</async>

3.<promise topic="Less alcohol" tokens=3/><async> **Less <b>alcohol</b>**.</async>

Good night."""
FLAT = "It was Shakespeare, and *nobody* else: 2 * 3 is six."


class Stage:
    """A server whose model answers what it is told to, as far as it is let."""

    def __init__(self, running: Running, engine: PilotedEngine):
        self.running = running
        self.engine = engine
        self.url = running.url
        self._step = engine.step
        self._may_end = threading.Event()
        self._may_end.set()
        engine.step = self._hold  # type: ignore[method-assign]
        self.steps = 10**9  # that it may take before it waits to be let go

    def play(self, annotated: str, steps: int | None = None) -> None:
        """The answer to whatever is asked next, held after so many steps."""
        end = min(self.engine.vocabulary.eos)
        threads = threads_of(spell(parse(annotated), self.engine.vocabulary))
        tokens = {path: [*ids[1:]] if path else [*ids, end] for path, ids in threads.items()}
        self.engine.pilot = lambda path, index: dict(enumerate(tokens.get(path, ()))).get(index)  # type: ignore
        if steps is not None:
            self.hold(steps)

    def hold(self, steps: int) -> None:
        """After so many steps it stands still until `go`."""
        self.steps = steps
        self._may_end.clear()

    def go(self) -> None:
        self._may_end.set()

    def _hold(self) -> Any:
        self.steps -= 1
        if self.steps < 0:
            self._may_end.wait(120)
        return self._step()


def ask(page, question: str = "Why?") -> None:
    page.fill("#prompt", question)
    page.press("#prompt", "Enter")


def finish(page, turn: int = 0) -> None:
    page.locator(".turn").nth(turn).locator(".actions").wait_for(timeout=120_000)


def no_sideways_scroll(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
