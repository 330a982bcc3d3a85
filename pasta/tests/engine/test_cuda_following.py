"""A device that goes ahead of the host: the same tokens as step by step, whatever the interpreter makes of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import cuda_twin
import numpy as np
import pytest
import torch
from test_cuda import tiny_trained_model

from pasta.bench.responses import make_responses
from pasta.core.grammar import MAX_TOPIC_TOKENS, Expect, Grammar
from pasta.core.taught import Taught
from pasta.core.tree import depth_of
from pasta.decoding.api import generate_all, replay
from pasta.engine.native import NativeEngine
from pasta.models.taught import mark

pytest.importorskip("triton")
CUDA = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # runs kernels on a CPU, slowly
PROMPTS = ["Compare cats and dogs, yes.", "Name it.", "What?", "red blue?"]
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    """Engines: on a GPU as they are, elsewhere with their kernels' twins. `counts`: how often they might go ahead."""
    from pasta.engine.cuda.engine import CudaEngine

    engines: dict[tuple[bool, int], Any] = {}

    def make_engine(*, ahead: bool = True, slots: int = 4096) -> Any:
        if (ahead, slots) not in engines:
            model, vocabulary = tiny_trained_model("llama", 10)
            engine: Any = CudaEngine(model.cuda() if CUDA else model, vocabulary, slots=slots)
            may_follow, engine.counts = engine._may_follow, Counter()
            engine._cheap_rows = True  # so that joins are expected, too

            def may(flight: Any) -> bool:
                found = ahead and may_follow(flight)
                engine.counts[found] += 1
                return found

            engine._may_follow = may
            engines[ahead, slots] = engine
        engines[ahead, slots].counts.clear()
        return engines[ahead, slots]

    with cuda_twin.twins_without_a_gpu():
        yield make_engine


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_blocks_lie_as_deep_as_the_model_was_taught(make: Make, depth: int) -> None:
    """With a device that goes ahead, and on the CPU; a script may say more than that."""
    from pasta.engine.cuda.engine import CudaEngine

    deep = generate_all(make(), PROMPTS, parallelism=4.0, max_tokens=90)
    assert max(depth_of(answer.tree) for answer in deep) > 2
    model, vocabulary = tiny_trained_model("llama", 10)
    mark(model, Taught(depth=depth))
    native = generate_all(NativeEngine(model, vocabulary, slots=4096), PROMPTS, parallelism=4.0, max_tokens=90)
    engine: Any = CudaEngine(model.cuda() if CUDA else model, vocabulary, slots=4096)
    found = generate_all(engine, PROMPTS, parallelism=4.0, max_tokens=90)
    assert max(depth_of(answer.tree) for answer in found) == depth
    if not CUDA:
        assert [answer.tree for answer in found] == [answer.tree for answer in native]
    for prompt, answer in zip(PROMPTS, deep, strict=True):
        if answer.finish_reason == "stop":
            assert replay(engine, prompt, answer.tree).tree == answer.tree


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.9, "top_p": 0.95, "seed": 3},
        {"max_tokens": 23},
        {"max_thread_tokens": 6},
        {"max_threads": 2},
        {"sequential": True},
        {"plain": True},
        {"positions": "fixed:40"},
        {"stop": "e"},
        {"stop_token_ids": (40, 41, 42, 43, 44)},
    ],
    ids=str,
)
def test_the_same_answers(make: Make, options: dict[str, Any]) -> None:
    options = {"parallelism": 4.0, "max_tokens": 90, **options}
    steps, ahead = make(ahead=False), make()
    expected, found = (generate_all(engine, PROMPTS, **options) for engine in (steps, ahead))
    assert [answer.tree for answer in found] == [answer.tree for answer in expected]
    assert [answer.finish_reason for answer in found] == [answer.finish_reason for answer in expected]
    if not CUDA and options.get("temperature") is None:
        model, vocabulary = tiny_trained_model("llama", 10)
        native = generate_all(NativeEngine(model, vocabulary, slots=4096), PROMPTS, **options)
        assert [answer.tree for answer in found] == [answer.tree for answer in native]
    assert ahead.counts[True] > 5 and not steps.counts[True]
    for engine in (steps, ahead):
        assert engine.pool.free_slots == engine.pool.slots
        assert sorted(engine._free_indices) == list(range(engine.max_requests))


