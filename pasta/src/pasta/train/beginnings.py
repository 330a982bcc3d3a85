"""Where an answer goes wrong, and how it could have gone on: two continuations of its good beginning.

They part where the fault is made, so that a pair of them says what was wrong and no more. A short list goes on with
a topic that another answer to its prompt has, in place of one that repeats or reads badly; a longer one ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pasta.data.quality import asked_for
from pasta.data.topics import reads_well, words_of
from pasta.lang import Promise, parse, plain_text
from pasta.text.lists import FEW
from pasta.text.overlap import overlap

if TYPE_CHECKING:
    from pasta.train.samples import Nested

MARGIN = 8.0  # nats: a few tokens tell the two apart, where whole samples differ in hundreds
A_PROMPT = 3  # such pairs at most, unless told otherwise

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """The first of an answer's own promises that spoils it."""

    place: int  # among them
    reason: str
    in_block: bool  # its topic is good, and what stands in its block is not


@dataclass(frozen=True, slots=True)
class Turn:
    """A good beginning with what could have come, and with what came."""

    good: Nested
    bad: Nested
    ends: bool  # what could have come is the end


def find_fault(promises: Sequence[Promise], most: float, any_topic: bool = False) -> Fault | None:
    """`most`: what two blocks may share of their telling words. `any_topic`: a topic may read as it likes."""
    for place, promise in enumerate(promises):
        before = promises[:place]
        if not any_topic and not reads_well(promise.topic):
            return Fault(place, "topics read badly", False)
        if any(same_topic(promise.topic, other.topic) for other in before):
            return Fault(place, "topics repeat", False)
        text = plain_text(promise.block or ())
        if any(overlap(text, plain_text(other.block or ())) > most for other in before):
            return Fault(place, "blocks repeat", True)
    return None


def same_topic(one: str, other: str) -> bool:
    """Whether one of two topics says nothing that the other does not."""
    first, second = words_of(one), words_of(other)
    return one.casefold() == other.casefold() or bool(first and second and (first <= second or second <= first))


def own_promises(annotated: str) -> list[Promise]:
    return [node for node in parse(annotated).nodes if isinstance(node, Promise)]


def turning_pairs(
    samples: Iterable[Row], most: float, a_prompt: int = A_PROMPT, any_topic: bool = False
) -> Iterator[dict[str, Any]]:
    """A pair for each answer that leaves a good beginning, of the first few of its prompt."""
    prompts: dict[int, list[Row]] = {}
    for sample in sorted(samples, key=lambda row: (row["index"], row["sample"])):
        prompts.setdefault(sample["index"], []).append(sample)
    for drawn in prompts.values():
        topics = Counter(topic for sample in drawn for topic in topics_of(sample))
        turns = ((sample, turn) for sample in drawn if (turn := turn_of(sample, topics, most, any_topic)))
        for _, (sample, turn) in zip(range(a_prompt), turns, strict=False):
            yield {
                "index": sample["index"],
                "prompt": sample["prompt"],
                "margin": MARGIN,
                # These are no samples, so their numbers lie below those.
                "chosen_score": {"sample": -2 * sample["sample"] - 1},
                "rejected_score": {"sample": -2 * sample["sample"] - 2},
                "chosen_tokens": turn.good,
                "rejected_tokens": turn.bad,
                "chosen_ended": turn.ends,
                "rejected_ended": False,
            }


def turn_of(
    sample: Row, topics: Counter[tuple[str, tuple[int, ...]]], most: float, any_topic: bool = False
) -> Turn | None:
    """How an answer could have gone on where it went wrong; None where that is not known.

    `topics`: those of all answers to its prompt, as words and as tokens.
    """
    promises = own_promises(sample["annotated"])
    fault = find_fault(promises, most, any_topic)
    tokens: Nested = sample["tokens"]
    blocks = [place for place, item in enumerate(tokens) if isinstance(item, list)]
    if fault is None or len(blocks) <= fault.place:
        return None
    end = blocks[fault.place]
    bad = tokens[: end + fault.in_block]
    if fault.place >= max(FEW, asked_for(sample["prompt"]) or 0):
        return Turn(tokens[: blocks[fault.place - 1] + 1], bad, True)
    if fault.in_block:
        return None
    before = [promise.topic for promise in promises[: fault.place]]
    for (words, ids), _ in topics.most_common():
        if not any(same_topic(words, other) for other in (*before, promises[fault.place].topic)):
            opens = _opening(tokens, end, sample["promise"])
            return Turn([*tokens[: opens + 1], *ids, tokens[end - 1]], bad, False)
    return None


def topics_of(sample: Row) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The topics of an answer that read well, as words and as tokens."""
    tokens: Nested = sample["tokens"]
    blocks = [place for place, item in enumerate(tokens) if isinstance(item, list)]
    for promise, end in zip(own_promises(sample["annotated"]), blocks, strict=False):
        if reads_well(promise.topic):
            yield promise.topic, tuple(tokens[_opening(tokens, end, sample["promise"]) + 1 : end - 1])


def _opening(tokens: Nested, end: int, opens: int) -> int:
    """Where the promise begins whose block stands at `end`."""
    return next(place for place in range(end - 1, -1, -1) if tokens[place] == opens)
