"""Where the time of an object goes: making the request, its threads, each step and its parts, the result.

    python benchmarks/structured_phases.py ITEMS.jsonl OUT.json --model MODEL [--many 32]

Objects one at a time, and so many at once; the medians of the repeats, and of the last run its parts. Nothing here
passes through the runner's thread. The JSON grows set by set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pasta.decoding.request import RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.engine.base import Engine
from pasta.eval.extraction.item import Item, read_items
from pasta.eval.extraction.speed import MODES, choose, requests

Parts = dict[str, list[float]]  # by name: milliseconds in all, and how often


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("items", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--code", default="", help="what made it: a commit")
    parser.add_argument("--many", type=int, default=32)
    parser.add_argument("--slots", type=int)
    options = parser.parse_args()
    from pasta.engine.load import load_engine
    from pasta.eval.machine import describe_machine, name_of

    engine = load_engine(options.model, slots=options.slots)
    report: dict[str, Any] = {
        "about": f"{engine.name}, one {name_of(describe_machine())}, {options.code}, alone on the machine. phases: "
        "milliseconds of one object: medians of four objects, twice each, and of the last one its parts, and how "
        f"often. phases_at_once: of {options.many} objects.",
        "phases": {},
        "phases_at_once": {},
    }
    for name, items in choose(read_items(options.items)).items():
        for mode in MODES:
            report["phases"][f"{name}, {mode}"] = phases(engine, [[item] for item in items[:4]], mode, 2)
            if name == "arc" and options.many:
                own = phases(engine, [items[: options.many]], mode, 2)
                report["phases_at_once"][f"{name}, {mode}, {options.many} at once"] = own
        options.output.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def phases(engine: Engine, groups: Sequence[Sequence[Item]], mode: str, repeats: int) -> dict[str, Any]:
    """Of each group of objects, which run together: the medians, and the parts of the last."""
    spent: list[tuple[float, float, float]] = []
    last: dict[str, Any] = {}
    for group in groups:
        for repeat in range(repeats + 1):
            with part_clock(engine) as parts:
                times, steps, result = one_run(engine, group, mode)
            if repeat:
                spent.append(times)
            last = {**parts, "steps": steps, "result": result}
    make, state, ran = (round(statistics.median(column), 2) for column in zip(*spent, strict=True))
    return {"make_ms": make, "state_ms": state, "run_ms": ran, "last": last}


def one_run(engine: Engine, items: Sequence[Item], mode: str) -> tuple[tuple[float, float, float], list[float], float]:
    """Milliseconds: of making requests, of their threads, of all steps; each step; the results."""
    clock = time.perf_counter
    scheduler = Scheduler(engine)
    began = clock()
    asked = list(requests(engine, items, mode))
    made = clock()
    states = [RequestState(request, engine, watched=False) for request in asked]
    stated = clock()
    for state in states:
        scheduler.add(state)
    steps = []
    while scheduler.busy:
        before = clock()
        scheduler.step()
        steps.append(1e3 * (clock() - before))
    ended = clock()
    for state in states:
        state.result()
    result = 1e3 * (clock() - ended)
    return (1e3 * (made - began), 1e3 * (stated - made), 1e3 * (ended - stated)), steps, result


@contextmanager
def part_clock(engine: Engine) -> Iterator[Parts]:
    """The milliseconds spent in parts of steps while this is open; parts within parts count in both."""
    spent: Parts = {}
    kept: list[tuple[Any, str, Any]] = []
    for name, owner, method in parts_of(engine):
        kept.append((owner, method, owner.__dict__[method]))
        setattr(owner, method, _timed(owner.__dict__[method], spent, name))
    try:
        yield spent
    finally:
        for owner, method, inner in kept:
            setattr(owner, method, inner)


def parts_of(engine: Engine) -> list[tuple[str, Any, str]]:
    own = next(kind for kind in type(engine).__mro__ if "step" in kind.__dict__)
    launching = next(kind for kind in type(engine).__mro__ if "launch" in kind.__dict__)
    out: list[tuple[str, Any, str]] = [
        ("open", RequestState, "open"),
        ("interpreter", RequestState, "advance"),
        ("feed", RequestState, "carry_out"),
        ("engine.step", own, "step"),
        ("engine.launch", launching, "launch"),
    ]
    if own.__name__ == "CudaEngine":
        from pasta.engine.cuda.graph import Captured, ChoiceGraph, StepGraph
        from pasta.engine.cuda.prefill import Prefiller

        out += [
            ("prompt's pass, host", Prefiller, "run"),
            ("graph fill", StepGraph, "fill"),
            ("launches", Captured, "launch"),
            ("masks", ChoiceGraph, "fill"),
        ]
    return out


def _timed(inner: Callable[..., Any], spent: Parts, name: str) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return inner(*given, **named)
        finally:
            own = spent.setdefault(name, [0.0, 0])
            own[0] += 1e3 * (time.perf_counter() - began)
            own[1] += 1

    return timed


if __name__ == "__main__":
    main()
