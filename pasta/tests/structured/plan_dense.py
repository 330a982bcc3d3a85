"""The reference for structured answers: one dense pass over all threads, under the mask that the plan means.

What a value's thread holds is plain text after the prompt: what the thread that it goes on from held, then its own
tokens. Here that is built anew from the result alone, without the engine's segments.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.events import TokenPut
from pasta.engine.native import NativeEngine
from pasta.structured import StructuredResult
from pasta.structured.errors import ConstraintError
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.plan import Kind, Plan
from pasta.structured.scanner import Scanner

TOLERANCE = 1e-4
TAIL = tuple(bytes([letter]) for letter in b",}] \t\r\n\v\f")  # what may come after a value


def check_against_dense(engine: NativeEngine, plan: Plan, result: StructuredResult) -> int:
    """Every value is what the dense pass would have chosen, token by token, under a fresh matcher.

    Returns how many choices were compared.
    """
    compared = 0
    logits, contexts = dense_logits(engine, result), context_lengths(result)
    grammars, vocabulary = Grammars.of(engine.vocabulary), engine.vocabulary
    lead = vocabulary.lead(result.prompt_ids)
    said = {field.pointer: field.text for field in result.fields}
    for value in plan.values:
        thread = next((each for each in result.threads if each.topic == value.pointer), None)
        if value.pointer == "":
            thread = result.threads[0]
        if thread is None or (value.pointer and not thread.token_ids):
            continue  # known beforehand, or behind a gate that is closed
        before = value.lead if value.pointer else lead
        matcher = grammars.gate(before) if value.kind is Kind.GATE else grammars.compile(value.schema, before)
        rows, tokens, text = logits[thread.id], [*thread.token_ids], b""
        place = contexts[thread.id]
        shift = 0 if thread.parent is None else 1  # the main thread's rows begin with the prompt's last token
        while True:
            forced = matcher.forced_tokens() if place or value.pointer else []
            if not text and value.pointer and (rest := matcher.forced()).endswith(b'"'):  # a string begins
                forced += (quote := vocabulary.encode(rest.decode()))
                for token in quote:
                    matcher.consume(token)
            assert tokens[place : place + len(forced)] == forced
            text += b"".join(vocabulary.octets[token] for token in forced)
            place += len(forced)
            row = rows[place - shift]
            scanner = Scanner()
            scanner.push(text)
            matcher.in_long_number = scanner.in_long_number
            allowed = allowed_by(matcher, len(row))
            best = row.masked_fill(~allowed, -torch.inf).max()
            compared += 1
            if place == len(tokens):  # the token that ended the value, which entered no thread
                candidates = [int(token) for token in (row >= best - TOLERANCE).logical_and(allowed).nonzero()[:, 0]]
                ends = [text + ending(matcher.copy(), vocabulary, token) for token in candidates]
                if value.kind is Kind.GATE:
                    assert any((b"{" in end) == (value.pointer not in said) for end in ends)
                else:
                    length = value.kind is Kind.COUNT and str(len(find(result.value, value.pointer)))
                    whole = (length or said[value.pointer] or "null").encode()
                    assert any(end.lstrip(b" ").startswith(whole) for end in ends), (value.pointer, whole, ends)
                break
            assert allowed[tokens[place]] and row[tokens[place]] >= best - TOLERANCE
            matcher.consume(tokens[place])
            text += vocabulary.octets[tokens[place]]
            place += 1
    return compared


def find(value: Any, pointer: str) -> Any:
    """What stands at a pointer."""
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def ending(matcher: Matcher, vocabulary: Vocabulary, token: int) -> bytes:
    """What a token that ends a value writes, and what is forced after it."""
    if token in vocabulary.eos:
        return b""
    piece = vocabulary.octets[token]
    if piece[:1] in TAIL and may_end(matcher):
        return piece
    matcher.consume(token)
    return piece + matcher.forced()


def may_end(matcher: Matcher) -> bool:
    try:
        matcher.end()
    except ConstraintError:
        return False
    return True


def allowed_by(matcher: Matcher, size: int) -> torch.Tensor:
    mask = np.zeros((1, -(-size // 32)), dtype=np.int32)
    matcher.fill_all([matcher], mask)
    return torch.from_numpy(np.unpackbits(mask.view(np.uint8), bitorder="little")[:size].astype(bool))


def dense_logits(engine: NativeEngine, result: StructuredResult) -> dict[int, torch.Tensor]:
    """By thread: the logits after each of its own tokens; the main thread's begin with the prompt's last."""
    ids: list[int] = list(result.prompt_ids)
    positions = list(range(len(ids)))
    visible = [set(range(place + 1)) for place in positions]
    last = {0: len(ids) - 1}  # by thread: its last token so far
    places: dict[int, list[int]] = {0: [len(ids) - 1]}
    for thread in result.threads:  # a thread comes after the one that it goes on from
        if thread.parent is not None:
            last[thread.id], places[thread.id] = last[thread.parent], []
        for token, position in zip(thread.token_ids, thread.position_ids, strict=True):
            before, place = last[thread.id], len(ids)
            assert position == positions[before] + 1
            ids.append(token)
            positions.append(position)
            visible.append(visible[before] | {place})
            last[thread.id] = place
            places[thread.id].append(place)
    mask = np.zeros((len(ids), len(ids)), dtype=bool)
    for row, seen in enumerate(visible):
        mask[row, list(seen)] = True
    scores = torch.zeros(1, 1, *mask.shape).masked_fill_(~torch.from_numpy(mask), torch.finfo(torch.float32).min)
    engine.model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = engine.model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.tensor([positions]),
            attention_mask=scores,
            use_cache=False,
        ).logits[0]
    engine.model.set_attn_implementation("pasta")
    return {thread: logits[own] for thread, own in places.items()}


def context_lengths(result: StructuredResult) -> Counter[int]:
    """By thread: how many of its own tokens are its context. The request must have been watched."""
    puts = (event for output in result.outputs for event in output.events if isinstance(event, TokenPut))
    return Counter(put.thread for put in puts if put.inserted)


def contexts(result: StructuredResult, vocabulary: Vocabulary) -> dict[str, str]:
    """By pointer: the text that a value's thread held when the value began."""
    threads = {thread.id: thread for thread in result.threads}
    lengths = context_lengths(result)

    def held(thread: int, count: int) -> list[int]:
        own = threads[thread]
        before = [] if own.parent is None else held(own.parent, len(threads[own.parent].token_ids))
        return [*before, *own.token_ids[:count]]

    return {each.topic: vocabulary.decode(held(each.id, lengths[each.id])) for each in result.threads if each.token_ids}
