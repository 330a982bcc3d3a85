"""Logprobs of an answer's text, token by token in reading order, in OpenAI's shapes. Tags and topics are left out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pasta.core.commands import MAIN
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.results import Result, ThreadResult
from pasta.engine.base import TokenLogprobs

LEAST = -9999.0  # what OpenAI's API says in place of minus infinity, which JSON has no word for


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token of the text as it spells in the middle of one, and the likeliest in its place."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...]


def chosen_tokens(result: Result, vocabulary: Vocabulary) -> list[Chosen]:
    """The tokens of the answer's text; those that a stop string cut off are left out."""
    pieces = vocabulary.pieces
    told = list(in_order(result, vocabulary))
    ids = [token for token, _ in told]
    count = len(ids)
    if len(vocabulary.decode(ids)) > len(result.text):
        count = bisect_left(range(count), len(result.text), key=lambda end: len(vocabulary.decode(ids[:end])))
    return [
        Chosen(
            pieces[token],
            max(own.logprob, LEAST),
            tuple((pieces[other], max(value, LEAST)) for other, value in own.top),
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
    content = [
        {
            **entry(token.text, token.logprob),
            "top_logprobs": [entry(text, value) for text, value in token.top],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def as_text(tokens: Sequence[Chosen]) -> dict[str, Any]:
    offsets, at = [], 0
    for token in tokens:
        offsets.append(at)
        at += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [dict(token.top) for token in tokens],
        "text_offset": offsets,
    }


def entry(text: str, logprob: float) -> dict[str, Any]:
    """A token; part of a character has no bytes that could be told apart."""
    return {"token": text, "logprob": logprob, "bytes": [] if "\ufffd" in text else list(text.encode())}
