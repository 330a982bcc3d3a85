"""The native engine decodes what one dense forward pass over the merged response says."""

from __future__ import annotations

import pytest
import torch
import transformers

from pasta.decode import Decoder, generate, generate_all, make_request
from pasta.engine.base import OutOfSlots
from pasta.engine.native import NativeEngine
from pasta.errors import UnsupportedModel
from pasta.grammar import Expect
from pasta.layout import IGNORE, Block, Layout, Positions, Tree, lay_out
from pasta.result import Result
from pasta.vocab import Tags, Vocabulary
from support import FAMILIES, SIZES, PilotedEngine, byte_tokenizer, tiny_engine, tiny_model

PROMPT = "Compare cats and dogs."
TOLERANCE = 1e-4


def script(tags: Tags, topic: list[int], length: int, body: int) -> dict[tuple[int, ...], dict[int, int]]:
    """Two promises, the first of which forks again and joins; text; a sync; text; a third promise; a sync; the end.

    `length` is what every promise says, `body` how long blocks really are: estimates may be wrong.
    """

    def promise(at: int) -> dict[int, int]:
        return {
            at: tags.promise,
            **{at + 1 + i: t for i, t in enumerate(topic)},
            at + 1 + len(topic): tags.lengths[length - 1],
        }

    size = len(topic) + 2
    return {
        (): {
            **promise(3),
            **promise(3 + size),
            3 + 2 * size + 4: tags.sync,
            **promise(3 + 2 * size + 8),
            3 + 3 * size + 9: tags.sync,
            3 + 3 * size + 14: -1,  # the end
        },
        (0,): {**promise(2), 2 + size + 3: tags.sync, 2 + size + 3 + body: tags.close},
        (0, 0): {body: tags.close},
        (1,): {**promise(1), body + size + 1: tags.close},  # a child left open at its end
        (1, 0): {2 * body: tags.close},
        (2,): {body: tags.close},
    }


def pilot(engine: PilotedEngine, length: int, body: int) -> None:
    tags = engine.vocabulary.tags
    assert tags is not None
    steps = script(tags, engine.vocabulary.encode("cat"), length, body)
    end = min(engine.vocabulary.eos)
    forbidden_end = engine.vocabulary.eos

    def choose(path: tuple[int, ...], index: int) -> int | None:
        token = steps[path].get(index)
        return end if token == -1 else token

    engine.pilot = choose  # type: ignore[method-assign]
    # Nothing but the pilot ends a response or puts a tag.
    assert engine._forbidden is not None
    engine._forbidden[:8, list(tags.all | forbidden_end)] = True


def dense(engine: NativeEngine, layout: Layout) -> torch.Tensor:
    """Logits of one forward pass over prompt and merged response, under the layout's mask and positions."""
    mask = torch.zeros(len(layout.ids), len(layout.ids))
    mask.masked_fill_(~torch.from_numpy(layout.mask()), torch.finfo(torch.float32).min)
    engine.model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = engine.model(
            input_ids=torch.tensor([layout.ids]),
            position_ids=torch.tensor([layout.positions]),
            attention_mask=mask[None, None],
            use_cache=False,
        ).logits[0]
    engine.model.set_attn_implementation("pasta")
    return logits


def check_against_dense(engine: PilotedEngine, results: list[Result], positions: str) -> None:
    """Every row of logits from which a token was chosen equals the dense pass's, and the choice is its best."""
    assert engine._forbidden is not None
    requests = list(dict.fromkeys(choice.request for choice in engine.seen))
    for request, result in zip(requests, results, strict=True):
        layout = lay_out(result.prompt_ids, result.tree, engine.vocabulary.tags, Positions.parse(positions))
        logits = dense(engine, layout)
        choices = {(choice.path, choice.index): choice for choice in engine.seen if choice.request is request}
        rows = rows_by_thread(result.tree, len(result.prompt_ids))
        assert set(rows) <= set(choices)
        for place, row in rows.items():
            choice, target = choices[place], layout.targets[row]
            torch.testing.assert_close(choice.logits, logits[row], rtol=0, atol=TOLERANCE)
            if target != IGNORE and not choice.piloted:
                best = logits[row].masked_fill(engine._forbidden[Expect.TEXT], -torch.inf).max()
                assert logits[row, target] >= best - TOLERANCE


