"""How the annotating language model's reply is read: a label for each line of the answer becomes a plan.

What cannot be a block goes to the main writer, who sees at least what a block's writer sees: that is always safe. So
is a wait too many. A reply that speaks of other lines than there are is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from pasta.data.cues import concludes, leans_back
from pasta.data.pieces import Kind, Piece, pieces
from pasta.data.plan import Block, Plan, PlanError
from pasta.data.topics import clean
from pasta.lang.checker import MIN_BLOCK_WORDS
from pasta.text.digits import read_digits
from pasta.text.words import count_words, words

MAIN, WAIT = "main", "wait"
FIRST_WORDS = 2
_LABELLED = re.compile(r"^\W*\[(\d+)\](?: \(fixed\))?(.*)(?:->|→)(.*)$", re.MULTILINE)
_AROUND = " .*\"'"


def read_plan(reply: str, text: str) -> tuple[Plan, str]:
    """The plan in a reply; an empty one with the reason why nothing is marked.

    Raises:
        PlanError: The reply labels few lines, or one that is not there, or none of its blocks can be written.
    """
    lines = pieces(text)
    told = _read_labels(reply, text)
    if not any(_is_topic(label) for label in told):
        return Plan(), "the model found nothing independent"
    labels, problems = _usable(told, lines, text)
    labels = _in_company(labels)
    if not any(_is_topic(label) for label in labels):
        if problems:
            raise PlanError(f"no block can be used: {problems.most_common(1)[0][0]}")
        return Plan(), "the model marked single parts, which saves nothing"
    blocks = tuple(
        Block(lines[first].start, lines[last].end, label) for first, last, label in _runs(labels) if _is_topic(label)
    )
    syncs = tuple(lines[index - 1].end for index, label in enumerate(labels) if label == WAIT and index)
    return Plan(blocks, syncs), ""


def numbered(text: str) -> list[str]:
    """The lines as the model sees them, each with its list's number or bullet."""
    lines = []
    at = 0
    for piece in pieces(text):
        lines.append(" ".join(text[at : piece.end].split()))
        at = piece.end
    return lines


def may_be_block(piece: Piece) -> bool:
    return piece.kind in (Kind.ITEM, Kind.SENTENCE)


def _read_labels(reply: str, text: str) -> list[str]:
    """One label for each line, found by its number and its first words; what has none waits, which is always safe."""
    lines = numbered(text)
    labels: dict[int, str] = {}
    for number, start, label in _LABELLED.findall(reply):
        plain = label.casefold().strip(_AROUND)
        index = read_digits(number) - 1
        labels[_meant(lines, index, start)] = plain if plain in (MAIN, WAIT) else clean(label) or MAIN
    if 2 * len(labels) < len(lines):
        raise PlanError("it labels less than half of the lines")
    return [labels.get(index, WAIT) for index in range(len(lines))]


def _meant(lines: Sequence[str], index: int, start: str) -> int:
    """The line that a label is for: the one with that number, or, where the reply skipped some, with those words."""
    if 0 <= index < len(lines) and _begins(lines[index], start):
        return index
    found = [index for index, line in enumerate(lines) if _begins(line, start)]
    if len(found) != 1:
        raise PlanError("it labels a line that is not in the answer")
    return found[0]


def _begins(line: str, start: str) -> bool:
    """Whether a line begins with the first of these words: models that go on often stray from the text."""
    told, shown = _first_words(start), _first_words(line)
    return told == shown[: max(1, len(told))]


def _first_words(text: str) -> list[str]:
    """The first words, without a list's number."""
    found = words(text)
    return found[1 if len(found) > 1 and found[0].isdigit() else 0 :][:FIRST_WORDS]


def _cautious(told: Sequence[str], lines: Sequence[Piece], text: str) -> list[str]:
    """The labels, where what a line begins with has a veto: the rest of a thought joins it or waits for it, and a
    conclusion waits. So does a line that goes on with an earlier block after something else.
    """
    labels: list[str] = []
    begun: set[str] = set()  # blocks since the last wait
    for label, piece in zip(told, lines, strict=True):
        before = labels[-1] if labels else MAIN
        own = text[piece.start : piece.end]
        if not may_be_block(piece) and _is_topic(label):
            label = MAIN
        elif piece.kind is Kind.SENTENCE and _is_topic(before) and label != before and leans_back(own):
            joins = _is_topic(label) and lines[len(labels) - 1].kind is Kind.SENTENCE
            label = before if joins else WAIT
        elif (label == MAIN and concludes(own)) or (label != before and label in begun):
            label = WAIT
        begun = set() if label == WAIT else begun | {label} - {MAIN}
        labels.append(label)
    return labels


def _usable(told: Sequence[str], lines: Sequence[Piece], text: str) -> tuple[list[str], Counter[str]]:
    """The labels without blocks that cannot be written apart, and what was wrong with those."""
    labels = _cautious(told, lines, text)
    problems: Counter[str] = Counter()
    for first, last, label in _runs(labels):
        if not _is_topic(label):
            continue
        inside = lines[first : last + 1]
        if any(piece.kind is Kind.ITEM and piece.region == inside[0].region for piece in inside[1:]):
            problems["several items of a list have the same topic"] += 1
        elif count_words(text[inside[0].start : inside[-1].end]) < MIN_BLOCK_WORDS:
            problems[f"a block has less than {MIN_BLOCK_WORDS} words"] += 1
        else:
            continue
        labels[first : last + 1] = [MAIN] * len(inside)
    return labels, problems


def _in_company(labels: Sequence[str]) -> list[str]:
    """The labels without blocks that stand alone between waits: one block saves no time."""
    out: list[str] = []
    for stretch in _stretches(labels):
        topics = [label for _, _, label in _runs(stretch) if _is_topic(label)]
        out += stretch if len(topics) > 1 else [MAIN if _is_topic(label) else label for label in stretch]
    return out


def _stretches(labels: Sequence[str]) -> list[list[str]]:
    """Cut before each wait."""
    out: list[list[str]] = [[]]
    for label in labels:
        if label == WAIT:
            out.append([])
        out[-1].append(label)
    return out


def _runs(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """First and last line, and label, of lines in a row with the same label."""
    out = []
    for label, group in groupby(enumerate(labels), key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        out.append((numbers[0], numbers[-1], label))
    return out


def _is_topic(label: str) -> bool:
    return label not in (MAIN, WAIT)
