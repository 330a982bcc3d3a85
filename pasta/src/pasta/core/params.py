"""How an answer is decoded: what `generate`, the server and the command line take, with its defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from operator import index
from typing import Any, TypedDict

from pasta.core.positions import Positions
from pasta.errors import UsageError

WHOLE = ("top_k", "seed", "max_tokens", "max_threads", "max_thread_tokens", "logprobs", "n")
NUMBERS = ("temperature", "top_p", "min_p", "parallelism", "repetition_penalty")
SWITCHES = ("sequential", "plain", "drafts")
OPTIONAL = ("max_thread_tokens", "logprobs", "drafts")
MAX_TEMPERATURE = 1e6  # every token is as likely as any other long before; a quotient by more may be no number
MAX_BIAS = 1e4  # of a logit, which float16 ends at 65504: an infinite one leaves no distribution to draw from


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
            ("temperature", 0 <= self.temperature <= MAX_TEMPERATURE, f"0 (greedy) to {MAX_TEMPERATURE:.0f}"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("parallelism", abs(self.parallelism) <= MAX_BIAS, f"between {-MAX_BIAS:.0f} and {MAX_BIAS:.0f}"),
            ("repetition_penalty", 0.01 <= self.repetition_penalty <= 100, "between 0.01 and 100; 1 is off"),
            ("max_tokens", self.max_tokens >= 1, "1 or more"),
            ("max_threads", self.max_threads >= 1, "1 or more"),
            ("max_thread_tokens", self.max_thread_tokens is None or self.max_thread_tokens >= 1, "1 or more, or None"),
            ("logprobs", self.logprobs is None or 0 <= self.logprobs <= 20, "0 to 20, or None"),
            ("n", self.n >= 1, "1 or more"),
        ):
            if not good:
                raise UsageError(f"{name} is {getattr(self, name)}, expected {expected}")
        for names, kind in ((WHOLE, int), (NUMBERS, float)):  # as engines and servers know them, whatever counts as one
            for name in names:
                if (value := getattr(self, name)) is not None:
                    object.__setattr__(self, name, kind(value))
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop
        object.__setattr__(self, "stop", tuple(text for text in _listed("stop", stops, str, "texts") if text))
        ends = _listed("stop_token_ids", self.stop_token_ids, Integral, "token ids")
        object.__setattr__(self, "stop_token_ids", ends)
        object.__setattr__(self, "logit_bias", _pairs(self.logit_bias))
        for token, bias in self.logit_bias:
            if token < 0 or not abs(bias) <= MAX_BIAS:
                expected = f"a number between {-MAX_BIAS:.0f} and {MAX_BIAS:.0f} for a token id"
                raise UsageError(f"logit_bias of token {token} is {bias}, expected {expected}")
        if isinstance(self.positions, str):
            object.__setattr__(self, "positions", Positions.parse(self.positions))

    def _check_types(self) -> None:
        """A text where a number belongs is refused here by its name, rather than somewhere in the first step."""
        for names, kind, expected in (
            (WHOLE, Integral, "a whole number"),
            (NUMBERS, Real, "a number"),
            (SWITCHES, bool, "True or False"),
        ):
            for name in names:
                value = getattr(self, name)
                fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
                if not fits and not (value is None and name in OPTIONAL):
                    raise UsageError(f"{name} is {value!r:.40}, expected {expected}")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always chosen, of logits as they are."""
        return self.temperature == 0 and self.repetition_penalty == 1 and not self.logit_bias


def _listed(name: str, values: Any, kind: type, expected: str) -> tuple[Any, ...]:
    """The values of a list, each of its kind; None is none, as clients of other servers write it."""
    if values is None:
        return ()
    if not isinstance(values, Iterable):
        raise UsageError(f"{name} is {values!r:.40}, expected {expected}, in a list")
    listed = tuple(values)
    for value in listed:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{name} has {value!r:.40}, expected {expected}")
    return listed


def _pairs(biases: Sequence[tuple[int, float]] | Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    try:
        pairs = biases.items() if isinstance(biases, Mapping) else biases
        return tuple((_token_id(token), float(bias)) for token, bias in pairs)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"logit_bias is {biases!r:.60}, expected a number for each token id") from None


def _token_id(token: Any) -> int:
    """Also as text, which is how JSON has it; a fraction and a truth value are none."""
    if isinstance(token, bool):
        raise TypeError
    return int(token) if isinstance(token, str) else index(token)


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
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    logprobs: int | None
    n: int
    drafts: bool | None
    positions: Positions | str | None
