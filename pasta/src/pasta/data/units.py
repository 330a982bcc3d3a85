"""An answer as tokens, cut into units whose dependence can be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pasta.core.vocabulary import Vocabulary
from pasta.data.cues import concludes, leans_back
from pasta.data.example import Example
from pasta.data.pieces import Kind, Piece, holds_fixed, pieces, regions
from pasta.data.topics import topic_of
from pasta.lang import MAX_TOKENS
from pasta.lang.checker import MIN_BLOCK_WORDS
from pasta.text.words import count_words


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece and the parent's text before it, such as its number; both as tokens."""

    piece: Piece
    gap: tuple[int, ...]
    gap_text: str
    ids: tuple[int, ...]
    is_block: bool  # long enough, and of a kind that may be written apart
    leans: bool  # begins as if in the middle of a thought: "This …", "Then …"
    sums_up: bool  # begins like a conclusion
    hint: tuple[int, ...]  # what stands for it where it is hidden behind its topic

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Answer:
    """An example as the model reads it."""

    example: Example
    prompt: tuple[int, ...]
    units: tuple[Unit, ...]
    tail: tuple[int, ...]  # the tokens after the last unit

    @property
    def length(self) -> int:
        return len(self.tail) + sum(len(unit.gap) + unit.length for unit in self.units)


def cut(
    example: Example, vocabulary: Vocabulary, *, max_units: int, min_tokens: int, max_prompt: int, hints: bool = True
) -> Answer:
    """Cuts an answer into sentences and list items; into paragraphs, where that would be too many."""
    text = example.text
    found = pieces(text)
    if len(found) > max_units:
        found = _coarse(text)
    prompt = vocabulary.encode_chat(example.messages)
    units = []
    at = 0
    lead = vocabulary.lead(prompt)  # goes with whatever comes first
    for piece in found:
        gap, body = text[at : piece.start], text[piece.start : piece.end]
        if gap:
            gap_ids, lead = tuple(vocabulary.encode(lead + gap)), ""
        else:
            gap_ids = ()
        ids, lead = tuple(vocabulary.encode(lead + body)), ""
        is_block = (
            piece.kind in (Kind.ITEM, Kind.SENTENCE)
            and min_tokens <= len(ids) <= 10 * MAX_TOKENS - 2
            and count_words(body) >= MIN_BLOCK_WORDS
            and not holds_fixed(body)
        )
        hint = tuple(vocabulary.encode(f" [{topic_of(body)}]")) if hints else ()
        is_prose = piece.kind is Kind.SENTENCE
        units.append(
            Unit(
                piece,
                gap=gap_ids,
                gap_text=gap,
                ids=ids,
                is_block=is_block,
                leans=is_prose and leans_back(body),
                sums_up=is_prose and concludes(body),
                hint=hint,
            )
        )
        at = piece.end
    tail = tuple(vocabulary.encode(lead + text[at:])) if text[at:] else ()
    return Answer(example, tuple(prompt[-max_prompt:]), tuple(units), tail)


def _coarse(text: str) -> list[Piece]:
    """One piece for each paragraph; lists keep their items."""
    found = []
    for index, region in enumerate(regions(text)):
        parts: Sequence[tuple[int, int]] = region.parts
        if region.kind is Kind.SENTENCE and parts:
            parts = ((parts[0][0], parts[-1][1]),)
        found += [Piece(region.kind, start, end, index) for start, end in parts]
    return found
