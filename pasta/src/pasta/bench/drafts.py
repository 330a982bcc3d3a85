"""What drafts are worth: the same answers with and without, by kind of prompt.

    python -m pasta.bench.drafts [--model M] [--base B] [--device cuda] [--json FILE]

Runs take turns (without, with, without, with, …), greedy, one answer at a time. `tokens` are those that the model chose
for each step that a thread took part in: 1 without drafts. Speed is by tokens a second: in 16 bits an answer may differ
in a token that was as good as another. A run that captured a CUDA graph is run once more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from pasta.bench.machine import describe
from pasta.decoding.prompts import make_request
from pasta.decoding.request import RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.engine.base import Engine
from pasta.outputs import output_file

PROMPTS = {
    "code": (
        "Write a Python class Stack with push, pop, peek and is_empty methods, with docstrings.",
        "Write Python functions add, subtract, multiply and divide, each with a docstring and a test.",
        "Write an HTML table with eight rows of countries and their capitals.",
        "Add type hints to this code:\ndef add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\n"
        "def mul(a, b):\n    return a * b\n\ndef div(a, b):\n    return a / b\n",
        "Write a JSON list of six people with name, age, city and email.",
    ),
    "lists": (
        "List ten fruits, and say of each its colour and its taste in one sentence.",
        "List the planets of the solar system, with diameter and distance from the sun of each.",
        "What are the pros and cons of electric cars?",
        "Give a packing list for a week in the mountains, and say why each thing is needed.",
        "Compare Python, Java and C++: typing, speed, and what each is used for.",
    ),
    "prose": (
        "Write a short story about a lighthouse keeper.",
        "Explain in a few sentences why the sky is blue.",
        "Give me tips for better sleep.",
        "Write a letter to a friend who has moved to another country.",
    ),
}


def answer(engine: Engine, prompt: str, max_tokens: int, drafts: bool) -> dict[str, Any]:
    """One answer: its tree, how long it took after the prompt, and in how many steps of how many threads."""
    scheduler = Scheduler(engine)
    state = RequestState(make_request(engine, prompt, max_tokens=max_tokens, drafts=drafts), engine, watched=False)
    scheduler.add(state)
    scheduler.step()
    turns = tokens = 0
    step = engine.step

    def counted() -> Any:
        nonlocal turns, tokens
        decoded = step()
        turns += len({one.thread for one in decoded})
        tokens += len(decoded)
        return decoded

    engine.step = counted  # type: ignore[method-assign]
    try:
        begin = time.perf_counter()
        while scheduler.busy:
            scheduler.step()
        seconds = time.perf_counter() - begin
    finally:
        del engine.step
    result = state.result()
    return {"tree": result.tree, "seconds": seconds, "tokens": tokens, "turns": turns, "steps": result.steps}


def measure(engine: Engine, prompts: Sequence[str], max_tokens: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for prompt in prompts:
        runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        for _ in range(repeats):
            for drafts, done in runs.items():
                captured = -1
                while captured != (captured := getattr(engine, "captured", 0)):
                    one = answer(engine, prompt, max_tokens, drafts)
                done.append(one)
        without, drafted = (
            statistics.median(run["seconds"] / run["tokens"] for run in runs[drafts]) for drafts in (False, True)
        )
        one = runs[True][0]
        rows.append(
            {
                "prompt": prompt,
                "same": all(run["tree"] == runs[False][0]["tree"] for run in (*runs[False], *runs[True])),
                "tokens": one["tokens"] / one["turns"],
                "speed": without / drafted,
                "without_s": without,  # a token
                "drafted_s": drafted,
                "steps": [runs[False][0]["steps"], one["steps"]],
            }
        )
    return rows


def run(engine: Engine, *, max_tokens: int, repeats: int, save: str | None = None) -> dict[str, Any]:
    report: dict[str, Any] = {"machine": describe(), "model": engine.name, "max_tokens": max_tokens, "kinds": {}}
    report["row_cost"] = engine.row_cost
    for kind, prompts in PROMPTS.items():
        rows = measure(engine, prompts, max_tokens, repeats)
        means = {name: statistics.geometric_mean(row[name] for row in rows) for name in ("tokens", "speed")}
        least = min(row["speed"] for row in rows)
        same = sum(row["same"] for row in rows)
        report["kinds"][kind] = {**means, "least_speed": least, "same": same, "rows": rows}
        print(
            f"{kind}: {means['tokens']:.2f} tokens a step and thread, {means['speed']:.2f} times as fast "
            f"(at the least {least:.2f}), {same} of {len(rows)} the same",
            flush=True,
        )
        if save is not None:
            with open(save, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
    return report


if __name__ == "__main__":
    from pasta.engine.load import load_engine

    parser = argparse.ArgumentParser(description="What drafts are worth: the same answers with and without.")
    parser.add_argument("--model")
    parser.add_argument("--base")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=output_file, help="save everything to this file")
    arguments = parser.parse_args()
    loaded = load_engine(arguments.model, base=arguments.base, device=arguments.device, dtype=arguments.dtype)
    run(loaded, max_tokens=arguments.max_tokens, repeats=arguments.repeats, save=arguments.json)
