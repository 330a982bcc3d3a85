"""What a decoding engine must do for the interpreter, and no more."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pasta.core.grammar import Expect, Grammar
from pasta.core.positions import Positions
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError, UsageError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Temperature 0 is greedy.

    `repetition_penalty` is transformers': the logit of every token that the thread sees (the prompt, what it and its
    ancestors wrote, blocks that it joined) is divided by it if positive, multiplied by it if not. This comes before
    all else. PASTA's tags and the tokens that end a response are never penalised: a second promise is no repetition.
    """

    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    parallelism: float = 0.0  # added to the logit that opens a promise
    repetition_penalty: float = 1.0  # 1: off

    def __post_init__(self) -> None:
        for name, good, expected in (
            ("temperature", 0 <= self.temperature < math.inf, "0 (greedy) or more"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("parallelism", math.isfinite(self.parallelism), "a finite number"),
            ("repetition_penalty", 0.01 <= self.repetition_penalty <= 100, "between 0.01 and 100; 1 is off"),
        ):
            if not good:
                raise UsageError(f"{name} is {getattr(self, name)}, expected {expected}")


class OutOfSlots(PastaError):
    """The KV pool is full. The request that asked for more ends; the others go on."""


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
    """Threads over one model. A handle is the engine's own name of a thread."""

    vocabulary: Vocabulary
    grammar: Grammar | None
    context: int  # positions that the model knows
    positions: Positions  # the scheme that the model was trained with
    name: str  # of the model

    @property
    def pool(self) -> Pool: ...

    def open(self, prompt: Sequence[int], expect: Expect, sampling: Sampling, scope: str | None = None) -> Any:
        """A new request: the handle of its main thread, which holds the prompt and decodes after it.

        Requests of the same scope may share what they compute, so far as it changes nothing; None shares with nobody.
        """

    def cached_tokens(self, thread: Any) -> int:
        """How many of the prompt's tokens the request of this main thread found computed."""

    def feed(self, thread: Any, token: int, position: int, expect: Expect | None, banned: Sequence[int] = ()) -> None:
        """Puts a token into a thread; with `expect`, the next step decodes what comes after it, no `banned` token."""

    def fork(self, thread: Any) -> Any:
        """A child that sees what the thread holds now."""

    def join(self, thread: Any, children: Sequence[Any]) -> None:
        """From now on the thread sees all that these finished children hold."""

    def rewrite(self, thread: Any, position: int, tokens: Sequence[int]) -> None:
        """Layout `stitched`, in place of a join: from this position on, the thread holds these tokens instead."""

    def prepare(self, thread: Any, position: int, tokens: Sequence[int]) -> None:
        """Layout `stitched`: how the thread's next `rewrite` will begin, for an engine that can work ahead."""

    def launch(self) -> None:
        """Starts the next step where that can go on beside the host's work."""

    def step(self) -> Sequence[tuple[Any, int | PastaError]]:
        """Runs all that was fed since the last step: (thread, token) for each that decodes, or why it cannot."""

    def close(self, thread: Any) -> None:
        """Ends the request whose main thread this is, and frees all that it held."""


def uniform(seed: int, path: tuple[int, ...], index: int) -> float:
    """The random number of one draw: a function of the seed, the thread and the token, and of nothing else."""
    key = f"{seed}/{'.'.join(map(str, path))}/{index}".encode()
    number = int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big")
    return (number >> 3) / 2**53  # as many bits as a float holds exactly: 56 could round up to 1
