"""Prompts that run in a captured step, beside the threads: the same answers as after a pass of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import cuda_twin
import pytest
import torch
from test_cuda import tiny_trained_model

from pasta.decoding.api import generate_all, run
from pasta.structured import make_structured_request

pytest.importorskip("triton")
CUDA = torch.cuda.is_available()
PROMPTS = ["Compare cats and dogs, yes.", "Name it.", "What? " * 36, "red blue?", "Compare cats and dogs, no."]
BIASES = {token: 0.01 * token for token in range(140)}  # more than a captured choice has room for
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z ]{1,9}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "home": {"type": "object", "properties": {"open": {"type": "boolean"}}, "required": ["open"]},
        "kind": {"enum": ["cat", "dog", "cow"], "x-after": ["name"]},
    },
    "required": ["name", "age", "home", "kind"],
}
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    """Engines, with their kernels' twins where there is no GPU. `passes`: how many prompts ran on their own."""
    from pasta.engine.cuda.engine import CudaEngine

    engines: dict[int, Any] = {}

    def make_engine(rows: int) -> Any:
        if rows not in engines:
            model, vocabulary = tiny_trained_model("llama", 10)
            engine: Any = CudaEngine(model.cuda() if CUDA else model, vocabulary, slots=8192)
            assert engine.prompt_rows == 1024
            engine.prompt_rows = rows
            inner = engine._prefiller.run

            def counted(prompts: Any) -> Any:
                engine.passes += len(prompts)
                return inner(prompts)

            engine._prefiller.run = counted
            engines[rows] = engine
        engines[rows].passes = 0
        return engines[rows]

    with cuda_twin.twins_without_a_gpu():
        yield make_engine


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.9, "top_p": 0.95, "seed": 3},
        {"logprobs": 2},
        {"logit_bias": BIASES},
        {"logit_bias": BIASES, "temperature": 0.9, "seed": 3},
        {"drafts": True},
        {"plain": True},
        {"cache_salt": "one"},
    ],
    ids=str,
)
def test_the_same_answers(make: Make, options: dict[str, Any]) -> None:
    apart, beside = make(0), make(1024)
    options = {"parallelism": 4.0, "max_tokens": 50, **options}
    for _ in range(2):  # where prompts are cached, the second time most of each is
        expected, found = (generate_all(engine, PROMPTS, **options) for engine in (apart, beside))
        assert [answer.tree for answer in found] == [answer.tree for answer in expected]
        assert _logprobs(found) == pytest.approx(_logprobs(expected), abs=1e-3)
    assert apart.passes >= len(PROMPTS) and beside.passes == 0
    assert any(choice.apart for choice in beside._captures._choices)  # the step was large, and few of its rows decide
    for engine in (apart, beside):
        assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 2}], ids=str)
def test_the_same_objects(make: Make, options: dict[str, Any]) -> None:
    def objects(engine: Any) -> list[str]:
        requests = [make_structured_request(engine, prompt, SCHEMA, max_tokens=60, **options) for prompt in PROMPTS]
        return [result.text for result in run(engine, requests)]

    apart, beside = make(0), make(1024)
    expected = objects(apart)
    assert apart.passes == len(PROMPTS) and all(expected)
    assert objects(beside) == expected
    assert beside.passes == 0


def test_keys_of_many_objects_run_together(make: Make) -> None:
    """Behind prompts that are too many for a step, the keys of all objects are in the first one."""
    from pasta.decoding.request import RequestState
    from pasta.decoding.scheduler import Scheduler

    engine = make(1024)
    prompts = [f"{number} {'What? ' * 30}" for number in range(10)]
    requests = [make_structured_request(engine, prompt, SCHEMA, max_tokens=60) for prompt in prompts]
    expected = [run(engine, [request])[0].text for request in requests]
    assert engine.passes == 0
    states, scheduler = [RequestState(request, engine) for request in requests], Scheduler(engine)
    for state in states:
        scheduler.add(state)
    scheduler.step()
    assert engine.passes == len(prompts)
    assert sum(state.interpreter.sampled for state in states) == 3 * len(prompts)  # the fourth waits for the first
    while scheduler.busy:
        scheduler.step()
    assert [state.result().text for state in states] == expected


