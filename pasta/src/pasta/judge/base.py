"""What a judge is, and how one is named on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pasta.errors import UsageError


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question to a judge: is `answer` a better reply to `prompt` than `reference`?"""

    prompt: str
    reference: str
    answer: str


class Judge(Protocol):
    """Compares answers, many at once."""

    @property
    def name(self) -> str: ...

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        """For each, the probability that the answer is better; both orders averaged where the order matters."""
        ...


class LongerIsBetter:
    """The baseline that every judge must beat: the answer with more characters wins."""

    name = "length"

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        return [_longer(len(c.answer), len(c.reference)) for c in comparisons]


KINDS = """reward:FOLDER_OR_HUB_NAME   a reward model; one of `pasta train judge` is controlled for length
reward-raw:FOLDER           the same, not controlled for length
features:FILE               a linear judge over counted features, made by `pasta train judge`
llm:MODEL@BASE_URL          a large model behind an OpenAI-compatible server, asked as AlpacaEval asks
length                      the longer answer wins: a baseline"""


def open_judge(spec: str, *, price: float | None = None) -> Judge:
    """The judge that `spec` names, as KINDS lists them; `price` of a million tokens, to say what `llm` will cost."""
    kind, _, rest = spec.partition(":")
    if kind == "length" and not rest:
        return LongerIsBetter()
    if kind in ("reward", "reward-raw") and rest:
        from pasta.judge.reward import open_reward

        return open_reward(rest, length_control=kind == "reward")
    if kind == "features" and rest:
        from pasta.judge.features import FeatureJudge

        return FeatureJudge.read(rest)
    if kind == "llm" and "@" in rest:
        from pasta.judge.llm import LlmJudge

        model, _, base_url = rest.partition("@")
        return LlmJudge(model, base_url, price=price)
    known = "; ".join(" ".join(line.split()[:1]) for line in KINDS.splitlines())
    raise UsageError(f"{spec!r} names no judge", f"expected one of: {known}")


def _longer(ours: int, theirs: int) -> float:
    return 0.5 if ours == theirs else float(ours > theirs)
