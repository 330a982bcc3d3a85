"""A request on its way: its interpreter, its threads in the engine, and what to tell of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pasta.core.commands import MAIN, Anew, Command, End, Finish, Fork, Join, Put, Wait
from pasta.core.interpreter import Interpreter, Limits, threads_of
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.tree import Tree
from pasta.core.vocabulary import Detokenizer
from pasta.decoding.events import (
    Ended,
    Event,
    Finished,
    Forked,
    Joined,
    StepOutput,
    TextWritten,
    TokenPut,
    Waiting,
)
from pasta.decoding.results import Result, build_result
from pasta.decoding.stitching import Stitcher
from pasta.engine.base import Engine
from pasta.errors import PastaError


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and how to answer it."""

    prompt: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)
    positions: Positions = field(default_factory=Positions)
    stop: tuple[str, ...] = ()
    script: Tree | None = None  # tokens to put instead of those that the model would choose
    scope: str | None = None  # requests of one scope share the KV of what their prompts begin with; None: with nobody


class Job:
    """A request on its way."""

    def __init__(self, request: Request, engine: Engine):
        self.request = request
        self.interpreter = Interpreter(engine.grammar, engine.vocabulary.eos, request.limits, request.positions)
        self.handles: dict[int, Any] = {}
        self.moments: list[StepOutput] = []
        self.error: PastaError | None = None
        self.begun = time.perf_counter()
        self._engine = engine
        self._stitcher = Stitcher(request.stop)
        self._texts: dict[int, Detokenizer] = {}
        self._unsaid: Counter[int] = Counter()  # thread -> tokens whose text has not been told
        self._in_topic: set[int] = set()
        self._done: list[Command] = []  # carried out, and not yet reported
        self._script = None
        if request.script is not None:
            end = min(engine.vocabulary.eos)
            threads = {
                path: [*ids, end] if path == () else list(ids) for path, ids in threads_of(request.script).items()
            }
            self._script = {path: iter(_decoded(ids, path)) for path, ids in threads.items()}

    @property
    def finished(self) -> bool:
        return self.error is not None or self.interpreter.finish_reason is not None

    @property
    def handle(self) -> Any:
        return self.handles[MAIN]

    def open(self) -> None:
        expect = self.interpreter.begin(len(self.request.prompt))
        self.handles[MAIN] = self._engine.open(self.request.prompt, expect, self.request.sampling, self.request.scope)

    def advance(self, decoded: Sequence[tuple[int, int]]) -> None:
        """Takes what one step decoded, a token for each running thread, and feeds the engine for the next."""
        for thread, token in decoded:
            if self.finished:
                break
            self._carry_out(self.interpreter.feed(thread, self._chosen(thread, token)))

    def report(self) -> StepOutput:
        """What `advance` did, for people: nothing here holds the next step up."""
        events = [event for command in self._done for event in self._told(command)]
        self._done = []
        text = self._stitcher.take()
        if self._stitcher.stopped and not self.finished:
            events += [event for command in self.interpreter.stop("stop") for event in self._told(command)]
        if self.finished:
            text += self._stitcher.finish()
        moment = StepOutput(len(self.moments), time.perf_counter() - self.begun, tuple(events), text)
        self.moments.append(moment)
        return moment

    def forget(self) -> None:
        """In place of `report`, where nobody watches."""
        self._done.clear()

    def result(self) -> Result:
        if self.error is not None:
            raise self.error
        stopped = self._stitcher.text if self._stitcher.stopped else None
        cached = self._engine.cached_tokens(self.handle)
        return build_result(self.interpreter, self.request.prompt, self._engine, self.moments, stopped, cached)

    def _chosen(self, thread: int, token: int) -> int:
        if self._script is None:
            return token
        return next(self._script[self.interpreter.threads[thread].path])

    def _carry_out(self, commands: Sequence[Command]) -> None:
        engine, handles = self._engine, self.handles
        for command in commands:
            match command:
                case Put(thread, token, position, expect):
                    engine.feed(handles[thread], token, position, expect)
                case Fork(parent, child):
                    handles[child] = engine.fork(handles[parent])
                case Join(thread, children, None):
                    engine.join(handles[thread], [handles[child] for child in children])
                case Join(thread, _, Anew(position, tokens)):
                    engine.rewrite(handles[thread], position, tokens)
        self._prepare(commands)
        self._done += commands

    def _prepare(self, commands: Sequence[Command]) -> None:
        """Tells the engine what threads will hold after their syncs, as soon as it is certain."""
        if not self.request.positions.stitched or self.finished:
            return
        for command in commands:
            parent = self.interpreter.threads[command.thread].parent if isinstance(command, End) else None
            anew = None if parent is None else self.interpreter.settled(parent)
            if parent is not None and anew is not None:
                self._engine.prefetch(self.handles[parent], anew.position, anew.tokens)

    def _told(self, command: Command) -> Iterator[Event]:
        """A command as the events that an onlooker gets, in words."""
        vocabulary = self._engine.vocabulary
        match command:
            case Put(thread, token, position, _, inserted):
                yield TokenPut(thread, token, position, inserted)
                yield from self._write(thread, token)
            case Fork(parent, child, topic, length):
                assert vocabulary.tags is not None
                self._in_topic.discard(parent)
                self._stitcher.fork(parent, child)
                yield Forked(parent, child, vocabulary.decode(topic), length * vocabulary.tags.unit)
            case Wait(thread):
                yield Waiting(thread)
            case Join(thread, children):
                yield Joined(thread, children)
            case End(thread, reason):
                yield from self._flush(thread)
                self._stitcher.end(thread)
                yield Ended(thread, reason)
            case Finish(reason):
                yield Finished(reason)

    def _write(self, thread: int, token: int) -> Iterator[TextWritten]:
        tags = self._engine.vocabulary.tags
        if tags is not None and token in tags:
            yield from self._flush(thread)
            if token == tags.promise:
                self._in_topic.add(thread)
        elif thread not in self._in_topic:
            if thread not in self._texts:
                self._texts[thread] = Detokenizer(self._engine.vocabulary)
            self._unsaid[thread] += 1
            if text := self._texts[thread].push(token):
                yield self._say(thread, text)

    def _flush(self, thread: int) -> Iterator[TextWritten]:
        if thread in self._texts:
            text = self._texts.pop(thread).flush()
            if self._unsaid[thread]:
                yield self._say(thread, text)

    def _say(self, thread: int, text: str) -> TextWritten:
        self._stitcher.write(thread, text)
        return TextWritten(thread, text, self._unsaid.pop(thread))


def _decoded(ids: Sequence[int], path: tuple[int, ...]) -> Sequence[int]:
    """What a thread of a script decodes: all of it, but a child's `<async>`, which the interpreter puts."""
    return ids[1:] if path else ids
