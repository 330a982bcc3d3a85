"""A step of many threads in terms of a step of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pasta.bench.clock import ratio, take_turns
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.engine.base import Engine

THREADS = (1, 2, 4, 8, 16)


def measure(
    engines: Mapping[str, Engine], prompt: Sequence[int], repeats: int, threads: Sequence[int] = THREADS
) -> list[dict[str, Any]]:
    """Steps of so many threads of one answer, from feeding their tokens to having the next ones.

    The first engine's step of one thread is the unit of all of them.
    """
    answers: list[tuple[Engine, Any]] = []
    cases: dict[str, Callable[[], object]] = {}
    for name, engine in engines.items():
        for number in threads:
            main = engine.open(prompt, Expect.TEXT, SamplingParams())
            answers.append((engine, main))
            engine.step()
            handles = [main, *(engine.fork(main) for _ in range(number - 1))]
            cases[f"{name}/{number}"] = stepper(engine, handles, len(prompt))
    try:
        samples = take_turns(cases, repeats, warm_up=3)
    finally:
        for engine, main in answers:
            engine.close(main)
    unit = next(iter(samples.values()))
    return [
        {
            "weights": name,
            "threads": number,
            **samples[f"{name}/{number}"].to_dict(),
            "ratio": ratio(samples[f"{name}/{number}"], unit),
            "ratio_cpu": ratio(samples[f"{name}/{number}"], unit, "cpu"),
            "tokens_per_s": number / samples[f"{name}/{number}"].wall_s,
        }
        for name in engines
        for number in threads
    ]


def stepper(engine: Engine, handles: Sequence[Any], position: int) -> Callable[[], object]:
    place = position

    def step() -> object:
        nonlocal place
        for handle in handles:
            engine.feed(handle, 42, place, Expect.TEXT)
        place += 1
        return engine.step()

    return step
