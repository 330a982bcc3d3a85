"""A request, and a request on its way: its interpreter, its threads in the engine, and what to tell of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pasta.core.commands import MAIN, Anew, Command, Constrain, End, Fork, Join, Put
from pasta.core.interpreter import Interpreter
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.thread import Limits
from pasta.core.tree import Tree, threads_of
from pasta.decoding.drafts import Drafter, Guess
from pasta.decoding.events import StepOutput
from pasta.decoding.program import Conductor, Program, Teller
from pasta.decoding.results import Record, Result, build_result, spans
from pasta.decoding.telling import TextTeller
from pasta.engine.base import Engine, NoRoom
from pasta.errors import PastaError, UsageError

Plays = dict[tuple[int, ...], tuple[int, ...]]  # by a thread's path: what it decodes


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and how to answer it."""

    prompt: tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    positions: Positions = field(default_factory=Positions)
    script: Tree | None = None  # tokens to put instead of those that the model would choose
    cache_salt: str | None = None  # requests of one salt share the KV of what their prompts begin with; None: nobody
    program: Program | None = None  # None: the model's tags make its threads
    in_a_crowd: Request | None = None  # decoded in its place where threads are not worth their tags; None: never

    @property
    def may_fork(self) -> bool:
        """Whether tags of the model's may open threads that decode at once."""
        return self.program is None and not self.params.plain and not self.params.sequential

    @property
    def may_have_threads(self) -> bool:
        return self.program is not None or self.may_fork

    def limits(self, engine: Engine) -> Limits:
        params = self.params
        return Limits(
            max_tokens=params.max_tokens,
            max_threads=1 if params.sequential else params.max_threads,
            max_thread_tokens=params.max_thread_tokens,
            context=engine.context,
            max_segments=engine.max_segments,
        )


