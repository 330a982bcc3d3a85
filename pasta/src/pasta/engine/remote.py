"""The remote engine: a completions server such as vLLM decodes, each thread a request of its own.

A request carries all the tokens before it, so that the server needs to know nothing of forks and joins; its prefix
cache shares what requests begin with. Positions and attention are those of ordinary text: layout `stitched`.

The server does not know the grammar either. Tokens are taken as they come, and one that may not come here is asked for
again from those that may: then every token has the distribution that the native engine gives it. Of a bias no server
is sent more than vLLM bears: above 1,024 tokens its engine ends, for everybody.

A schema is the server's to enforce, by its own structured output: each value's goes with that value's request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect, Grammar
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import UNLIMITED, Decoded, Script, uniform
from pasta.engine.remote_client import Client, Refused, ServerError, Stream, Unavailable, read_logprobs
from pasta.errors import UsageError

PATIENCE_S = 0.05  # how long a step waits for a token: others may want to join or leave meanwhile
BAN, FAVOUR = -100.0, 100.0  # as far as a logit bias goes
MOST_BIASES = 1024  # in one request
TRIES = 16  # refused tokens at one place, before the server is given up


@dataclass(slots=True, eq=False)
class Request:
    """One answer: all its streams, and what keeps them together."""

    params: SamplingParams
    cache_salt: str  # who may share its prefixes
    session: str = field(default_factory=lambda: uuid.uuid4().hex)  # the same replica for all of its streams
    streams: set[Stream] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Handle:
    """One thread: all the tokens that it sees, and the stream that decodes after them."""

    request: Request
    ids: list[int]
    path: tuple[int, ...] = ()
    forks: int = 0
    expect: Expect | None = None  # what may come next; None: nothing is decoded
    asked: Mapping[str, Any] = field(default_factory=dict)  # how the server is to hold the thread to a schema
    stream: Stream | None = None
    offered: int | None = None  # the token that the stream gave last, until it is fed
    refused: list[int] = field(default_factory=list)  # what the server offered at this place, and may not come
    banned: frozenset[int] = frozenset()  # what the stream was told never to give
    first: Stream | None = None
    failures: int = 0  # one after another


class Elsewhere:
    """The KV pool of an engine that has none: the server sees to its memory, and queues what does not fit."""

    slots = free_slots = slots_each = 1 << 40
    kept_slots = 0


class RemoteEngine:
    """Decodes on a server. `model` is the name by which the server knows the model."""

    positions = Positions.parse("stitched")
    lockstep = False
    row_cost: float | None = None
    wait_cost = 0.0
    under_way = 0
    drafts = False
    masks = False
    grammars = False  # `connect` asks the server
    max_requests = UNLIMITED
    max_segments = UNLIMITED
    pool = Elsewhere()
    retries_s = (0.2, 1.0, 5.0)  # a request that fails is sent again, after so long each time

    def __init__(self, client: Client, vocabulary: Vocabulary, *, model: str, name: str, context: int, taught: Taught):
        self.client = client
        self.vocabulary = vocabulary
        self.grammar = Grammar.of(vocabulary, len(vocabulary.pieces), taught.deepest) if vocabulary.tags else None
        self.context = context
        self.name = name
        self.runner: Any = None
        self.trained = taught.positions  # the scheme that the model knows: another than `stitched` may cost quality
        self.model = model
        self.penalises = False  # whether the server knows `repetition_penalty`
        self._logprobs: bool | None = None  # whether the server returns them; None: not asked yet
        self._waiting: dict[Handle, None] = {}  # threads that decode

    # -- threads ----------------------------------------------------------------------------------------

    def can_allocate(self, tokens: int, thread: Handle | None = None) -> bool:
        return True

    def open(
        self, prompt: Sequence[int], expect: Expect | None, params: SamplingParams, cache_salt: str | None = None
    ) -> Handle:
        if params.repetition_penalty != 1 and not self.penalises:
            raise UsageError("the model's server knows no repetition_penalty", "leave it out, or at 1")
        if params.logprobs is not None and not self._gives_logprobs():
            raise UsageError("the model's server returns no logprobs of token ids", "leave logprobs out")
        if params.logit_bias:
            raise UsageError("a remote engine takes no logit_bias", "leave it out")
        handle = Handle(Request(params, cache_salt or uuid.uuid4().hex), list(prompt), expect=expect)
        if expect is not None:
            self._waiting[handle] = None
        return handle

    def play(self, thread: Handle, script: Script) -> None:
        """Nothing: a token counts once it is fed."""

    def cached_tokens(self, thread: Handle) -> int:
        return 0 if thread.first is None else thread.first.cached

    def feed(self, thread: Handle, token: int, position: int, expect: Expect | None) -> None:
        if position != len(thread.ids):
            raise UsageError("a remote engine decodes layout 'stitched'", "leave the position scheme out")
        thread.ids.append(token)
        if token != thread.offered or expect is None:
            self._drop(thread)
        thread.offered = None
        thread.refused.clear()
        thread.expect = expect
        if expect is not None:
            self._waiting[thread] = None

    def fork(self, thread: Handle) -> Handle:
        child = Handle(thread.request, list(thread.ids), (*thread.path, thread.forks))
        thread.forks += 1
        return child

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        if children:
            raise UsageError("a remote engine decodes layout 'stitched'", "leave the position scheme out")

    def constrain(self, thread: Handle, constraint: Constraint) -> None:
        thread.asked = constraint.asked

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        thread.ids[position:] = tokens
        self._drop(thread)

    def draft(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Nothing: the server decodes token by token."""

    def prefetch(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Has the server read ahead what the sync will write, while other children still decode."""
        ids = [*thread.ids[:position], *tokens]
        if len(tokens) and len(ids) < self.context:
            self._open(thread.request, ids, 1, {})

    def close(self, thread: Handle) -> None:
        for stream in thread.request.streams:
            stream.close()
        thread.request.streams.clear()
        for handle in [handle for handle in self._waiting if handle.request is thread.request]:
            del self._waiting[handle]

    def check(self) -> None:
        """Whether the server answers."""
        self.client.ping()

    # -- one step -----------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Asks for what was fed: the server decodes beside the host's work."""
        for handle in self._waiting:
            if handle.stream is None:
                self._ask(handle)

    def step(self) -> list[Decoded]:
        """A token of each thread that has one, as soon as one has."""
        self.launch()
        out = self._collect()
        if not out and self.client.arrived.wait(PATIENCE_S):
            out = self._collect()
        return out

    def _collect(self) -> list[Decoded]:
        self.client.arrived.clear()
        out = [decoded for handle in list(self._waiting) if (decoded := self._next(handle)) is not None]
        for decoded in out:
            del self._waiting[decoded.thread]
        return out

    def _next(self, handle: Handle) -> Decoded | None:
        """What comes next in a thread; None: not yet."""
        stream = handle.stream
        if stream is None:
            return None
        error, ended = stream.error, stream.ended  # before the tokens, which may come meanwhile
        if stream.tokens:
            token, logprobs = stream.tokens.popleft()
            handle.failures = 0
            if self._may_come(handle, token):
                handle.offered = token
                return Decoded(handle, token, logprobs)
            if token in handle.banned:
                message = f"token {token} may not come here, and the server ignores logit_bias"
                return Decoded(handle, ServerError(message))
            if len(handle.refused) == TRIES:
                message = f"the server offers {TRIES} tokens in a row that may not come here"
                return Decoded(handle, ServerError(message, "is it the model that --model names?"))
            self.client.usage.corrections += 1
            handle.refused.append(token)
            self._drop(handle)
            self._ask(handle)
            return None
        if ended and stream.last is None:
            error = Unavailable("the server ended a completion without a token", "see the server's log")
        wait_s = 0.0
        if error is not None:
            if not error.passing or handle.failures == len(self.retries_s):
                return Decoded(handle, error)
            handle.failures += 1
            wait_s = max(self.retries_s[handle.failures - 1], error.after_s)
        if error is not None or ended:  # by the server's own limit, or a correction
            self._drop(handle)
            self._ask(handle, wait_s)
        return None

    # -- what is asked ------------------------------------------------------------------------------------

    def _may_come(self, handle: Handle, token: int) -> bool:
        if self.grammar is None or handle.asked:  # whoever handed the schema over looks at what comes
            return True
        assert handle.expect is not None
        allowed = self.grammar.allowed[handle.expect]
        return token < len(allowed) and bool(allowed[token])

    def _ask(self, handle: Handle, wait_s: float = 0.0) -> None:
        """Starts a stream after what the thread holds; where a token was refused, of those that may come. It may wait.

        In text that is the same grammar for the whole stream, which then ends with a promise; else it is for one token.
        """
        request, refused = handle.request, len(handle.refused)
        bias = self._correction(handle) if refused else self._bias(handle)
        handle.banned = frozenset(token for token, value in bias.items() if value == BAN)
        in_text = handle.expect is not None and handle.expect.is_text
        # A correction is a draw of its own: with the same numbers it would not be free of what was refused.
        path = (*handle.path, -refused) if refused else handle.path
        seed = int(uniform(request.params.seed, path, len(handle.ids)) * 2**31)
        most = 1 if refused and not in_text else self.context - len(handle.ids)
        # Where the bias favours, a penalty would divide it too: nothing that was said before could come.
        favours = refused and FAVOUR in bias.values()
        penalty = 1.0 if favours else request.params.repetition_penalty
        stops = [self.grammar.tags.promise] if refused and self.grammar is not None else []
        handle.stream = self._open(request, handle.ids, most, bias, seed, wait_s, penalty, stops, handle.asked)
        handle.first = handle.first or handle.stream

    def _open(
        self,
        request: Request,
        ids: Sequence[int],
        most: int,
        bias: dict[int, float],
        seed: int = 0,
        wait_s: float = 0.0,
        penalty: float = 1.0,
        stops: Sequence[int] = (),
        asked: Mapping[str, Any] | None = None,
    ) -> Stream:
        params, tags = request.params, self.vocabulary.tags
        ends = [*sorted(self.vocabulary.eos), *stops]
        body = {
            "model": self.model,
            "prompt": list(ids),
            "max_tokens": most,
            "temperature": params.temperature,
            "stop_token_ids": ends if tags is None else [*ends, tags.sync, tags.close],
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "cache_salt": request.cache_salt,
        }
        if bias:
            body["logit_bias"] = {str(token): value for token, value in bias.items()}
        if asked:
            body["structured_outputs"] = dict(asked)
        if penalty != 1:
            body["repetition_penalty"] = penalty
        if params.logprobs is not None:
            body |= {"logprobs": params.logprobs, "return_tokens_as_token_ids": True}
        if params.temperature:
            body["seed"] = seed
            for name, off in (("top_p", 1.0), ("top_k", 0), ("min_p", 0.0)):
                if getattr(params, name) != off:
                    body[name] = getattr(params, name)
        headers = {"X-Session-ID": request.session, "X-SMG-Routing-Key": request.session}
        request.streams = {stream for stream in request.streams if not stream.ended}
        stream = self.client.open(body, headers, wait_s)
        request.streams.add(stream)
        return stream

    def _bias(self, handle: Handle) -> dict[int, float]:
        """What never may come in this thread again, so that asking for it need not be corrected; and the dial."""
        tags = self.vocabulary.tags
        if tags is None or handle.expect is None or handle.asked:
            return {}
        child = bool(handle.path)
        bias = dict.fromkeys([tags.open, *(self.vocabulary.eos if child else [tags.close])], BAN)
        if handle.expect < Expect.TOPIC_START and not handle.expect & Expect.TEXT_PROMISE:
            bias |= dict.fromkeys([tags.promise, *tags.lengths], BAN)  # a promise that does not fit now never will
        elif handle.request.params.parallelism:
            bias[tags.promise] = handle.request.params.parallelism
        return bias

    def _correction(self, handle: Handle) -> dict[int, float]:
        """The grammar as a bias: against what may not come, or for what may, whichever is short enough.

        A topic is neither: there what was refused is banned, and what is the likeliest to be. What is left of the
        model's distribution, once all that was refused is gone, is that of what may come.
        """
        assert self.grammar is not None and handle.expect is not None
        allowed = self.grammar.allowed[handle.expect]
        forbidden = np.flatnonzero(~allowed).tolist()
        if len(forbidden) < MOST_BIASES:
            bias = dict.fromkeys([*handle.refused, *forbidden], BAN)
        elif allowed.sum() < MOST_BIASES:
            bias = dict.fromkeys(np.flatnonzero(allowed).tolist(), FAVOUR)
        else:
            tags = [tag for tag in sorted(self.grammar.tags.all | self.vocabulary.eos) if not allowed[tag]]
            likeliest = forbidden[: MOST_BIASES - 1]  # vocabularies begin with what is most frequent
            bias = dict.fromkeys([*handle.refused, *tags, *likeliest][: MOST_BIASES - 1], BAN)
        dial = handle.request.params.parallelism
        if dial and allowed[self.grammar.tags.promise]:
            bias[self.grammar.tags.promise] = dial
        return bias

    def _gives_logprobs(self) -> bool:
        """Whether the server returns logprobs, and of tokens by number; it is asked once."""
        if self._logprobs is None:
            body = {"model": self.model, "prompt": [min(self.vocabulary.eos)], "max_tokens": 1, "logprobs": 1}
            try:
                reply = self.client.get("/v1/completions", {**body, "return_tokens_as_token_ids": True})
                self._logprobs = bool(read_logprobs(reply["choices"][0], 1))
            except (Refused, KeyError, IndexError, TypeError, ValueError, AttributeError):
                self._logprobs = False
        return self._logprobs

    def _drop(self, handle: Handle) -> None:
        if handle.stream is not None:
            handle.stream.close()
            handle.stream = None
