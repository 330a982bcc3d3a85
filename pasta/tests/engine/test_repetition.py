"""The repetition penalty against transformers', and against a reference that gathers what a thread sees one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from test_stitched import contexts

from dense import fly, pilot
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all
from pasta.decoding.prompts import make_request
from pasta.decoding.results import Result
from pasta.engine.native import NativeEngine
from pasta.engine.request import Row
from pasta.models.tags import add_tags
from support import FAMILIES, PilotedEngine, Stepper, byte_tokenizer, tiny_engine, tiny_model

PROMPTS = ["Hello!", "Compare cats and dogs, and say which you like.", "Why?", "Name four fruits."]
WAYS = [1.3, 1.0, 2.5, 0.7]


@dataclass(frozen=True)
class Chosen:
    """A choice, and all that it was made from."""

    request: Any
    path: tuple[int, ...]
    index: int
    logits: torch.Tensor
    expect: Expect
    token: int


class Recording(NativeEngine):
    """Keeps every choice as the engine made it, before a pilot puts another token."""

    def _choose(self, logits: torch.Tensor, rows: list[Row]) -> list[int]:
        tokens = super()._choose(logits, rows)
        for row, own, token in zip(rows, logits, tokens, strict=True):
            thread = row.handle
            place = thread.request, thread.path, self.choices(thread)
            self.chosen.append(Chosen(*place, own.clone(), row.expect, token))
        return tokens


class RecordingEngine(PilotedEngine, Recording):
    def __init__(self) -> None:
        model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
        add_tags(model, vocabulary)
        super().__init__(model, vocabulary, slots=8192)
        self.chosen: list[Chosen] = []


def answer(engine: NativeEngine, **options: Any) -> list[Result]:
    """All prompts at once, each with a penalty of its own."""
    decoder = Stepper(engine)
    jobs = [
        decoder.submit(make_request(engine, prompt, repetition_penalty=penalty, **options))
        for prompt, penalty in zip(PROMPTS, WAYS, strict=True)
    ]
    while decoder.busy:
        decoder.step()
    return [job.result() for job in jobs]


def slow_choice(engine: NativeEngine, made: Chosen, seen: Sequence[int], spared: Sequence[int]) -> int:
    way: SamplingParams = made.request.params
    grammar = engine.grammar
    assert grammar is not None
    logits = made.logits.tolist()
    for token in set(seen) - set(spared):
        factor = torch.tensor(way.repetition_penalty)
        logit = torch.tensor(logits[token])
        logits[token] = (logit / factor if logit > 0 else logit * factor).item()
    logits[grammar.tags.promise] = (torch.tensor(logits[grammar.tags.promise]) + way.parallelism).item()
    assert engine._forbidden is not None
    forbidden = set(engine._forbidden[made.expect].nonzero()[:, 0].tolist())
    allowed = [token for token in range(len(logits)) if token not in forbidden]
    return max(allowed, key=lambda token: logits[token])


@pytest.mark.parametrize("positions", ["predicted", "stitched"])
@pytest.mark.parametrize("course", ["nested", "late-sync", "free"])
def test_forks_and_joins_against_the_slow_reference(positions: str, course: str) -> None:
    """Penalties of all kinds in one step, and three courses: children that fork themselves, with syncs that wait;
    a sync that finds its child at its end; and promises as they come by a bias, tags being spared."""
    engine = RecordingEngine()
    tags, eos = engine.vocabulary.tags, engine.vocabulary.eos
    assert tags is not None
    options: dict[str, Any] = {"positions": positions, "max_tokens": 160}
    if course == "nested":
        pilot(engine, 1, 12)
    elif course == "late-sync":
        topic = dict(enumerate([tags.promise, *engine.vocabulary.encode("cat"), tags.lengths[0]], 3))
        fly(engine, {(): {**topic, 30: tags.sync, 80: -1}, (0,): {15: tags.close}})
    else:
        options |= {"parallelism": 6.0, "max_tokens": 400}
    results = answer(engine, **options)
    requests = list(dict.fromkeys(made.request for made in engine.chosen))
    checked = without = with_tags = 0
    for request, result, penalty in zip(requests, results, WAYS, strict=True):
        assert request.params.repetition_penalty == penalty
        assert result.annotated.count("<sync/>") == {"nested": 3, "late-sync": 1, "free": 0}[course]
        assert len(result.threads) == 2 if course == "late-sync" else len(result.threads) > 5
        seen = contexts(result.prompt_ids, result.tree)
        for made in engine.chosen:
            if made.request is request and (made.path, made.index) in seen:  # not: a promise that a limit cut off
                context = seen[made.path, made.index][0]
                checked += 1
                assert made.token == slow_choice(engine, made, context, {*tags.all, *eos})
                without += made.token != slow_choice(engine, made, (), ())
                with_tags += made.token != slow_choice(engine, made, context, eos)
    assert checked > 300
    assert without > 100, "the penalty decides"
    assert with_tags or course != "free", "and so does it that tags are spared"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tags", [False, True])
def test_without_tags_it_is_transformers_generate(family: str, tags: bool) -> None:
    engine = tiny_engine(family, tags=tags)
    # No end of a message in the prompt: transformers would penalise it.
    prompt = engine.vocabulary.encode("Compare cats and dogs. ")
    plain, eos = tiny_model(family), sorted(engine.vocabulary.eos)
    results = []
    for penalty in (1.3, 1.0):
        with torch.inference_mode():
            expected = plain.generate(
                torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=60,
                do_sample=False, repetition_penalty=penalty, eos_token_id=eos,
            )[0, len(prompt) :].tolist()  # fmt: skip
        options = {"repetition_penalty": penalty, "max_tokens": 60, "plain": True}
        result = generate(engine, prompt, **options)
        results.append(list(result.threads[0].token_ids))
        assert results[-1] == (expected[:-1] if expected[-1] in eos else expected)
    assert results[0] != results[1] or family == "gemma", "which ends after one token"


def test_the_end_of_a_response_is_spared() -> None:
    """It stands in every prompt that a chat template made."""
    engine = tiny_engine(tags=False)
    end = min(engine.vocabulary.eos)
    prompt = [*engine.vocabulary.encode("Hi there"), end]
    handle = engine.open(prompt, Expect.TEXT, SamplingParams(repetition_penalty=1.3))
    logits = torch.randn(1, 258, generator=torch.Generator().manual_seed(0))
    logits[0, end] = 2.0
    row = engine._repetition.penalise(logits, [handle.request.deciding[-1]])[0]
    for token, (before, after) in enumerate(zip(logits[0], row, strict=True)):
        penalised = before / 1.3 if before > 0 else before * 1.3
        assert after == (penalised if token in prompt[:-1] else before)


def test_the_company_changes_nothing() -> None:
    engine = tiny_engine(slots=8192)
    options = {"temperature": 1.0, "min_p": 0.05, "seed": 3, "max_tokens": 60, "parallelism": 5.0}
    together = answer(engine, **options)
    for prompt, penalty, result in zip(PROMPTS, WAYS, together, strict=True):
        alone = generate(engine, prompt, repetition_penalty=penalty, **options)
        assert alone.annotated == result.annotated


def test_chunks_and_cached_blocks_are_seen() -> None:
    engine = tiny_engine(tags=False)
    prompt = "Say in a few words why the sky is blue, and whether the sea is blue for the same reason, or another. "
    options = {"repetition_penalty": 1.5, "max_tokens": 40}
    expected = generate(engine, prompt, **options).text
    assert expected != generate(engine, prompt, max_tokens=40).text
    engine.chunk = 24
    for _ in range(2):  # the second finds what the first computed
        assert generate(engine, prompt, cache_salt="one", **options).text == expected
    decoder = Stepper(engine)
    job = decoder.submit(make_request(engine, prompt, cache_salt="one", **options))
    assert engine.cached_tokens(job.handles[0]) >= 64
    decoder.abort(job)


def test_who_has_ended_leaves_no_row_behind() -> None:
    engine = tiny_engine(slots=8192)
    for number in range(6):
        generate_all(engine, PROMPTS, repetition_penalty=1.2, max_tokens=20, plain=True, seed=number)
    decoder = Stepper(engine)
    for _ in range(6):  # cancelled on the way
        jobs = [decoder.submit(make_request(engine, prompt, repetition_penalty=1.2)) for prompt in PROMPTS]
        for _ in range(3):
            decoder.step()
        for job in jobs:
            decoder.abort(job)
    assert engine._repetition._memories.used <= 3 * len(PROMPTS)


def test_without_a_penalty_nothing_is_kept() -> None:
    engine = tiny_engine()
    generate_all(engine, PROMPTS, max_tokens=20, parallelism=6.0)
    assert engine._repetition._table.numel() == 0
