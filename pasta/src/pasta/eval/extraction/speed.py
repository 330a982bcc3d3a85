"""Objects of many short fields on this machine: decoded in each mode, one at a time and many at once.

The clock runs from the prompt's text to the object; the modes take turns. Prompts are never cached, grammars are (their
first build is told apart); of the words of a prompt that comes alone those are known that the other prompts have, too.
The time of the constraints is of a run of its own. `asked` tells the prompts as token ids with schemas, for
`benchmarks/structured_vllm.py`.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pasta.bench.clock import Sample, take_turns
from pasta.decoding.api import run
from pasta.decoding.request import Request
from pasta.engine.base import Engine
from pasta.eval.extraction.item import Item
from pasta.eval.intervals import mean_of
from pasta.eval.machine import describe_machine
from pasta.structured import make_structured_request
from pasta.structured.matcher import Grammars, Matcher

MODES = ("parallel", "checked", "sequential")
FEWEST = 8  # fields of an object
AT_ONCE = 32
MAX_TOKENS = 1024


def run_speed(
    engine: Engine, sets: dict[str, list[Item]], output: Path, *, objects: int, repeats: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Every set in turn; the JSON grows with them."""
    report: dict[str, Any] = {"model": engine.name, "machine": describe_machine(), "at_once": AT_ONCE, "sets": {}}
    for name, items in sets.items():
        report["sets"][name] = measure(engine, items, objects, repeats)
        output.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        say(f"{name}: {brief(report['sets'][name])}")
    return report


def choose(items: Sequence[Item]) -> dict[str, list[Item]]:
    """By set: those of so many independent fields, as many as run at once."""
    out: dict[str, list[Item]] = {}
    for item in items:
        if len(item.answers) >= FEWEST:
            out.setdefault(item.set, []).append(item)
    return {name: own[:AT_ONCE] for name, own in out.items() if len(own) >= AT_ONCE}


def asked(engine: Engine, sets: dict[str, list[Item]]) -> Iterator[str]:
    for name, items in sets.items():
        for item in items:
            ids = engine.vocabulary.encode_chat([{"role": "user", "content": item.prompt}])
            yield json.dumps({"set": name, "id": item.id, "prompt_ids": list(ids), "schema": item.schema}) + "\n"


# -- one set ---------------------------------------------------------------------------------------------


def measure(engine: Engine, items: Sequence[Item], objects: int, repeats: int) -> dict[str, Any]:
    one: dict[str, list[Sample]] = {mode: [] for mode in MODES}
    for item in items[:objects]:
        forget = _forgetting(engine, [other for other in items if other is not item])
        for mode, sample in take_turns({mode: _case(engine, [item], mode, forget) for mode in MODES}, repeats).items():
            one[mode].append(sample)
    many = take_turns({mode: _case(engine, items, mode) for mode in MODES}, repeats)
    return {
        "objects": min(objects, len(items)),
        "fields": statistics.fmean(len(item.answers) for item in items),
        "prompt_tokens": statistics.fmean(len(r.prompt) for r in requests(engine, items, "parallel")),
        "one_at_a_time": {mode: _of_one(one[mode]) for mode in MODES}
        | {"speedup": _speedup(one, "parallel"), "checked_speedup": _speedup(one, "checked")},
        "many_at_once": {mode: _of_many(many[mode], len(items)) for mode in MODES}
        | {"speedup": many["sequential"].wall_s / many["parallel"].wall_s},
        "counts": {mode: counts(engine, items, mode) for mode in MODES},
    }


def _case(engine: Engine, items: Sequence[Item], mode: str, before: Callable[[], None] = lambda: None) -> Any:
    def case() -> None:
        before()
        run(engine, list(requests(engine, items, mode)))

    return case


def _forgetting(engine: Engine, others: Sequence[Item]) -> Callable[[], None]:
    """What makes the vocabulary forget all words but those of these prompts: a run before must not help the next."""
    words = engine.vocabulary.words
    if words is None:
        return lambda: None
    words.known = {}
    for _ in requests(engine, others, "parallel"):
        pass
    known = words.known

    def forget() -> None:
        words.known = dict(known)

    return forget


