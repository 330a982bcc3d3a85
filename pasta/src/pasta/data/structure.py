"""Lists, sections and paragraphs by pattern, as APAR does: a baseline, and a fallback without any model.

An item's title stays in its block: `1.<promise topic="Salt" …/><async> **Salt**: …</async>`. The parent then
decodes the title once, as the topic, instead of twice; the child repeats it as its first words, which costs
nothing on the critical path and ties the child to its own topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pasta.data.cues import concludes, follows, leans_back, refers_back
from pasta.data.example import Decision, Example
from pasta.data.pieces import Kind, Region, holds_fixed, regions
from pasta.data.plan import Block, Count, Plan
from pasta.data.topics import choose_topics
from pasta.lang import MAX_TOKENS
from pasta.lang.checker import MIN_BLOCK_WORDS
from pasta.text.overlap import share
from pasta.text.words import count_words

Span = tuple[int, int]

PROMISE_COST = 2  # tag tokens of a promise, beside its topic
_SECTION = re.compile(r"\s*#{1,6}(?=\s)")
_PERSONS = re.compile(r"\b(?:I|he|she|him|her|his|my|me)\b|[“”\"]")
_LETTER = re.compile(r"\s*(?:dear|subject:|hi|hello|to whom)\b", re.IGNORECASE)
_TELL = re.compile(
    r"\b(?:story|stories|poem|tale|letter|e-?mail|song|lyrics|script|dialogue|speech|narrative|rap|joke|scene|"
    r"monologue|conversation|diary|novel|verse)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group of blocks must be like to be worth marking."""

    min_gain: int = 10  # decode steps that a group must save
    min_paragraph_words: int = 20
    max_blocks: int = 16
    max_list_overlap: float = 0.4  # telling words that an item shares with earlier items alone
    max_section_overlap: float = 0.25
    max_paragraph_overlap: float = 0.2
    min_mean_tokens: int = 12  # shorter blocks are mostly promise


@dataclass(frozen=True, slots=True)
class Group:
    """Siblings: blocks that are promised one after another."""

    spans: tuple[Span, ...]
    gain: int

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def end(self) -> int:
        return self.spans[-1][1]


class Structure:
    """The annotator `structure`."""

    name = "structure"
    batch = 64

    def __init__(self, count: Count, limits: Limits | None = None) -> None:
        self.count = count
        self.limits = limits or Limits()

    def settings(self) -> Mapping[str, Any]:
        limits = self.limits
        return {name: getattr(limits, name) for name in limits.__slots__}

    def decide(self, examples: Sequence[Example]) -> Iterator[Decision]:
        for example in examples:
            yield self.plan(example)

    def plan(self, example: Example) -> Decision:
        text = example.text
        found = regions(text)
        groups, reasons = [], []
        candidates = [(spans, self.limits.max_list_overlap) for spans in _lists(found)]
        candidates += [(spans, self.limits.max_section_overlap) for spans in _sections(text, found)]
        if not is_told(example):
            paragraphs = _paragraphs(text, found, self.limits)
            candidates += [(spans, self.limits.max_paragraph_overlap) for spans in paragraphs]
        for spans, max_overlap in candidates:
            group = self._weigh(example, spans, max_overlap)
            if isinstance(group, Group):
                groups.append(group)
            else:
                reasons.append(group)
        chosen = _best(groups)
        if not chosen:
            return Decision(example.row, Plan(), reasons[0] if reasons else "no list, no sections, no paragraphs")
        blocks = tuple(Block(start, end) for group in chosen for start, end in group.spans)
        return Decision(example.row, Plan(blocks, tuple(_syncs(text, found, chosen))))

    def _weigh(self, example: Example, spans: Sequence[Span], max_overlap: float) -> Group | str:
        """The group that these spans make, or why they should not be one."""
        text, limits = example.text, self.limits
        spans = [(start, end) for start, end in spans if count_words(text[start:end]) >= MIN_BLOCK_WORDS]
        if len(spans) < 2:
            return "items too short"
        if len(spans) > limits.max_blocks:
            return "too many items"
        contents = [text[start:end] for start, end in spans]
        if any(holds_fixed(content) for content in contents):
            return "code, a table or mathematics"
        if any(follows(content) for content in contents):
            return "steps that follow each other"
        known = example.prompt + "\n" + text[: spans[0][0]]
        shared = [share(content, "\n".join(contents[:index]), known) for index, content in enumerate(contents) if index]
        if sum(shared) / len(shared) > max_overlap:
            return "items share their wording"
        topics = choose_topics([("", content) for content in contents])
        if topics is None:
            return "no topics that tell the items apart"
        lengths = [self.count(content) for content in contents]
        if sum(lengths) < limits.min_mean_tokens * len(lengths):
            return "items too short"
        if max(lengths) + 2 > 10 * MAX_TOKENS:
            return "an item is too long"
        gain = steps_saved(lengths, [PROMISE_COST + self.count(topic) for topic in topics])
        return Group(tuple(spans), gain) if gain >= limits.min_gain else "nothing to gain"