def test_answers_fork_and_join(make: Make) -> None:
    """Else the test above would say little."""
    answers = generate_all(make(), PROMPTS, parallelism=4.0, max_tokens=90)
    assert sum(len(answer.threads) > 2 for answer in answers) >= 2
    tags = make().vocabulary.tags
    assert any(tags.sync in thread.token_ids for answer in answers for thread in answer.threads)


def test_a_pool_so_small_that_requests_give_way(make: Make) -> None:
    options = {"parallelism": 4.0, "max_tokens": 120}
    expected = generate_all(make(ahead=False), PROMPTS * 2, **options)
    small = make(slots=6 * 64)
    found = generate_all(small, PROMPTS * 2, **options)
    assert [answer.tree for answer in found] == [answer.tree for answer in expected]
    assert small.runner.scheduler.preemptions > 0
    assert small.counts[True] > 5
    assert small.pool.free_slots == small.pool.slots


def test_replays(make: Make) -> None:
    """What the device is told to choose is what the script says; nothing of it is put twice."""
    from pasta.decoding.prompts import make_request
    from pasta.decoding.request import RequestState
    from pasta.decoding.scheduler import Scheduler

    engine = make()
    words = engine.vocabulary.encode("abcdefgh")
    for response in make_responses(4, engine.vocabulary.tags, words, seed=2, threads=(3, 5)):
        result = replay(engine, PROMPTS[0], response)
        assert result.tree == response
    assert engine.counts[True] > 20
    again = make(slots=5 * 64)
    responses = make_responses(3, again.vocabulary.tags, words, seed=5, threads=(3, 5))
    scheduler = Scheduler(again)
    states = [RequestState(make_request(again, PROMPTS[0], script=each, max_tokens=1000), again) for each in responses]
    for state in states:
        scheduler.add(state)
    while scheduler.busy:
        scheduler.step()
    assert [state.result().tree for state in states] == responses
    assert scheduler.preemptions > 0


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.3}, {"logprobs": 2}], ids=str)
def test_what_needs_the_host_in_every_step_has_it(make: Make, options: dict[str, Any]) -> None:
    if not CUDA and "repetition_penalty" in options:
        pytest.skip("the sampler's twin knows no penalty")
    steps, ahead = make(ahead=False), make()
    expected, found = (
        generate_all(engine, PROMPTS, parallelism=4.0, max_tokens=40, **options) for engine in (steps, ahead)
    )
    assert [answer.tree for answer in found] == [answer.tree for answer in expected]
    assert not ahead.counts[True]


def test_a_request_that_is_cancelled_leaves_nothing(make: Make) -> None:
    """In the middle of steps that were launched ahead; whoever runs beside it, or comes after it, is not disturbed."""
    from pasta.decoding.prompts import make_request
    from pasta.decoding.request import RequestState
    from pasta.decoding.scheduler import Scheduler

    options: Any = {"parallelism": 4.0, "max_tokens": 60}
    expected = [answer.tree for answer in generate_all(make(ahead=False), PROMPTS[:3], **options)]
    engine = make()
    scheduler = Scheduler(engine)
    gone, beside, after = (RequestState(make_request(engine, prompt, **options), engine) for prompt in PROMPTS[:3])
    scheduler.add(gone)
    scheduler.add(beside)
    for _ in range(9):
        scheduler.step()
    scheduler.abort(gone)
    scheduler.add(after)
    while scheduler.busy:
        scheduler.step()
    assert gone.interpreter.finish_reason == "cancelled" and engine.counts[True] > 5
    assert [beside.result().tree, after.result().tree] == expected[1:]
    assert engine.pool.free_slots == engine.pool.slots