def _logprobs(answers: list[Any]) -> list[float]:
    threads = [thread for answer in answers for thread in answer.threads]
    return [one.logprob for thread in threads for one in thread.logprobs or () if one is not None]


def test_guesses_are_decided_in_the_same_step(make: Make) -> None:
    """Several rows of one thread, each under a mask of its own: the sequential objects in fewer steps."""
    results: dict[str, list[Any]] = {}
    for mode in ("sequential", "checked"):
        engine = make(1024)
        requests = [make_structured_request(engine, prompt, SCHEMA, mode=mode, max_tokens=200) for prompt in PROMPTS]
        results[mode] = list(run(engine, requests))
        assert engine.pool.free_slots == engine.pool.slots
    for checked, sequential in zip(results["checked"], results["sequential"], strict=True):
        assert checked.text == sequential.text and checked.tree == sequential.tree
        assert checked.steps <= sequential.steps
    assert sum(each.steps for each in results["checked"]) < sum(each.steps for each in results["sequential"])


def test_a_step_stays_small(make: Make) -> None:
    """Prompts that come while others decode run beside them as long as there is room, and then on their own."""
    engine = make(256)
    long = "Why? " * 60  # more than 256 tokens
    expected = [answer.tree for answer in generate_all(make(0), [*PROMPTS, long], max_tokens=30)]
    one_by_one = [generate_all(engine, [prompt], max_tokens=30)[0].tree for prompt in (*PROMPTS, long)]
    assert one_by_one == expected
    assert engine.passes == 1
    assert [answer.tree for answer in generate_all(engine, [*PROMPTS, long], max_tokens=30)] == expected
    assert max(shape.rows for shape in engine._captures.shapes) <= 256


def test_who_fits() -> None:
    """Of prompts that follow on cached tokens the shortest; beginnings together or not at all; the rest is cut off."""
    from pasta.engine.cuda.request import split
    from pasta.engine.request import Chunk, Row

    def chunk(start: int, prompt: int, fed: int = 0) -> Chunk:
        end = prompt + fed
        rows = [Row(None, 0, place, 0, place, 0) for place in range(prompt - 1, end)]  # type: ignore[arg-type]
        return Chunk(SimpleNamespace(prompt_length=prompt), start, end, rows)  # type: ignore[arg-type]

    def told(chunks: list[Chunk]) -> list[tuple[int, int]]:
        assert all(start <= row.place < end for _, start, end, rows in chunks for row in rows)
        return [(start, end) for _, start, end, _ in chunks]

    def split_told(chunks: list[Chunk], rows: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        prompts, beside = split(chunks, rows)
        assert sum(len(each.rows) for each in prompts + beside) == sum(len(each.rows) for each in chunks)
        return told(prompts), told(beside)

    assert split_told([chunk(0, 50, 6)], 56) == ([], [(0, 56)])
    assert split_told([chunk(0, 50, 6)], 55) == ([(0, 50)], [(50, 56)])
    assert split_told([chunk(0, 50)], 49) == ([(0, 50)], [])
    cached = [chunk(64, 100), chunk(64, 70), chunk(128, 140)]
    assert split_told(cached, 20) == ([(64, 100)], [(64, 70), (128, 140)])
    assert split_told([chunk(0, 10), chunk(0, 20), *cached[1:]], 47) == ([(0, 10), (0, 20)], [(64, 70), (128, 140)])
    assert split_told([chunk(0, 10), chunk(0, 20), *cached[1:]], 48)[0] == []


def test_the_larger_the_model_the_fewer_rows() -> None:
    from pasta.engine.cuda.costs import prompt_rows

    assert [prompt_rows(2 * weights) for weights in (10**6, 15 * 10**8, 3 * 10**9, 8 * 10**9)] == [1024, 1024, 512, 256]