def steps_saved(lengths: Sequence[int], promises: Sequence[int]) -> int:
    """Decode steps that a group saves, with a sync after it: blocks run beside each other, promises do not."""
    begun = done = 0
    for length, promise in zip(lengths, promises, strict=True):
        begun += promise
        done = max(done, begun + length + 1)
    return sum(lengths) - max(done, begun + 1)


# -- candidates ---------------------------------------------------------------------------------------


def _lists(found: Sequence[Region]) -> Iterator[list[Span]]:
    for region in found:
        if region.kind is Kind.ITEM:
            yield list(region.parts)


def _sections(text: str, found: Sequence[Region]) -> Iterator[list[Span]]:
    """Headings with what stands below them; the #s stay with the parent."""
    heads = [index for index, region in enumerate(found) if region.kind is Kind.HEADING]
    if len(heads) < 2:
        return
    spans = []
    for head, following in zip(heads, [*heads[1:], len(found)], strict=True):
        body = found[head + 1 : following]
        if following == len(found):  # a closing paragraph is not part of the last section
            usual = min((b - a for a, b in pairwise(heads)), default=2) - 1
            body = body[: max(usual, 1)]
        if not body or any(region.kind is Kind.FIXED for region in body):
            return
        marker = _SECTION.match(text[found[head].start : found[head].end])
        spans.append((found[head].start + (marker.end() if marker else 0), body[-1].end))
    yield spans


def _paragraphs(text: str, found: Sequence[Region], limits: Limits) -> Iterator[list[Span]]:
    """Runs of paragraphs after the first one, which says what the answer is about.

    A paragraph that leans on the one before it joins its block; one that sums up ends the run.
    """
    if len(found) < 3:
        return
    run: list[Span] = []
    for index, region in enumerate(found[1:], start=1):
        words = text[region.start : region.end]
        sums_up = concludes(words) or (index == len(found) - 1 and refers_back(words))
        if region.kind is not Kind.SENTENCE or words.count("\n") > 1 or sums_up:
            if len(run) > 1:
                yield run
            run = []
        elif run and leans_back(words):
            run[-1] = (run[-1][0], region.end)
        elif leans_back(words) or len(words.split()) < limits.min_paragraph_words or words.endswith(":"):
            if len(run) > 1:
                yield run
            run = []
        else:
            run.append((region.start, region.end))
    if len(run) > 1:
        yield run


def is_told(example: Example) -> bool:
    """Whether this is a story, a dialogue or a letter: there every paragraph goes on from the last."""
    text = example.text
    if _TELL.search(example.prompt) is not None or _LETTER.match(text) is not None:
        return True
    return len(_PERSONS.findall(text)) > 0.02 * len(text.split())


def _best(groups: Iterable[Group]) -> list[Group]:
    """Groups that do not overlap, those that save most first; in the order of the text."""
    chosen: list[Group] = []
    for group in sorted(groups, key=lambda group: -group.gain):
        if all(group.end <= other.start or other.end <= group.start for other in chosen):
            chosen.append(group)
    return sorted(chosen, key=lambda group: group.start)


def _syncs(text: str, found: Sequence[Region], groups: Sequence[Group]) -> Iterator[int]:
    """Where to wait: after a group, if what follows looks back at it, or ends the answer."""
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        limit = following.start if following else len(text)
        between = [region for region in found if group.end <= region.start < limit]
        if not between or (following and between[0].start >= following.start):
            continue
        first = text[between[0].start : between[0].end]
        if following is None or refers_back(first):
            yield group.end
