"""What a decoding engine must do for the interpreter, and no more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect, Grammar
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError

UNLIMITED = 1 << 30

Script = Mapping[tuple[int, ...], tuple[int, ...]]  # by a thread's path: the tokens that it is fed, whatever it decodes


class OutOfSlots(PastaError):
    """The KV pool is full. Whoever asks `can_allocate` first never sees this."""


class NoRoom(PastaError):
    """One request can hold no more. Its answer ends here, with what is certain of it: a limit was reached."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What the model itself gave a token: natural logarithms, before penalties, grammar and temperature."""

    logprob: float
    top: tuple[tuple[int, float], ...]  # the likeliest tokens and theirs, best first


class Decoded(NamedTuple):
    """The token that was chosen in a thread, or why none could be."""

    thread: Any
    token: int | PastaError
    logprobs: TokenLogprobs | None = None  # where the parameters ask for them


class Pool(Protocol):
    """The memory for keys and values, in slots of one token."""

    @property
    def slots(self) -> int: ...

    @property
    def free_slots(self) -> int: ...

    @property
    def kept_slots(self) -> int:
        """Free, but still holding what prompts began with."""

    @property
    def slots_each(self) -> int:
        """How many one request may hold."""


class Engine(Protocol):
    """Threads over one model. A handle is the engine's own name of a thread.

    A draw is a function of the seed, the thread's path of forks, and the position of the token that is decided. So a
    request may be closed at any time and opened again: its earlier tokens are fed with `expect` None, the last of each
    running thread with its own, forks and joins in their order, before the next step. It then goes on as if nothing had
    happened. However much is fed at once, an engine computes it in steps of bounded size.
    """

    vocabulary: Vocabulary
    grammar: Grammar | None
    context: int  # positions that the model knows
    positions: Positions  # the scheme that the model was trained with
    name: str  # of the model
    max_requests: int  # that may be open at once
    max_segments: int  # of one answer: a fork makes two, a join or a rewrite makes one
    lockstep: bool  # whether a step decodes a token of every thread that wants one
    row_cost: float | None  # what one token more in a step adds to a step of one token; None: it checks no drafts
    wait_cost: float  # what a step takes more where the one after it waits for its tokens, of a step of one token
    drafts: bool  # whether drafts pay here, for whoever does not say
    masks: bool  # whether it chooses under the masks of constraints; else its server is told what they ask for
    grammars: bool  # whether that server takes grammars, in which a value may end; else it is told schemas
    runner: Any  # of the requests that share it; None until the first, and whoever drives it sets it

    @property
    def pool(self) -> Pool: ...

    @property
    def under_way(self) -> int:
        """How many steps were launched and not read: tokens of each thread that are being decided."""

    def can_allocate(self, tokens: int, thread: Any = None) -> bool:
        """Whether there is room for so many more tokens of this thread's request; without a thread, of a new one."""

    def open(
        self, prompt: Sequence[int], expect: Expect | None, params: SamplingParams, cache_salt: str | None = None
    ) -> Any:
        """A new request: the handle of its main thread, which holds the prompt; with `expect`, it decodes after it.

        Requests of the same salt may share what they compute, so far as it changes nothing; None shares with nobody.
        """

    def play(self, thread: Any, script: Script) -> None:
        """Says, of the main thread of a request that was just opened, what its threads will be fed, by their paths.

        For an engine that decodes ahead of whoever feeds it. `feed` says the same, token by token.
        """

    def cached_tokens(self, thread: Any) -> int:
        """How many of the prompt's tokens the request of this main thread found computed."""

    def feed(self, thread: Any, token: int, position: int, expect: Expect | None) -> None:
        """Puts a token into a thread; with `expect`, the next step decodes what comes after it."""

    def fork(self, thread: Any) -> Any:
        """A child that sees what the thread holds now."""

    def join(self, thread: Any, children: Sequence[Any]) -> None:
        """From now on the thread sees all that these finished children hold."""

    def constrain(self, thread: Any, constraint: Constraint) -> None:
        """From now on the thread decodes only what this allows, beside the grammar of tags.

        It is asked when a token is chosen, so it must know all that the thread holds by then. Where a thread decides
        after several tokens of one step, each is decided under what was said last before it was fed.
        """

    def rewrite(self, thread: Any, position: int, tokens: Sequence[int]) -> None:
        """Layout `stitched`, in place of a join: from this position on, the thread holds these tokens instead."""

    def prefetch(self, thread: Any, position: int, tokens: Sequence[int]) -> None:
        """Layout `stitched`: how the thread's next `rewrite` will begin, for an engine that can work ahead."""

    def draft(self, thread: Any, position: int, tokens: Sequence[int]) -> None:
        """A guess, after a token was fed with `expect`, of what the thread says next from this position on: no tags.

        The next step also decides after each of these, as long as they are what was decided. `feed` then finds them.
        An engine that has launched that step already lets go of the guess, and waits for the step before it goes on.
        """

    def launch(self) -> None:
        """Starts the next step where that can go on beside the host's work."""

    def step(self) -> list[Decoded]:
        """Runs what was fed, as far as fits into one step: a token for each thread that came to decide.

        A thread whose draft was right has several, in their order: those of its draft, and the one after them.
        """

    def check(self) -> None:
        """Raises where the engine cannot decode now, as far as it knows without decoding."""

    def close(self, thread: Any) -> None:
        """Ends the request whose main thread this is, and frees all that it held."""


@runtime_checkable
class Prepares(Protocol):
    """An engine that can do beforehand what would hold its first requests up."""

    def prepare(self) -> None: ...


def uniform(seed: int, path: tuple[int, ...], position: int) -> float:
    """The random number of one draw: a function of the seed, the thread and the place, and of nothing else."""
    key = b"%b/%d" % (_key(seed, path), position)
    number = int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big")
    return (number >> 3) / 2**53  # as many bits as a float holds exactly: 56 could round up to 1


@lru_cache(maxsize=8192)
def _key(seed: int, path: tuple[int, ...]) -> bytes:
    return f"{seed}/{'.'.join(map(str, path))}".encode()
