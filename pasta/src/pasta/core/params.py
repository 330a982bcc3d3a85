"""How an answer is decoded: what `generate`, the server and the command line take, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TypedDict

from pasta.core.positions import Positions
from pasta.errors import UsageError

WHOLE = ("top_k", "seed", "max_tokens", "max_threads", "max_thread_tokens", "logprobs", "n")
NUMBERS = ("temperature", "top_p", "min_p", "parallelism", "repetition_penalty")
OPTIONAL = ("max_thread_tokens", "logprobs")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen, how far an answer may go, and in how many threads.

    `repetition_penalty` is transformers': the logit of every token that the thread sees (the prompt, what it and its
    ancestors wrote, blocks that it joined) is divided by it if positive, multiplied by it if not. This comes before
    all else. PASTA's tags and the tokens that end a response are never penalised: a second promise is no repetition.

    A limit cuts and does not steer: the text is a prefix, in reading order, of what the same parameters give without
    the limit.
    """

    temperature: float = 0.0  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    seed: int = 0  # a draw is a function of the seed, the thread and the place, whatever else runs
    parallelism: float = 0.0  # added to the logit that opens a promise
    repetition_penalty: float = 1.0  # 1: off
    logit_bias: tuple[tuple[int, float], ...] = ()  # added to the logits of these tokens, after the penalty
    max_tokens: int = 512  # of the answer, in reading order, tags included
    max_threads: int = 16  # that decode at once; the others wait, the first in reading order goes first
    max_thread_tokens: int | None = None  # of a block (a longer one ends the answer), or a schema's value (is closed)
    sequential: bool = False  # the same answer, its threads decoded one at a time in reading order
    plain: bool = False  # decode without tags
    stop: tuple[str, ...] | str = ()  # the answer ends before the first of these texts
    stop_token_ids: tuple[int, ...] = ()  # they end a response as the model's own end does
    logprobs: int | None = None  # of each token chosen, and of so many of the likeliest beside it
    n: int = 1  # answers to a prompt
    drafts: bool | None = None  # guess several tokens at once, the answer stays the same; None: as the engine does
    positions: Positions | str | None = None  # None: as the model was trained

    def __post_init__(self) -> None:
        self._check_types()
        for name, good, expected in (
            ("temperature", 0 <= self.temperature < math.inf, "0 (greedy) or more"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("parallelism", math.isfinite(self.parallelism), "a finite number"),
            ("repetition_penalty", 0.01 <= self.repetition_penalty <= 100, "between 0.01 and 100; 1 is off"),
            ("max_tokens", self.max_tokens >= 1, "1 or more"),
            ("max_threads", self.max_threads >= 1, "1 or more"),
            ("max_thread_tokens", self.max_thread_tokens is None or self.max_thread_tokens >= 1, "1 or more, or None"),
            ("logprobs", self.logprobs is None or 0 <= self.logprobs <= 20, "0 to 20, or None"),
            ("n", self.n >= 1, "1 or more"),
        ):
            if not good:
                raise UsageError(f"{name} is {getattr(self, name)}, expected {expected}")
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", tuple(text for text in stops if text))
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        object.__setattr__(self, "logit_bias", _pairs(self.logit_bias))
        for token, bias in self.logit_bias:
            if token < 0 or not math.isfinite(bias):
                raise UsageError(f"logit_bias of token {token} is {bias}, expected a finite number for a token id")
        if isinstance(self.positions, str):
            object.__setattr__(self, "positions", Positions.parse(self.positions))

    def _check_types(self) -> None:
        """A text where a number belongs is refused here by its name, rather than somewhere in the first step."""
        for names, kind, expected in ((WHOLE, Integral, "a whole number"), (NUMBERS, Real, "a number")):
            for name in names:
                value = getattr(self, name)
                if not isinstance(value, kind) and not (value is None and name in OPTIONAL):
                    raise UsageError(f"{name} is {value!r:.40}, expected {expected}")
        for text in (self.stop,) if isinstance(self.stop, str) else self.stop:
            if not isinstance(text, str):
                raise UsageError(f"stop has {text!r:.40}, expected texts")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always chosen, of logits as they are."""
        return self.temperature == 0 and self.repetition_penalty == 1 and not self.logit_bias


def _pairs(biases: Sequence[tuple[int, float]] | Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    try:
        pairs = biases.items() if isinstance(biases, Mapping) else biases
        return tuple((int(token), float(bias)) for token, bias in pairs)
    except (TypeError, ValueError):
        raise UsageError(f"logit_bias is {biases!r:.60}, expected a number for each token id") from None


class Options(TypedDict, total=False):
    """The fields of `SamplingParams` as keyword arguments, for type checkers. Defaults are written there."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    parallelism: float
    repetition_penalty: float
    logit_bias: Sequence[tuple[int, float]] | Mapping[int, float]
    max_tokens: int
    max_threads: int
    max_thread_tokens: int | None
    sequential: bool
    plain: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    logprobs: int | None
    n: int
    drafts: bool | None
    positions: Positions | str | None
