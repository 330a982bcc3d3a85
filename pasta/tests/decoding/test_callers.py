"""One engine, many callers: they share its steps, get the right answers, and none of them hangs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import pytest

import pasta
from dense import fly
from pasta.core.params import Options, SamplingParams
from pasta.decoding.api import agenerate, astream, generate, generate_all, stream
from pasta.decoding.model import Model
from pasta.decoding.prompts import make_request
from pasta.decoding.runner import EngineFailed, Stopped, runner_of
from pasta.engine.native import NativeEngine
from pasta.structured.request import make_structured_request
from support import PilotedEngine, Stepper, tiny_engine

OPTIONS: dict[str, Any] = {"max_tokens": 40, "parallelism": 4.0}
PROMPTS = [f"What is {n}?" for n in range(20)]


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    return tiny_engine(slots=2048)


@pytest.fixture(scope="module")
def alone(engine: NativeEngine) -> list[str]:
    """The answers, one after another."""
    return [generate(engine, prompt, **OPTIONS).text for prompt in PROMPTS]


@pytest.fixture(autouse=True)
def nothing_is_left(engine: NativeEngine) -> Any:
    yield
    assert engine.pool.free_slots == engine.pool.slots
    assert runner_of(engine).unfinished == 0


def test_streams_that_take_turns(engine: NativeEngine, alone: list[str]) -> None:
    texts = ["", ""]
    first, second = stream(engine, PROMPTS[0], **OPTIONS), stream(engine, PROMPTS[1], **OPTIONS)
    for one, other in zip(first, second, strict=False):
        texts = [texts[0] + one.text, texts[1] + other.text]
    texts = [texts[0] + "".join(o.text for o in first), texts[1] + "".join(o.text for o in second)]
    assert alone[0].startswith(texts[0]) and alone[1].startswith(texts[1])
    assert first.result.text == alone[0] and second.result.text == alone[1]


def test_an_answer_within_a_stream(engine: NativeEngine, alone: list[str]) -> None:
    text = ""
    for step, output in enumerate(stream(engine, PROMPTS[2], **OPTIONS)):
        text += output.text
        if step == 3:
            assert generate(engine, PROMPTS[3], **OPTIONS).text == alone[3]
    assert text == alone[2]


def test_eight_threads(engine: NativeEngine, alone: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda prompt: generate(engine, prompt, **OPTIONS).text, PROMPTS)) == alone


def test_a_hundred_tasks(engine: NativeEngine, alone: list[str]) -> None:
    async def ask() -> list[str]:
        asked = (agenerate(engine, prompt, **OPTIONS) for prompt in PROMPTS * 5)
        return [result.text for result in await asyncio.gather(*asked)]

    before = runner_of(engine).steps
    assert asyncio.run(ask()) == alone * 5
    assert runner_of(engine).steps - before < 100 * 20, "they share steps"


def test_a_task_is_not_told_of_steps(engine: NativeEngine) -> None:
    """Telling takes time, and what was told is kept with the result."""
    assert asyncio.run(agenerate(engine, PROMPTS[0], **OPTIONS)).outputs == ()
    stopped = {**OPTIONS, "stop": ["e", "a"]}
    asked, result = generate(engine, PROMPTS[0], **stopped), asyncio.run(agenerate(engine, PROMPTS[0], **stopped))
    assert result.text == asked.text and result.finish_reason == asked.finish_reason


def test_a_stream_for_asyncio_and_one_that_is_left(engine: NativeEngine, alone: list[str]) -> None:
    async def ask() -> str:
        async for output in (left := astream(engine, PROMPTS[5], **OPTIONS)):
            assert output.step == 0
            break
        await left.aclose()  # type: ignore[attr-defined]
        return "".join([output.text async for output in astream(engine, PROMPTS[4], **OPTIONS)])

    assert asyncio.run(ask()) == alone[4]
    settle(engine)


def test_a_cancelled_task_frees_what_it_held(engine: NativeEngine) -> None:
    async def ask() -> None:
        task = asyncio.create_task(agenerate(engine, PROMPTS[0], max_tokens=3000))
        while not runner_of(engine).running:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())
    settle(engine)


def settle(engine: NativeEngine) -> None:
    """Until the runner has seen to what was cancelled."""
    waited = threading.Event()
    for _ in range(20_000):
        if runner_of(engine).unfinished == 0:
            return
        waited.wait(0.01)
    raise AssertionError("a cancelled request stays")


def test_an_engine_that_fails_fails_its_callers_and_no_others(alone: list[str]) -> None:
    engine = tiny_engine(slots=2048)
    step, calls = engine.step, []

    def fail() -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError
        return step()

    engine.step = fail  # type: ignore[method-assign]
    with pytest.raises(EngineFailed):
        generate(engine, PROMPTS[0], **OPTIONS)
    assert generate(engine, PROMPTS[0], **OPTIONS).text == alone[0]
    assert engine.pool.free_slots == engine.pool.slots


def test_what_was_done_before_an_engine_failed_is_told() -> None:
    engine = tiny_engine(slots=2048)
    done = make_structured_request(engine, "A card.", {"const": [1, 2]})  # nothing of it is left to the model

    def fail() -> Any:
        raise ZeroDivisionError

    engine.step = fail  # type: ignore[method-assign]
    (state,) = runner_of(engine).submit([done])
    assert state.done.wait(60) and state.result().text.replace(" ", "") == "[1,2]"


def test_a_program_that_ends_within_an_answer_lets_go_whoever_waits() -> None:
    own = tiny_engine(slots=2048)
    left, other = stream(own, PROMPTS[0], max_tokens=3000), stream(own, PROMPTS[1], max_tokens=3000)
    next(left), next(other)
    runner_of(own).stop()
    other.close()  # as when what was suspended is collected
    with pytest.raises(Stopped, match="the program ends"):
        list(left)
    with pytest.raises(Stopped):
        generate(own, PROMPTS[0])


def test_a_model_is_its_functions(engine: NativeEngine, alone: list[str]) -> None:
    model = Model(engine)
    assert model.generate(PROMPTS[0], **OPTIONS).text == alone[0]
    assert [result.text for result in model.generate(PROMPTS[:3], **OPTIONS)] == alone[:3]
    assert model.stream(PROMPTS[1], **OPTIONS).result.text == alone[1]
    assert "tiny-llama" in repr(model) and "context 4096" in repr(model)
    assert {"generate", "load", "SamplingParams", "Model"} <= set(dir(pasta))


def test_a_type_checker_knows_every_option() -> None:
    """Options are spelled out for it, so that a misspelled one is an error before anything runs."""
    assert set(Options.__annotations__) == {field.name for field in fields(SamplingParams)}
    for call in (generate, generate_all, stream, agenerate, astream):
        assert call.__annotations__["options"] == "Unpack[Options]"
    with pytest.raises(TypeError, match="max_tokenz"):
        SamplingParams(max_tokenz=3)  # type: ignore[call-arg]


# -- a full pool ----------------------------------------------------------------------------------------------


def small(slots: int = 512, body: int = 4) -> PilotedEngine:
    """An engine whose answers fork, nest and sync."""
    engine = tiny_engine(slots=slots)
    tags = engine.vocabulary.tags
    assert tags is not None

    def promise(at: int) -> dict[int, int]:
        return {at: tags.promise, at + 1: 65 + at, at + 2: tags.lengths[0]}

    fly(engine, {
        (): {**promise(2), **promise(5), 10: tags.sync, 10 + body: -1},
        (0,): {body: tags.close},
        (1,): {**promise(2), 6 + body: tags.close},
        (1, 0): {body: tags.close},
    })  # fmt: skip
    return engine


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_prompts_in_a_small_pool(count: int) -> None:
    """All are answered, each as it is alone, forks among them; no slot is left."""
    engine, prompts = small(), [f"What is {n}, {n + 1} and {n + 2}, please?" for n in range(count)]
    options: dict[str, Any] = {"max_tokens": 60}
    results = generate_all(engine, prompts, **options)
    assert engine.pool.free_slots == engine.pool.slots == 512
    roomy = small(1 << 16)
    for prompt, result in list(zip(prompts, results, strict=True))[::7]:
        assert result.tree == generate(roomy, prompt, **options).tree
    assert all(len(result.threads) == 4 and result.finish_reason == "stop" for result in results)


def test_a_request_that_was_preempted_goes_on_where_it_was() -> None:
    engine, roomy = small(512, 50), small(1 << 16, 50)
    options: dict[str, Any] = {"max_tokens": 250, "temperature": 0.9, "seed": 4}
    prompts = [f"Say {n}" for n in range(6)]
    told: list[list[Any]] = [[] for _ in prompts]
    requests = [make_request(engine, prompt, **options) for prompt in prompts]
    states = runner_of(engine).submit(requests, lambda index, update: told[index].append(update))  # all at once
    assert all(state.done.wait(300) for state in states)
    assert runner_of(engine).scheduler.preemptions > 0
    expected = generate_all(roomy, prompts, **options)
    assert [state.result().tree for state in states] == [result.tree for result in expected]
    assert ["".join(step.text for step in steps[:-1]) for steps in told] == [result.text for result in expected]


def test_a_request_that_ends_as_it_gives_way_is_gone() -> None:
    """It loses its place to one that came before it, in the very step that brings its last token."""
    engine = tiny_engine(tags=False, slots=1024)
    long, short = (tuple(engine.vocabulary.encode(text)) for text in ("a" * 30, "b" * 9))
    stepper = Stepper(engine)
    first, last = (stepper.submit(make_request(engine, "Why?", script=script)) for script in (long, short))
    allowed = engine.can_allocate

    def can_allocate(tokens: int, thread: Any = None) -> bool:
        ends_now = last.record.steps == 9 and last in stepper.running
        return allowed(tokens, thread) and not (ends_now and thread is first.handles[0])

    engine.can_allocate = can_allocate  # type: ignore[method-assign]
    for _ in range(100):
        if stepper.busy:
            stepper.step()
    assert stepper.preemptions == 1 and not stepper.busy
    assert (first.result().text, last.result().text) == ("a" * 30, "b" * 9)
    assert engine.pool.free_slots == engine.pool.slots


def test_all_that_fit_now_run_at_once() -> None:
    """Admission asks for what is needed now, not for the longest answer that there could be."""
    engine = tiny_engine(slots=16 * 256)
    prompts = [f"What is {n}?" for n in range(16)]
    requests = [make_request(engine, prompt, max_tokens=2000) for prompt in prompts]
    runner, all_run = runner_of(engine), threading.Event()

    def look(index: int, update: Any) -> None:
        if runner.running == 16:
            all_run.set()

    states = runner.submit(requests, look)
    assert all_run.wait(300)
    runner.cancel(states)
    assert all(state.done.wait(300) for state in states)
    assert engine.pool.free_slots == engine.pool.slots