def rows_by_thread(tree: Tree, start: int) -> dict[tuple[tuple[int, ...], int], int]:
    """(path, n-th choice) -> the index in merged order of the token after which it was made."""
    rows: dict[tuple[tuple[int, ...], int], int] = {}
    cursor = start

    def walk(items: Tree, path: tuple[int, ...]) -> None:
        nonlocal cursor
        last, choice, forks = (start - 1 if not path else None), 0, 0
        for item in items:
            if isinstance(item, Block):
                walk(item.items, (*path, forks))
                forks += 1
                continue
            if last is not None:
                rows[path, choice] = last
                choice += 1
            last = cursor
            cursor += 1
        if not path and last is not None:
            rows[path, choice] = last

    walk(tree, ())
    return rows


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
    decoder = Decoder(engine)
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


def test_fragmented_pages_change_nothing() -> None:
    engine = tiny_engine(slots=2048)
    pilot(engine, 2, 12)
    expected = generate(engine, PROMPT).annotated
    held = [engine.pool.take() for _ in range(engine.pool.pages)]
    engine.pool.give_back(held[::2])
    assert generate(engine, PROMPT).annotated == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_without_annotations_it_is_transformers_greedy_generate(family: str) -> None:
    engine = tiny_engine(family, tags=False)
    result = generate(engine, PROMPT, max_new_tokens=40)
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


def test_out_of_slots_ends_one_request_and_frees_it() -> None:
    engine = tiny_engine(tags=False, slots=128)
    decoder = Decoder(engine)
    long = decoder.submit(make_request(engine, "A" * 20, max_new_tokens=400))
    short = decoder.submit(make_request(engine, "B", max_new_tokens=5))
    while decoder.busy:
        decoder.step()
    assert short.result().finish_reason == "length"
    with pytest.raises(OutOfSlots, match="KV pool of 128 slots is full"):
        long.result()
    assert engine.pool.free_slots == engine.pool.slots


def test_a_prompt_larger_than_the_pool_leaves_nothing_behind() -> None:
    engine = tiny_engine(tags=False, slots=64)
    with pytest.raises(OutOfSlots):
        generate(engine, "A" * 100)
    assert engine.pool.free_slots == engine.pool.slots


def test_cancelled_requests_free_every_slot() -> None:
    engine = tiny_engine(slots=2048)
    pilot(engine, 2, 12)
    for steps in range(0, 40, 3):
        decoder = Decoder(engine)
        jobs = [decoder.submit(make_request(engine, PROMPT)) for _ in range(3)]
        for _ in range(steps):
            decoder.step()
        for job in jobs:
            decoder.cancel(job)
        assert not decoder.busy
        assert engine.pool.free_slots == engine.pool.slots
        assert engine.step() == []


def test_seeds_are_reproducible_and_independent_of_the_company() -> None:
    engine = tiny_engine()
    options = {"temperature": 1.0, "top_p": 0.95, "max_new_tokens": 30, "seed": 7, "sequential": True}
    alone = generate(engine, PROMPT, **options)
    together = generate_all(engine, ["Hello!", PROMPT, "Why?"], **options)[1]
    other = generate(engine, PROMPT, **{**options, "seed": 8})
    assert alone.text == together.text != other.text


def test_unsupported_models_are_refused_by_name() -> None:
    cases = {
        "window": transformers.MistralConfig(**SIZES, sliding_window=128),
        "recurrent": transformers.MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=258, state_size=4),
        "mixed": transformers.Gemma3TextConfig(**SIZES, sliding_window=64),
    }
    for name, config in cases.items():
        model = transformers.AutoModelForCausalLM.from_config(config)
        with pytest.raises(UnsupportedModel, match=f"{name} .*cannot be run"):
            NativeEngine(model, Vocabulary(byte_tokenizer()), name=name)


def test_a_window_makes_no_difference_within_it() -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.MistralConfig(**SIZES, sliding_window=128))
    engine = NativeEngine(model, Vocabulary(byte_tokenizer()), name="window", context=128)
    assert generate(engine, "Hi", max_new_tokens=500).finish_reason in ("length", "stop")