def requests(engine: Engine, items: Sequence[Item], mode: str) -> Iterator[Request]:
    for item in items:
        yield make_structured_request(engine, item.prompt, item.schema, mode=mode, max_tokens=MAX_TOKENS)


def _of_one(samples: Sequence[Sample]) -> dict[str, float]:
    return {"ms_an_object": 1e3 * statistics.fmean(sample.wall_s for sample in samples)}


def _speedup(one: dict[str, list[Sample]], mode: str) -> dict[str, Any]:
    """Over sequential."""
    pairs = zip(one["sequential"], one[mode], strict=True)
    figure = mean_of([slow.wall_s / fast.wall_s for slow, fast in pairs], "geometric")
    assert figure is not None
    return figure.to_dict()


def _of_many(sample: Sample, objects: int) -> dict[str, float]:
    return {"ms_in_all": 1e3 * sample.wall_s, "objects_a_second": objects / sample.wall_s}


def counts(engine: Engine, items: Sequence[Item], mode: str) -> dict[str, float]:
    """Of an object: steps, tokens, and the processor's time in the constraints."""
    with constraint_clock() as spent:
        results: list[Any] = run(engine, list(requests(engine, items, mode)))
    objects = len(items)
    decoded = sum(result.decoded_tokens for result in results)
    return {
        "steps": sum(result.steps for result in results) / objects,
        "decoded_tokens": decoded / objects,
        "forced_tokens": sum(result.forced_tokens for result in results) / objects,
        "critical_path": sum(result.critical_path for result in results) / objects,
        "incomplete": sum(not result.complete for result in results),
        "constraint_ms": 1e3 * sum(spent.values()) / objects,
        "constraint_us_a_token": 1e6 * sum(spent.values()) / max(1, decoded),
        "mask_us_a_token": 1e6 * spent["masks"] / max(1, decoded),
    }


@contextmanager
def constraint_clock() -> Iterator[dict[str, float]]:
    """The seconds spent in each way to ask a constraint, while this is open. A call within another counts once."""
    spent: dict[str, float] = {}
    kept: list[tuple[type, str, Any]] = []
    busy = threading.local()
    for name in ("consume", "forced", "forced_tokens", "copy"):
        kept.append((Matcher, name, Matcher.__dict__[name]))
    for name in ("compile", "gate"):
        kept.append((Grammars, name, Grammars.__dict__[name]))
    for owner, name, inner in kept:
        spent[name] = 0.0
        setattr(owner, name, _timed(inner, name, spent, busy))
    masks = Matcher.__dict__["fill_all"]
    spent["masks"] = 0.0
    kept.append((Matcher, "fill_all", masks))
    Matcher.fill_all = classmethod(_timed(masks.__func__, "masks", spent, busy))  # type: ignore[assignment]
    try:
        yield spent
    finally:
        for owner, name, inner in kept:
            setattr(owner, name, inner)


def _timed(inner: Any, name: str, spent: dict[str, float], busy: threading.local) -> Any:
    def timed(*arguments: Any) -> Any:
        if getattr(busy, "now", False):
            return inner(*arguments)
        busy.now, began = True, time.perf_counter()
        try:
            return inner(*arguments)
        finally:
            spent[name] += time.perf_counter() - began
            busy.now = False

    return timed


def brief(found: dict[str, Any]) -> str:
    one, many, counted = found["one_at_a_time"], found["many_at_once"], found["counts"]
    return (
        f"one at a time {one['parallel']['ms_an_object']:.1f} ms against {one['sequential']['ms_an_object']:.1f} "
        f"({one['speedup']['value']:.2f}x), {AT_ONCE} at once {many['parallel']['ms_in_all']:.0f} ms against "
        f"{many['sequential']['ms_in_all']:.0f} ({many['speedup']:.2f}x), steps {counted['parallel']['steps']:.1f} "
        f"against {counted['sequential']['steps']:.1f}, constraints {counted['parallel']['constraint_ms']:.2f} ms "
        f"against {counted['sequential']['constraint_ms']:.2f}"
    )
