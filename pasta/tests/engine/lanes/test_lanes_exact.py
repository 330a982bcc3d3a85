"""Answers as streams of lanes, under vLLM's contract, are what the native engine decodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from simulated import Simulated, simulated_engine

from dense import TOLERANCE, dense, rows_by_thread, script
from pasta.core.layout import lay_out
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.tree import depth_of
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, replay
from pasta.decoding.prompts import make_request
from pasta.decoding.runner import runner_of
from pasta.engine.native import NativeEngine
from pasta.errors import UsageError
from pasta.models.tags import add_tags
from pasta.models.taught import mark
from support import byte_tokenizer, tiny_engine, tiny_model

PROMPTS = ["Compare cats and dogs.", "Hello!", "Why is the sky blue?"]


def lively(**options: Any) -> SamplingParams:
    """Of a model that knows nothing: drawn tokens, tags among them."""
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags()
    tags = vocabulary.tags
    assert tags is not None
    bias = ((tags.sync, 4.0), (tags.close, 3.0), *((length, 3.0) for length in tags.lengths[:4]))
    given = {"temperature": 1.0, "parallelism": 3.0, "logit_bias": bias, "max_tokens": 90, **options}
    return SamplingParams(**given)  # type: ignore[arg-type]


def both(**options: Any) -> tuple[Any, Any, Simulated]:
    native = tiny_engine()
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    engine, core = simulated_engine(model, vocabulary, **options)
    return native, engine, core


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"max_threads": 2}, {"budget": 7}),  # some threads wait for a turn; steps compute part of a request
    ({"sequential": True}, {"budget": 20}),
    ({"max_thread_tokens": 40, "repetition_penalty": 1.1}, {"preempts": 0.1, "budget": 30}),
]


@pytest.mark.parametrize("options,stress", CASES, ids=["roomy", "turns", "sequential", "preempted"])
def test_answers_are_those_of_the_native_engine(options: dict[str, Any], stress: dict[str, Any]) -> None:
    native, engine, core = both(**stress)
    forked = nested = joined = 0
    for seed in (0, 3):
        params = lively(seed=seed, **options)
        ours, theirs = generate_all(engine, PROMPTS, params), generate_all(native, PROMPTS, params)
        for one, other in zip(ours, theirs, strict=True):
            assert one.annotated == other.annotated
            assert one.finish_reason == other.finish_reason
            assert [each.position_ids for each in one.threads] == [each.position_ids for each in other.threads]
            forked += len(one.threads) > 1
            nested += any(each.parent not in (None, 0) for each in one.threads)
            joined += "<sync/>" in one.annotated
    assert forked >= 3 and joined >= 2
    assert nested >= 1
    assert len(core.free) == core.blocks and not core.running
    assert (core.preempted > 5) == ("preempts" in stress)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_both_ends_let_blocks_lie_as_deep_as_the_model_was_taught(depth: int) -> None:
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    mark(model, Taught(depth=depth))
    engine, _ = simulated_engine(model, vocabulary)
    native = tiny_engine()
    mark(native.model, Taught(depth=depth))
    native = NativeEngine(native.model, native.vocabulary, slots=4096)
    found = []
    for seed in (0, 3):
        params = lively(seed=seed, parallelism=5.0)
        ours, theirs = generate_all(engine, PROMPTS, params), generate_all(native, PROMPTS, params)
        assert [one.annotated for one in ours] == [other.annotated for other in theirs]
        found += [depth_of(one.tree) for one in ours]
    assert max(found) == depth


@pytest.mark.parametrize("length,body", [(2, 12), (1, 30)], ids=["right", "too-short"])
def test_every_choice_is_made_from_the_logits_of_one_dense_pass(length: int, body: int) -> None:
    native, engine, core = both(budget=40)
    tags = engine.vocabulary.tags
    assert tags is not None and core.sampler._forbidden is not None
    steps, end = script(tags, engine.vocabulary.encode("cat"), length, body), min(engine.vocabulary.eos)

    def pilot(path: tuple[int, ...], index: int) -> int | None:
        token = steps[path].get(index)
        return end if token == -1 else token

    core.pilot = pilot
    core.sampler._forbidden[:8, list(tags.all | engine.vocabulary.eos)] = True  # nothing but the pilot forks
    result = generate(engine, PROMPTS[0])
    assert len(result.threads) == 6 and result.finish_reason == "stop"
    logits = dense(native, lay_out(result.prompt_ids, result.tree, tags, Positions()))
    seen = {(path, index): own for path, index, own in core.seen}
    rows = rows_by_thread(result.tree, len(result.prompt_ids))
    assert set(rows) <= set(seen)
    for place, row in rows.items():
        torch.testing.assert_close(seen[place], logits[row], rtol=0, atol=TOLERANCE)


def test_a_script_is_played_by_the_workers() -> None:
    native, engine, _ = both()
    tree = generate(native, PROMPTS[0], lively(seed=3)).tree
    ours, theirs = replay(engine, PROMPTS[0], tree), replay(native, PROMPTS[0], tree)
    assert ours.annotated == theirs.annotated
    assert len(ours.threads) > 1 and ours.steps == theirs.steps


def test_an_answer_without_room_is_cut_in_reading_order_and_leaves_nothing() -> None:
    _, engine, core = both(room=90)
    whole = generate(both()[1], PROMPTS[0], lively(seed=0))
    cut = generate(engine, PROMPTS[0], lively(seed=0))
    assert cut.finish_reason == "length"
    assert len(cut.text) > 5 and whole.text.startswith(cut.text) and len(cut.text) < len(whole.text)
    assert len(core.free) == core.blocks and not core.running


def test_a_prompt_without_room_is_refused_and_the_others_go_on() -> None:
    native, engine, core = both(room=90)
    long = list(range(97, 107)) * 9
    runner = runner_of(engine)
    asked = [make_request(engine, prompt, lively(seed=3, max_tokens=20)) for prompt in (PROMPTS[1], long, PROMPTS[2])]
    first, refused, last = runner.submit(asked)
    for state in (first, refused, last):
        assert state.done.wait(60)
    with pytest.raises(UsageError, match=r"prompt is 90 tokens long, and vLLM's max_model_len is 90 \(shorten"):
        refused.result()
    assert [first.result().annotated, last.result().annotated] == [
        generate(native, prompt, lively(seed=3, max_tokens=20)).annotated for prompt in PROMPTS[1:]
    ]
    assert len(core.free) == core.blocks and not core.running


def test_what_vllm_cannot_do_is_refused_at_once() -> None:
    _, engine, core = both()
    for options in ({"logprobs": 1}, {"positions": "stitched"}):
        with pytest.raises(UsageError, match="vLLM"):
            generate(engine, PROMPTS[0], **options)
    assert not core.running
