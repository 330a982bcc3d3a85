"""The front: an engine whose threads are decoded by vLLM, each answer as one request.

The workers run the same interpreter. What comes back is the stream of lanes, which this engine reads along with the
interpreter that drives it: it knows which threads decide, so it knows whose each token is.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect, Grammar
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import UNLIMITED, Decoded, NoRoom, Script
from pasta.engine.vllm.lanes import WORDS, is_own
from pasta.engine.vllm.terms import Terms
from pasta.errors import PastaError, UsageError

STREAM_END = 3  # places of a request that an answer cannot have: what may be put beside its last token, and the end


class Output(NamedTuple):
    """What vLLM says of a request: tokens that came, and whether they are the last."""

    request: str
    tokens: Sequence[int]
    ended: bool


class Core(Protocol):
    """vLLM's engine, as little of it as is needed."""

    max_model_len: int  # tokens that a request may have

    def add(self, request: str, prompt: Sequence[int], terms: str, cache_salt: str | None) -> None: ...

    def abort(self, request: str) -> None: ...

    def step(self) -> Iterable[Output]:
        """Waits for what comes next."""

    def check(self) -> None:
        """Raises where it has ended."""


@dataclass(slots=True, eq=False)
class Request:
    """One answer on its way, and how far its stream was read."""

    name: str
    prompt: tuple[int, ...]
    params: SamplingParams
    cache_salt: str | None
    script: Script | None = None
    deciding: list[Handle] = field(default_factory=list)  # in the order of the stream
    chosen: dict[Handle, int] = field(default_factory=dict)  # what each chose in the last step, until it is fed
    extra: list[int] = field(default_factory=list)  # what was fed beside that: the stream has it next
    arrived: deque[int] = field(default_factory=deque)
    ended: bool = False


@dataclass(slots=True, eq=False)
class Handle:
    """A thread."""

    request: Request


class Within:
    """The KV cache is vLLM's, which sees to its memory; but a request has so many places and no more."""

    slots = free_slots = UNLIMITED
    kept_slots = 0

    def __init__(self, slots_each: int):
        self.slots_each = slots_each


class VllmEngine:
    """Decodes inside vLLM. `size` is the number of logits."""

    lockstep = False  # the workers' interpreters give the turns
    row_cost: float | None = None
    wait_cost = 0.0
    under_way = 0
    masks = True
    grammars = False
    drafts = False
    max_requests = UNLIMITED
    max_segments = 32 * WORDS - 1  # one is nobody's

    def __init__(self, core: Core, vocabulary: Vocabulary, *, size: int, context: int, taught: Taught, name: str = ""):
        self.core = core
        self.pool = Within(core.max_model_len - STREAM_END)
        self.vocabulary = vocabulary
        self.grammar = Grammar.of(vocabulary, size, taught.deepest) if vocabulary.tags else None
        self.context = context
        self.positions = taught.positions
        self.name = name
        self.runner: Any = None
        self._names = (f"pasta-{number}" for number in itertools.count())
        self._requests: dict[str, Request] = {}
        self._opened: list[Request] = []  # that vLLM does not know yet

    # -- threads ------------------------------------------------------------------------------------------

    def can_allocate(self, tokens: int, thread: Handle | None = None) -> bool:
        return True

    def open(
        self, prompt: Sequence[int], expect: Expect | None, params: SamplingParams, cache_salt: str | None = None
    ) -> Handle:
        if params.logprobs is not None:
            raise UsageError("vLLM returns no logprobs of threads", "leave logprobs out")
        own = replace(params, positions=params.positions or self.positions)
        if isinstance(own.positions, Positions) and own.positions.stitched:
            raise UsageError("vLLM joins threads as they were decoded", "leave the position scheme out")
        if len(prompt) >= self.pool.slots_each:
            raise UsageError(
                f"the prompt is {len(prompt)} tokens long, and vLLM's max_model_len is {self.core.max_model_len}",
                "shorten the prompt, or start vLLM with a larger max_model_len",
            )
        request = Request(next(self._names), tuple(prompt), own, cache_salt)
        handle = Handle(request)
        if expect is not None:
            request.deciding.append(handle)
        self._opened.append(request)
        return handle

    def play(self, thread: Handle, script: Script) -> None:
        """The workers choose these tokens, whatever the model says."""
        thread.request.script = script

    def cached_tokens(self, thread: Handle) -> int:
        return 0

    def feed(self, thread: Handle, token: int, position: int, expect: Expect | None) -> None:
        request = thread.request
        chosen = request.chosen.pop(thread, None)
        if chosen is None or not is_own(chosen, token, self.vocabulary.tags):
            request.extra.append(token)
        if expect is not None:
            request.deciding.append(thread)

    def fork(self, thread: Handle) -> Handle:
        return Handle(thread.request)

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        """The worker's interpreter saw to it."""

    def constrain(self, thread: Handle, constraint: Constraint) -> None:
        raise UsageError("answers by a schema are not decoded inside vLLM", "use the native engine for them")

    def draft(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        raise UsageError("vLLM checks no drafts of threads", "leave drafts out")

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        raise UsageError("vLLM joins threads as they were decoded", "leave the position scheme out")

    def prefetch(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Nothing: no context is written anew."""

    def close(self, thread: Handle) -> None:
        request = thread.request
        if request in self._opened:
            self._opened.remove(request)
        elif self._requests.pop(request.name, None) is not None and not request.ended:
            self.core.abort(request.name)

    def check(self) -> None:
        self.core.check()

    # -- steps --------------------------------------------------------------------------------------------

    def launch(self) -> None:
        opened, self._opened = self._opened, []
        for request in opened:
            end = min(self.vocabulary.eos)
            terms = Terms(request.params, self.context, self.max_segments, end, request.script)
            self._requests[request.name] = request
            self.core.add(request.name, request.prompt, terms.write(), request.cache_salt)

    def step(self) -> list[Decoded]:
        self.launch()
        decoded = self._read()
        if not decoded and self._requests:
            for output in self.core.step():
                if (request := self._requests.get(output.request)) is not None:
                    request.arrived.extend(output.tokens)
                    request.ended |= output.ended
            decoded = self._read()
        return decoded

    def _read(self) -> list[Decoded]:
        """The next step of every stream that holds one."""
        return [decoded for request in self._requests.values() for decoded in self._read_stream(request)]

    def _read_stream(self, request: Request) -> list[Decoded]:
        arrived, extra = request.arrived, request.extra
        if len(arrived) < len(extra) or not (arrived or request.ended):
            return []
        if any(arrived.popleft() != token for token in extra):
            return self._fail(request, PastaError("vLLM's stream is not what its tokens lead to"))
        request.extra = []
        if request.ended and len(arrived) <= 2:  # nothing but its end
            return self._fail(request, NoRoom(f"the answer has all {self.core.max_model_len} places of its request"))
        if len(arrived) < len(request.deciding):
            return []
        deciding, request.deciding = request.deciding, []
        decoded = [Decoded(handle, arrived.popleft()) for handle in deciding]
        request.chosen = {one.thread: one.token for one in decoded if isinstance(one.token, int)}
        return decoded

    def _fail(self, request: Request, error: PastaError) -> list[Decoded]:
        deciding, request.deciding = request.deciding, []
        return [Decoded(handle, error) for handle in deciding[:1]]
