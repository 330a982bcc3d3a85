"""Logprobs of an answer's text, token by token in reading order, in OpenAI's shapes. Tags and topics are left out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pasta.core.commands import MAIN
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.results import Result, ThreadResult
from pasta.engine.base import TokenLogprobs

LEAST = -9999.0  # what OpenAI's API says in place of minus infinity, which JSON has no word for


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token as it spells in the middle of a text, where part of a character is a replacement character."""

    text: str
    octets: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Chosen(Candidate):
    """A token of the text, and the likeliest in its place."""

    top: tuple[Candidate, ...]


def chosen_tokens(result: Result, vocabulary: Vocabulary) -> list[Chosen]:
    """The tokens of the answer's text; those that a stop string cut off, and part of a last character, are left out."""
    pieces, octets = vocabulary.pieces, vocabulary.octets
    told = list(in_order(result, vocabulary))
    ids = [token for token, _ in told]
    count = len(ids)
    if len(vocabulary.decode(ids)) > len(result.text):
        # Where a token spells more than the text's end, it is the last; else the last that ends there: a character may
        # take several, and has its length with the first of them.
        ends, length = range(count), len(result.text)

        def spelled(end: int) -> int:
            return len(vocabulary.decode(ids[:end]))

        count = max(bisect_left(ends, length, key=spelled), bisect_right(ends, length, key=spelled) - 1)
    return [
        Chosen(
            pieces[token],
            octets[token],
            max(own.logprob, LEAST),
            tuple(Candidate(pieces[other], octets[other], max(value, LEAST)) for other, value in own.top),
        )
        for token, own in told[:count]
        if own is not None
    ]


def in_order(result: Result, vocabulary: Vocabulary) -> Iterator[tuple[int, TokenLogprobs | None]]:
    """Ordinary tokens as they are read, each block where its promise stands."""
    children: dict[int, list[ThreadResult]] = {}
    for thread in result.threads:
        if thread.parent is not None:
            children.setdefault(thread.parent, []).append(thread)
    tags = vocabulary.tags

    def walk(thread: ThreadResult) -> Iterator[tuple[int, TokenLogprobs | None]]:
        blocks = iter(children.get(thread.id, ()))
        topic = False
        for token, told in zip(thread.token_ids, thread.logprobs or (), strict=False):
            if tags is None or token not in tags:
                if not topic:
                    yield token, told
                continue
            topic = token == tags.promise
            if token in tags.length_of:
                for child in blocks:
                    yield from walk(child)
                    break

    yield from walk(result.threads[MAIN])


def as_chat(tokens: Sequence[Chosen]) -> dict[str, Any]:
    content = [{**entry(token), "top_logprobs": [entry(other) for other in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


def as_text(tokens: Sequence[Chosen]) -> dict[str, Any]:
    offsets, at = [], 0
    for token in tokens:
        offsets.append(at)
        at += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [{other.text: other.logprob for other in token.top} for token in tokens],
        "text_offset": offsets,
    }


def entry(token: Candidate) -> dict[str, Any]:
    """The bytes of all tokens, put together, are those of the text, also where a character takes several tokens."""
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.octets)}
