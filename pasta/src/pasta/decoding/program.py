"""What makes the threads of an answer: the tags that a model puts, or a plan that was there before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pasta.core.commands import Anew, Command
from pasta.core.grammar import Expect
from pasta.core.thread import Thread
from pasta.core.tree import Tree
from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.engine.base import Engine


class Conductor(Protocol):
    """A state machine of threads, as a request on its way drives it; see `pasta.core.interpreter.Interpreter`."""

    threads: list[Thread]
    finish_reason: str | None
    sampled: int

    @property
    def running(self) -> list[int]: ...

    @property
    def wanted(self) -> int: ...

    @property
    def whole(self) -> bool: ...

    def begin(self, prompt_length: int) -> Expect | None:
        """Opens the main thread; what may come first in it, None where it decodes nothing."""

    def opening(self) -> list[Command]:
        """What is to be done before the first step."""

    def feed(self, thread_id: int, token: int) -> list[Command]: ...

    def after_step(self) -> list[Command]:
        """All that a step decided was fed."""

    def cut(self, reason: str) -> list[Command]: ...

    def stop(self, reason: str) -> list[Command]: ...

    def allot(self, width: int) -> None: ...

    def settled(self, thread_id: int) -> Anew | None: ...

    def tree(self, thread_id: int = 0) -> Tree: ...


class Teller(Protocol):
    """Turns commands into what people are told."""

    @property
    def stopped_text(self) -> str | None: ...

    def report(self, state: Any, commands: Sequence[Command]) -> StepOutput:
        """What the commands of a step of this `RequestState` are to whoever watches it."""


class Program(Protocol):
    """What an answer is made by, where that is not the model's own tags. A state is a `RequestState`."""

    def interpreter(self, request: Any, engine: Engine) -> Conductor: ...

    def teller(self, state: Any) -> Teller: ...

    def result(self, state: Any) -> Result: ...