def test_threads_that_are_fed_something_else(make: Make) -> None:
    """Whoever feeds another token than was chosen gets what comes after that one, and the wrong row is hidden."""
    from pasta.core.params import SamplingParams

    def decode(engine: Any, launch: bool) -> list[int]:
        main = engine.open(list(range(5, 40)), Expect.TEXT, SamplingParams())
        tokens = [engine.step()[0].token]
        for position in range(35, 50):
            engine.feed(main, (7 * tokens[-1] + position) % 90, position, Expect.TEXT)
            if launch:
                engine.launch()
            while not (decoded := engine.step()):  # what followed was wrong, and gives nothing
                pass
            tokens.append(decoded[0].token)
        engine.close(main)
        return tokens

    assert decode(make(), True) == decode(make(), False)


def test_states_are_those_of_the_interpreter() -> None:
    """Token by token through texts and topics, the longest topic too."""
    from pasta.engine.cuda.following import kinds_of, packed, state_after

    model, vocabulary = tiny_trained_model("llama", 10)
    size = model.get_output_embeddings().weight.shape[0]
    grammar = Grammar.of(vocabulary, size)
    kinds, tags = kinds_of(grammar, size), grammar.tags
    random = np.random.default_rng(0)
    seen: Counter[int] = Counter()
    for child, deepest in ((False, False), (True, False), (True, True)):
        thread = {"child": child, "promise": not deepest}  # a script may promise where the grammar does not
        for length in [*range(1, 12), MAX_TOPIC_TOKENS]:
            before, topic = Expect.text(**thread, sync=False), []
            token = tags.promise
            for _ in range(length + 1):
                after = state_after(packed(before, **thread, topic=len(topic)), token, kinds)
                if token != tags.promise:
                    topic.append(token)
                assert after == grammar.topic(topic)
                seen[after] += 1
                before = Expect(after)
                token = int(random.choice(np.flatnonzero(grammar.allowed[Expect.TOPIC_SPACE])))
                if before is Expect.TOPIC_START:
                    token = int(random.choice(np.flatnonzero(grammar.allowed[before])))
            after = state_after(packed(before, **thread, topic=len(topic)), tags.of_tens(3), kinds)
            assert after == Expect.text(**thread, sync=True)
            assert state_after(after, 7, kinds) == after
    assert set(seen) == {Expect.TOPIC_START, Expect.TOPIC_SPACE, Expect.TOPIC, Expect.LENGTH}


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="needs a CUDA device, or Triton's interpreter")
@pytest.mark.parametrize("rows", [1, 40, 1500])
def test_the_kernel_follows_as_its_twin(rows: int) -> None:
    from pasta.engine.cuda.following import Board, packed, state_after

    model, vocabulary = tiny_trained_model("llama", 10)
    size = model.get_output_embeddings().weight.shape[0]
    grammar = Grammar.of(vocabulary, size)
    device = torch.device("cuda" if CUDA else "cpu")
    board = Board(grammar, size, device)
    random = np.random.default_rng(rows)
    chosen = random.integers(0, size, rows)
    chosen[random.random(rows) < 0.5] = random.choice([grammar.tags.promise, *grammar.tags.lengths])
    board.chosen[:rows] = torch.from_numpy(chosen)
    sources = random.permutation(rows)
    told = random.random(rows) < 0.3
    tokens = np.where(told, random.integers(0, size, rows), -1 - sources).astype(np.int32)
    states = np.array(
        [
            packed(
                Expect(int(random.integers(12))),
                child=bool(random.integers(2)),
                promise=bool(random.integers(2)),
                topic=int(random.integers(33)),
            )
            for _ in range(rows)
        ],
        dtype=np.int32,
    )
    expected = [
        (int(token), int(state))
        if token >= 0
        else (int(chosen[-1 - token]), state_after(int(state), int(chosen[-1 - token]), board.kinds))
        for token, state in zip(tokens, states, strict=True)
    ]
    on_device = [torch.from_numpy(column.copy()).to(device) for column in (tokens, states)]
    forced = torch.arange(rows, dtype=torch.int32, device=device)
    board.follow(*on_device, forced)
    assert list(zip(*(column.tolist() for column in on_device), strict=True)) == expected
    assert board.states[:rows].tolist() == [state for _, state in expected]
    assert board.forced[: rows + 1].tolist() == [*range(rows), -1]


