"""The native engine decodes what one dense forward pass over the merged response says."""

from __future__ import annotations

import pytest
import torch
import transformers

from dense import check_against_dense, pilot
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, replay
from pasta.decoding.prompts import make_request
from pasta.engine.base import OutOfSlots
from pasta.engine.native import NativeEngine
from pasta.errors import PastaError, UnsupportedModel, UsageError
from support import FAMILIES, SIZES, Stepper, byte_tokenizer, tiny_engine, tiny_model

PROMPT = "Compare cats and dogs."


@pytest.mark.parametrize("positions", ["predicted", "fixed:40"])
@pytest.mark.parametrize("length,body", [(1, 6), (2, 30), (9, 4)], ids=["right", "too-short", "too-long"])
def test_parallel_equals_dense(positions: str, length: int, body: int) -> None:
    engine = tiny_engine()
    pilot(engine, length, body)
    result = generate(engine, PROMPT, positions=positions)
    assert result.finish_reason == "stop"
    assert len(result.threads) == 6
    check_against_dense(engine, [result], positions)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_equals_dense(family: str) -> None:
    engine = tiny_engine(family)
    pilot(engine, 1, 8)
    check_against_dense(engine, [generate(engine, PROMPT)], "predicted")


def test_several_requests_in_one_batch_equal_dense() -> None:
    engine = tiny_engine(slots=4096)
    pilot(engine, 2, 12)
    decoder = Stepper(engine)
    jobs = []
    for prompt in (PROMPT, "Hello!", "Why is the sky blue, and the sea too? Say more."):
        jobs.append(decoder.submit(make_request(engine, prompt)))
        for _ in range(5):  # they join a batch that is already running
            decoder.step()
    while decoder.busy:
        decoder.step()
    check_against_dense(engine, [job.result() for job in jobs], "predicted")
    assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize("max_threads", [1, 2, 3])
def test_waiting_for_a_turn_changes_no_token(max_threads: int) -> None:
    results = []
    for limit in (16, max_threads):
        engine = tiny_engine()
        pilot(engine, 1, 7)
        results.append(generate(engine, PROMPT, max_threads=limit))
        check_against_dense(engine, [results[-1]], "predicted")
    assert results[0].annotated == results[1].annotated
    assert results[1].steps >= results[0].steps + (max_threads < 3)


def test_fragmented_blocks_change_nothing() -> None:
    engine = tiny_engine(slots=2048)
    pilot(engine, 2, 12)
    expected = generate(engine, PROMPT).annotated
    held = engine.pool.allocate(engine.pool.blocks)
    engine.pool.release(held[::2])
    assert generate(engine, PROMPT).annotated == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_without_annotations_it_is_transformers_greedy_generate(family: str) -> None:
    engine = tiny_engine(family, tags=False)
    result = generate(engine, PROMPT, max_tokens=40)
    plain, eos = tiny_model(family), engine.vocabulary.eos
    prompt = torch.tensor([result.prompt_ids])
    with torch.inference_mode():
        expected = plain.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=40,
            do_sample=False,
            eos_token_id=list(eos),
        )
    new = expected[0, prompt.shape[1] :].tolist()
    assert list(result.threads[0].token_ids) == (new[:-1] if new[-1] in eos else new)


def test_an_answer_that_outgrows_the_pool_is_cut_and_leaves_nothing() -> None:
    engine = tiny_engine(tags=False, slots=128)
    decoder = Stepper(engine)
    long = decoder.submit(make_request(engine, "A" * 20, max_tokens=400))
    short = decoder.submit(make_request(engine, "B", max_tokens=5))
    while decoder.busy:
        decoder.step()
    assert short.result().finish_reason == long.result().finish_reason == "length"
    assert len(short.result().threads[0].token_ids) == 5
    used = len(long.request.prompt) + len(long.result().threads[0].token_ids)
    assert used in (128, 129), "it got all that there is"  # the last token needs no slot
    assert engine.pool.free_slots == engine.pool.slots


def test_room_is_known_beforehand() -> None:
    engine = tiny_engine(tags=False, slots=128)
    assert engine.can_allocate(128) and not engine.can_allocate(129)
    thread = engine.open([65] * 100, None, SamplingParams())
    assert not engine.can_allocate(1), "the rest of its last block is the request's own"
    assert engine.can_allocate(28, thread) and not engine.can_allocate(29, thread)
    for place in range(100, 128):
        engine.feed(thread, 65, place, None)
    with pytest.raises(OutOfSlots):
        engine.feed(thread, 65, 128, Expect.TEXT)
    assert thread.request.waiting == 128 and not thread.request.deciding, "a refusal takes nothing"
    while thread.request.waiting:
        assert engine.step() == []
    engine.close(thread)
    assert engine.can_allocate(128)


