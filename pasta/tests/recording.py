"""Keeps what an engine was told, so that a request can be computed again up to any step, as after a preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.engine.base import Decoded, Engine
from pasta.engine.native import NativeEngine

Path = tuple[int, ...]


@dataclass(eq=False)
class Told:
    """All calls for one request, threads named by their paths; `steps` says how many calls came before each step."""

    prompt: Sequence[int]
    expect: Expect | None
    params: SamplingParams
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    chosen: list[dict[Path, int]] = field(default_factory=list)  # by step

    def deciding(self, step: int) -> dict[Path, Expect]:
        """The threads that decide in a step, each with what may come."""
        last: dict[Path, Expect | None] = {(): self.expect}
        for name, path, *arguments in self.calls[: self.steps[step]]:
            if name == "feed":
                last[path] = arguments[2]
        return {path: expect for path, expect in last.items() if path in self.chosen[step] and expect is not None}

    def tell(self, engine: Engine, step: int) -> dict[Path, Any]:
        """Opens the request in another engine as it stood before a step; returns its threads."""
        deciding = self.deciding(step)
        last = {call[1]: index for index, call in enumerate(self.calls[: self.steps[step]]) if call[0] == "feed"}
        threads = {(): engine.open(self.prompt, None if () in last else deciding.get(()), self.params)}
        for index, (name, path, *arguments) in enumerate(self.calls[: self.steps[step]]):
            if name == "feed":
                arguments[2] = deciding.get(path) if last[path] == index else None
            play(engine, threads, name, path, *arguments)
        return threads

    def go_on(self, engine: Engine, threads: dict[Path, Any], step: int) -> None:
        """Tells another engine what came between this step and the next."""
        for call in self.calls[self.steps[step] : self.steps[step + 1]]:
            play(engine, threads, *call)


def play(engine: Engine, threads: dict[Path, Any], name: str, path: Path, *arguments: Any) -> None:
    thread = threads[path]
    if name == "feed":
        engine.feed(thread, *arguments)
    elif name == "fork":
        child = engine.fork(thread)
        threads[child.path] = child
    elif name == "join":
        engine.join(thread, [threads[child] for child in arguments[0]])
    else:
        engine.rewrite(thread, *arguments)


class Recorded(NativeEngine):
    """A mixin: keeps all that it is told in `told`, by request."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.told: dict[Any, Told] = {}
        self._rewriting = False

    def open(self, prompt: Any, expect: Any, params: Any, cache_salt: Any = None) -> Any:
        thread = super().open(prompt, expect, params, cache_salt)
        self.told[thread.request] = Told(prompt, expect, params)
        return thread

    def feed(self, thread: Any, *arguments: Any) -> None:
        super().feed(thread, *arguments)
        if not self._rewriting:
            self._keep("feed", thread, *arguments)

    def fork(self, thread: Any) -> Any:
        self._keep("fork", thread)
        return super().fork(thread)

    def join(self, thread: Any, children: Any) -> None:
        self._keep("join", thread, [child.path for child in children])
        super().join(thread, children)

    def rewrite(self, thread: Any, *arguments: Any) -> None:
        self._keep("rewrite", thread, *arguments)
        self._rewriting = True
        super().rewrite(thread, *arguments)
        self._rewriting = False

    def step(self) -> list[Decoded]:
        before = {request: len(told.calls) for request, told in self.told.items()}
        out = super().step()
        for request in {decoded.thread.request for decoded in out}:
            told = self.told[request]
            told.steps.append(before[request])
            told.chosen.append({each.thread.path: each.token for each in out if each.thread.request is request})
        return out

    def _keep(self, name: str, thread: Any, *arguments: Any) -> None:
        self.told[thread.request].calls.append((name, thread.path, *arguments))