@pytest.mark.parametrize("give_way", [False, True])
@pytest.mark.parametrize("rows", [0, 1024], ids=["before the step", "in the step"])
def test_prompts_that_come_while_others_decode(make: Make, rows: int, give_way: bool) -> None:
    """They hold nobody up: whoever decodes goes ahead beside them, and answers are what they are alone.

    The prompts may also be answers that gave way, and are computed again.
    """
    from pasta.decoding.prompts import make_request
    from pasta.decoding.request import RequestState
    from pasta.decoding.scheduler import Scheduler

    options: Any = {"parallelism": 4.0, "max_tokens": 40}
    prompts = [prompt + " Why?" * (9 * (number % 4)) for number, prompt in enumerate(PROMPTS * 3)]
    expected = [generate_all(make(ahead=False), [prompt], **options)[0].tree for prompt in prompts]
    engine = make()
    before, engine.prompt_rows = engine.prompt_rows, rows
    may_follow, beside = engine._may_follow, Counter[str]()

    def may(flight: Any) -> bool:
        found = may_follow(flight)
        if found:
            beside["a pass"] += bool(flight.prefills)
            beside["prompts"] += sum(request.backlog for request in engine._waiting) > 64
        return bool(found)

    engine._may_follow = may
    try:
        scheduler, states = Scheduler(engine), []
        while scheduler.busy or len(states) < len(prompts):
            if len(states) < len(prompts):
                states.append(RequestState(make_request(engine, prompts[len(states)], **options), engine))
                scheduler.add(states[-1])
            scheduler.step()
            if give_way and len(states) % 4 == 3 and scheduler.running:
                scheduler._preempt(next(reversed(scheduler.running)))
    finally:
        engine._may_follow, engine.prompt_rows = may_follow, before
    assert [state.result().tree for state in states] == expected
    assert beside["prompts"] > 0
    assert (beside["a pass"] > 0) is (rows == 0)
    assert engine.pool.free_slots == engine.pool.slots


def test_steps_between_powers_of_two(make: Make) -> None:
    """Many answers at once, as many of them as such steps have rows: each is what it is on the CPU."""
    model, vocabulary = tiny_trained_model("llama", 10)
    engine, native = make(slots=16384), NativeEngine(model, vocabulary, slots=16384)
    prompts = [f"{PROMPTS[number % 4]}{number}" for number in range(150)]
    options: Any = {"parallelism": 4.0, "max_tokens": 8}
    expected = [answer.tree for answer in generate_all(native, prompts, **options)]
    for count in (80, 150):
        assert [answer.tree for answer in generate_all(engine, prompts[:count], **options)] == expected[:count]
    assert {96, 192} <= {shape.rows for shape in engine._captures.shapes}


def test_more_is_hidden_than_the_next_step_has_rows(make: Make) -> None:
    """Threads of which all but one go on no more, and that one is fed something else; the step keeps its size."""
    from pasta.core.params import SamplingParams

    def decode(engine: Any, launch: bool) -> list[int]:
        main = engine.open(list(range(5, 40)), Expect.TEXT, SamplingParams())
        engine.step()
        tokens = []
        for position in range(35, 43):
            for number, thread in enumerate([main, *(engine.fork(main) for _ in range(6))]):
                engine.feed(thread, (number + 7 * sum(tokens)) % 90, position, Expect.TEXT)
            if launch:
                engine.launch()
            tokens += [one.token for one in engine.step() if one.thread is main]
            engine.feed(main, 9 + position, position + 1, Expect.TEXT)
            while not (decoded := engine.step()):  # of what followed nothing was right
                pass
            tokens += [one.token for one in decoded if one.thread is main]
        engine.close(main)
        return tokens

    engine = make()
    hidden, launch = [], engine._captures.launch

    def launched(chunks: Any, batch: Any, gone: list[int]) -> Any:
        found = launch(chunks, batch, gone)
        hidden.append((len(gone), found.logits.shape[0]))
        return found

    engine._captures.launch = launched
    try:
        found = decode(engine, True)
    finally:
        engine._captures.launch = launch
    assert found == decode(make(), False)
    assert len(found) == 16 and (7, 1) in hidden