def test_a_prompt_is_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not token by token: a long one would keep everybody waiting for the lock."""
    engine = tiny_engine(tags=False, slots=8192)
    monkeypatch.setattr(engine, "feed", None)
    thread = engine.open(list(range(200)) * 20, Expect.TEXT, SamplingParams())
    assert (thread.request.waiting, thread.request.backlog) == (4000, 3999)
    engine.close(thread)


def test_segments_are_limited_before_anything_changes() -> None:
    engine = tiny_engine()
    engine.max_segments = 5
    thread = engine.open([65], None, SamplingParams())
    children = [engine.fork(thread), engine.fork(thread)]
    for too_many in (lambda: engine.fork(thread), lambda: engine.join(thread, children)):
        with pytest.raises(PastaError, match="an answer may have 5 segments"):
            too_many()
    assert len(thread.request.table.sees) == 5 and thread.forks == 2


def test_a_prompt_larger_than_the_pool_leaves_nothing_behind() -> None:
    engine = tiny_engine(tags=False, slots=64)
    with pytest.raises(OutOfSlots):
        generate(engine, "A" * 100)
    assert engine.pool.free_slots == engine.pool.slots


def test_a_request_that_cannot_be_made_leaves_nothing_of_the_others_behind() -> None:
    engine = tiny_engine(slots=64)
    with pytest.raises(UsageError, match="empty"):
        generate_all(engine, ["Hi", ""])
    with pytest.raises(OutOfSlots):
        generate_all(engine, ["Hi", "A" * 100])
    assert engine.pool.free_slots == engine.pool.slots


def test_a_script_that_cannot_be_played_leaves_nothing_behind() -> None:
    engine = tiny_engine()
    tags = engine.vocabulary.tags
    assert tags is not None
    with pytest.raises(UsageError, match=r"cannot be played.*cannot come here"):
        replay(engine, "Hi", (*engine.vocabulary.encode("ab"), tags.close))
    assert engine.pool.free_slots == engine.pool.slots


def test_cancelled_requests_free_every_slot() -> None:
    engine = tiny_engine(slots=2048)
    pilot(engine, 2, 12)
    for steps in range(0, 40, 3):
        decoder = Stepper(engine)
        jobs = [decoder.submit(make_request(engine, PROMPT)) for _ in range(3)]
        for _ in range(steps):
            decoder.step()
        for job in jobs:
            decoder.abort(job)
        assert not decoder.busy
        assert engine.pool.free_slots == engine.pool.slots
        assert engine.step() == []


def test_seeds_are_reproducible_and_independent_of_the_company() -> None:
    engine = tiny_engine()
    options = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 30, "seed": 7, "sequential": True}
    alone = generate(engine, PROMPT, **options)
    together = generate_all(engine, ["Hello!", PROMPT, "Why?"], **options)[1]
    other = generate(engine, PROMPT, **{**options, "seed": 8})
    assert alone.text == together.text != other.text


def test_unsupported_models_are_refused_by_name() -> None:
    small = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 258}
    cases = {
        "recurrent": (transformers.MambaConfig(**small, state_size=4), "carries a state from token to token"),
        "hybrid": (
            transformers.Qwen3NextConfig(**SIZES, layer_types=["linear_attention", "full_attention"], num_experts=4),
            "carries a state|layers of another kind than attention",
        ),
        "alibi": (transformers.BloomConfig(**small, n_head=2), "takes no positions"),
        "dynamic": (transformers.DogeConfig(**SIZES), "make attention masks of their own"),
    }
    for name, (config, reason) in cases.items():
        model = transformers.AutoModelForCausalLM.from_config(config)
        with pytest.raises(UnsupportedModel, match=rf"^{name} \(.*\) cannot be run: it.*({reason})[^\n]*$"):
            NativeEngine(model, Vocabulary(byte_tokenizer()), name=name)


def test_a_window_makes_no_difference_within_it() -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.MistralConfig(**SIZES, sliding_window=128))
    engine = NativeEngine(model, Vocabulary(byte_tokenizer()), name="window", context=128)
    assert generate(engine, "Hi", max_tokens=500).finish_reason in ("length", "stop")
