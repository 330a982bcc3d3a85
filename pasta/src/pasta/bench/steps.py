"""A step of many threads in terms of a step of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pasta.bench.clock import Sample, ratio, take_turns
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.engine.base import Engine

THREADS = (1, 2, 4, 8, 16)
SAMPLED = SamplingParams(temperature=0.7, top_p=0.9)


def measure(
    engines: Mapping[str, Engine], prompt: Sequence[int], repeats: int, threads: Sequence[int] = THREADS
) -> list[dict[str, Any]]:
    """Steps of so many threads of one answer, from feeding their tokens to having the next ones.

    The first engine's step of one thread is the unit of all of them.
    """
    names = [(name, number) for name in engines for number in threads]
    samples = time_steps([(engines[name], number, SamplingParams()) for name, number in names], prompt, repeats)
    return [
        {
            "weights": name,
            "threads": number,
            **sample.to_dict(),
            "ratio": ratio(sample, samples[0]),
            "ratio_cpu": ratio(sample, samples[0], "cpu"),
            "tokens_per_s": number / sample.wall_s,
        }
        for (name, number), sample in zip(names, samples, strict=True)
    ]


def measure_sampled(
    engines: Mapping[str, Engine], prompt: Sequence[int], repeats: int, threads: Sequence[int] = (1, 8)
) -> list[dict[str, Any]]:
    """Steps whose tokens are drawn, in terms of greedy ones of the same engine with as many threads."""
    rows = []
    for name, engine in engines.items():
        for number in threads:
            ways = [(engine, number, params) for params in (SamplingParams(), SAMPLED)]
            greedy, sampled = time_steps(ways, prompt, repeats)
            rows.append(
                {
                    "weights": name,
                    "threads": number,
                    **sampled.to_dict(),
                    "of_greedy": ratio(sampled, greedy),
                    "of_greedy_cpu": ratio(sampled, greedy, "cpu"),
                }
            )
    return rows


def time_steps(
    cases: Sequence[tuple[Engine, int, SamplingParams]], prompt: Sequence[int], repeats: int
) -> list[Sample]:
    """Steps of so many threads of an answer, decoded in this way, for each case; they take turns."""
    opened: list[tuple[Engine, Any]] = []
    steppers: dict[str, Callable[[], object]] = {}
    for engine, number, params in cases:
        main = engine.open(prompt, Expect.TEXT, params)
        opened.append((engine, main))
        engine.step()
        handles = [main, *(engine.fork(main) for _ in range(number - 1))]
        steppers[str(len(steppers))] = stepper(engine, handles, len(prompt))
    try:
        return list(take_turns(steppers, repeats, warm_up=3).values())
    finally:
        for engine, main in opened:
            engine.close(main)


def stepper(engine: Engine, handles: Sequence[Any], position: int) -> Callable[[], object]:
    place = position

    def step() -> object:
        nonlocal place
        for handle in handles:
            engine.feed(handle, 42, place, Expect.TEXT)
        place += 1
        return engine.step()

    return step