class RequestState:
    """A request on its way.

    The journal holds all that the interpreter asked of the engine. A request that lost its place in the engine is
    computed again from it, and goes on where it was.
    """

    def __init__(self, request: Request, engine: Engine, *, watched: bool = True):
        self.engine = engine
        self.handles: dict[int, Any] = {}  # by thread; empty while the request has no place in the engine
        self.error: PastaError | None = None
        self.refused: PastaError | None = None  # in place of a token: why none could be chosen
        self.done = threading.Event()  # set once, when it has ended and the engine holds nothing of it
        self.begun = time.perf_counter()
        self.watched = watched or bool(request.params.stop)
        self.crowded = False  # whether it gave up its threads
        self._begin(request)

    def _begin(self, request: Request) -> None:
        """Nothing of it is written yet."""
        engine = self.engine
        self.request = request
        self.interpreter: Conductor = _interpreter(request, engine)
        self.record = Record(logprobs=None if request.params.logprobs is None else {})
        self._first = self.interpreter.begin(len(request.prompt))
        self.journal: list[Command] = self.interpreter.opening()
        self.record.marks = [len(self.journal)]
        self._carried_out = 0  # commands of the journal that the engine knows
        self._reported = 0  # commands of the journal that were told of
        self._held = len(request.prompt)  # slots that what was carried out takes
        self.growth = _slots(self.journal)  # that the engine must have for what is not carried out yet
        self._told: Teller = TextTeller(self) if request.program is None else request.program.teller(self)
        self._drafter = _drafter(request, engine)
        self._deciding: list[Put] = []  # after which the next step decides
        self._script = None if request.script is None else _plays(request.script, min(engine.vocabulary.eos))
        self._playing: list[Iterator[int]] = []  # by thread

    def give_up_threads(self) -> None:
        """Is from its beginning the request that it names for a crowd."""
        if self.request.in_a_crowd is None or self.record.steps:
            raise ValueError("expected a request that names another for a crowd, before its first step")
        self.crowded = True
        self._begin(self.request.in_a_crowd)

    @property
    def text_tokens(self) -> int:
        """Of the tokens of its threads, those that are neither tags nor topics."""
        tags, threads = self.engine.vocabulary.tags, self.interpreter.threads
        known = frozenset() if tags is None else tags.all
        return sum(sum(token not in known for token in each.tokens) - len(each.topic) for each in threads)

    @property
    def finished(self) -> bool:
        return self.error is not None or self.interpreter.finish_reason is not None

    @property
    def size(self) -> int:
        """The KV slots that it needs to hold what it has so far."""
        return self._held + self.growth

    # -- in the engine ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Takes a place in the engine: the prompt, and whatever was decoded before the place was lost."""
        request, engine = self.request, self.engine
        last = {command.thread: i for i, command in enumerate(self.journal) if isinstance(command, Put)}
        decoding = {thread.id: thread.awaits for thread in self.interpreter.threads if thread.decodes}
        first = self._first if MAIN in decoding and MAIN not in last else None
        self.handles[MAIN] = engine.open(request.prompt, first, request.params, request.cache_salt)
        if request.script is not None:
            engine.play(self.handles[MAIN], self._left_to_play(request.script))
        if self.record.steps == 0:
            self.record.queued_s = time.perf_counter() - self.begun
            self.record.cached_tokens = engine.cached_tokens(self.handles[MAIN])
        awaited = {last[thread] for thread in decoding if thread in last}
        for index in range(len(self.journal) - 1, -1, -1) if max(decoding.values(), default=1) > 1 else ():
            command = self.journal[index]
            if isinstance(command, Put) and command.expect is not None and decoding.get(command.thread, 0) > 0:
                awaited.add(index)
                decoding[command.thread] -= 1
        feed, handles = engine.feed, self.handles
        for index, command in enumerate(self.journal):
            if type(command) is Put:  # most are
                thread, token, position, expect, _ = command
                feed(handles[thread], token, position, expect if index in awaited else None)
            else:
                self._carry_out(command)
        self._settle()

    def advance(self, tokens: Sequence[tuple[int, int]]) -> None:
        """Takes what one step decoded, by thread: a token for each that runs."""
        record, interpreter = self.record, self.interpreter
        fresh: list[Command] = []
        try:
            if self._script is not None:
                tokens = self._scripted(self._script, tokens)
            if type(interpreter) is Interpreter:  # most are
                interpreter.feed_all(tokens, fresh)
            else:
                _feed_each(interpreter, tokens, fresh)
            if self.refused is not None and interpreter.finish_reason is None:
                refused, self.refused = self.refused, None
                if not isinstance(refused, NoRoom):
                    raise refused
                fresh += interpreter.cut("length")
        except PastaError as error:  # of this request alone
            self.error = error
        except ValueError as error:
            if self._script is None:
                raise
            self.error = _unplayable(error)
        self.journal += fresh
        self.growth += _slots(fresh)
        if self._drafter is not None:
            _teach(self._drafter, fresh)
        record.marks.append(len(self.journal))
        record.seconds = time.perf_counter() - self.begun

    def cut(self) -> None:
        """The engine has no room for more of it, though nobody else is there."""
        self.journal += self.interpreter.cut("length")

    def carry_out(self) -> None:
        """Feeds the engine for the next step."""
        commands, feed, handles = self.journal[self._carried_out :], self.engine.feed, self.handles
        if self._drafter is None:
            for command in commands:
                if type(command) is Put:  # most are
                    thread, token, position, expect, _ = command
                    feed(handles[thread], token, position, expect)
                else:
                    self._carry_out(command)
        else:  # a step may have decided several tokens of a thread: after all but the last of them it is decided
            last = {command.thread: command for command in commands if isinstance(command, Put)}
            for command in commands:
                self._carry_out(command, decode=not isinstance(command, Put) or last[command.thread] is command)
            self._deciding = [put for put in last.values() if put.expect is not None and put.expect.is_text]
        if self.request.positions.stitched:
            self._prefetch(commands)
        self._settle()

    @property
    def drafts(self) -> bool:
        """Whether it guesses ahead at all."""
        return self._drafter is not None

    def guesses(self, least_odds: float) -> list[tuple[Put, Guess]]:
        """How its threads may go on after their last tokens, as far as the odds are better than these."""
        if self._drafter is None or not self.handles:
            return []
        left = self.request.params.max_tokens - self.interpreter.sampled
        found = []
        for put in self._deciding:
            room = self.engine.context - self.interpreter.threads[put.thread].position
            guess = self._drafter.draft(put.thread, min(left, room), least_odds)
            if guess.tokens:
                found.append((put, guess))
        return found

    def draft(self, put: Put, guess: Guess) -> None:
        """Has the next step check a guess."""
        self.engine.draft(self.handles[put.thread], self.interpreter.threads[put.thread].position, guess.tokens)

    def _carry_out(self, command: Command, *, decode: bool = True) -> None:
        engine, handles = self.engine, self.handles
        match command:
            case Put(thread, token, position, expect):
                engine.feed(handles[thread], token, position, expect if decode else None)
            case Fork(parent, child):
                handles[child] = engine.fork(handles[parent])
            case Constrain(thread, constraint):
                engine.constrain(handles[thread], constraint)
            case Join(thread, children, None):
                engine.join(handles[thread], [handles[child] for child in children])
            case Join(thread, _, Anew(position, tokens)):
                engine.rewrite(handles[thread], position, tokens)

    def _settle(self) -> None:
        """The engine knows all of the journal."""
        self._carried_out = len(self.journal)
        self._held, self.growth = self._held + self.growth, 0

    def _prefetch(self, commands: Sequence[Command]) -> None:
        """Layout `stitched`: tells the engine what threads will hold after their syncs, as soon as it is certain."""
        if self.finished:
            return
        for command in commands:
            parent = self.interpreter.threads[command.thread].parent if isinstance(command, End) else None
            anew = None if parent is None else self.interpreter.settled(parent)
            if parent is not None and anew is not None:
                self.engine.prefetch(self.handles[parent], anew.position, anew.tokens)

    def _left_to_play(self, script: Tree) -> Plays:
        played = {thread.path: thread.sampled + len(thread.held) for thread in self.interpreter.threads}
        plays = _plays(script, min(self.engine.vocabulary.eos))
        return {path: ids[played.get(path, 0) :] for path, ids in plays.items()}

    def _scripted(self, script: Plays, tokens: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """What the script says in place of what was decoded."""
        playing = self._playing
        playing += [iter(script.get(thread.path, ())) for thread in self.interpreter.threads[len(playing) :]]
        try:
            return [(thread, next(playing[thread])) for thread, _ in tokens]
        except StopIteration:
            raise _unplayable("a thread goes on after its end") from None

    # -- for people -----------------------------------------------------------------------------------------

    def report(self) -> StepOutput:
        """What the last step did. Nothing here holds the next step up."""
        output = self._told.report(self, self.journal[self._reported :])
        self._reported = len(self.journal)
        self.record.outputs.append(output)
        return output

    def stop(self, reason: str) -> Sequence[Command]:
        commands = self.interpreter.stop(reason)
        self.journal += commands
        self._reported = len(self.journal)
        return commands

    def result(self) -> Result:
        if self.error is not None:
            raise self.error
        self.record.spans = spans(self.journal, self.record.marks)
        if self.request.program is not None:
            return self.request.program.result(self)
        assert isinstance(self.interpreter, Interpreter)
        return build_result(self.request.prompt, self.interpreter, self.record, self.engine, self._told.stopped_text)


def _interpreter(request: Request, engine: Engine) -> Conductor:
    if request.program is not None:
        return request.program.interpreter(request, engine)
    return Interpreter(
        engine.grammar,
        engine.vocabulary.eos,
        request.limits(engine),
        request.positions,
        promises=not request.params.plain,
        ends=frozenset(request.params.stop_token_ids) - engine.vocabulary.eos,
    )


def _feed_each(interpreter: Conductor, tokens: Iterable[tuple[int, int]], out: list[Command]) -> None:
    """Feeds what one step decoded, up to the token that ends the answer."""
    for thread, token in tokens:
        if interpreter.finish_reason is not None:
            break
        out += interpreter.feed(thread, token)
    out += interpreter.after_step()


def _drafter(request: Request, engine: Engine) -> Drafter | None:
    """Where drafts are wanted and can be. A penalty on repetition leaves nothing to guess by repetition."""
    params = request.params
    wanted = engine.drafts if params.drafts is None else params.drafts
    own_words = request.script is None and request.program is None and params.repetition_penalty == 1
    if not (wanted and own_words) or engine.row_cost is None:
        return None
    tags = engine.vocabulary.tags
    return Drafter(request.prompt, engine.vocabulary.eos | (tags.all if tags is not None else frozenset()))


def _teach(drafter: Drafter, commands: Sequence[Command]) -> None:
    """Tells it what the threads did."""
    for command in commands:
        if type(command) is Put:
            drafter.put(command.thread, command.token)
        elif isinstance(command, Fork):
            drafter.fork(command.parent, command.child)


def _slots(commands: Sequence[Command]) -> int:
    """How many slots these take."""
    slots = list(map(type, commands)).count(Put)
    if slots < len(commands):  # most often all are tokens
        slots += sum(len(each.anew.tokens) for each in commands if isinstance(each, Join) and each.anew is not None)
    return slots


def _unplayable(why: object) -> UsageError:
    return UsageError(f"the script cannot be played: {why}", "pass a merged, well-formed response")


def _plays(script: Tree, end: int) -> Plays:
    """What each thread of a script decodes: all of it, but a child's `<async>`, which the interpreter puts."""
    return {path: tuple(ids[1:]) if path else (*ids, end) for path, ids in threads_of(script).items()}
