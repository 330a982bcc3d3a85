"""Device time of captured steps by several ways, in turns: other checkouts of this code, or other constants.

python benchmarks/captured.py FILE SECONDS NAME=TREE[,MODULE.CONSTANT=VALUE…] …     (a CUDA device)
python benchmarks/captured.py now.json 60 now=. narrow=.,attention.TILE_LANES=16 before=../before/pasta

TREE is a folder that holds src/pasta; MODULE is one of pasta.engine.cuda, VALUE what Python would read. Each way is a
process of its own, with random weights; a step runs alone on the device, the ways one after another, ROUNDS times. Told
are medians in milliseconds. That a way is right is for the tests to say. SHAPES and STEPS, with
commas in the environment, say what is timed.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHAPES = tuple(os.environ.get("SHAPES", "smollm2-135m,qwen2.5-1.5b,llama-3-8b").split(","))
# Answers, threads of each, and how much each has written: what the threads of an answer wrote lies interleaved.
STEPS = tuple(os.environ.get("STEPS", "1x1,1x2,1x4,1x5,1x16,1x32,32x2,1x1+100,1x32+100").split(","))
CONTEXT, ROUNDS, REPLAYS = 1_000, 5, 20


class Way:
    """A process that times one way, when it is told to."""

    def __init__(self, name: str, tree: str, constants: list[str]):
        self.name = name
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", *constants]
        path = os.pathsep.join(filter(None, (str(Path(tree).resolve() / "src"), os.environ.get("PYTHONPATH", ""))))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )

    def ask(self, *words: str) -> None:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def told(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended")
        return json.loads(line)


def main(file: str, limit: float, given: list[str]) -> None:
    ways = []
    for each in given:
        name, _, rest = each.partition("=")
        tree, *constants = rest.split(",")
        ways.append(Way(name, tree, constants))
    report: dict[str, Any] = {"ways": given, "rows": []}
    try:
        measure(ways, report, Path(file), limit)
    finally:
        for way in ways:
            way.process.kill()


def measure(ways: list[Way], report: dict[str, Any], file: Path, limit: float) -> None:
    """Adds a row for each step of each shape to the report, and saves it, for so many seconds."""
    begun = time.monotonic()
    for shape in SHAPES:
        if time.monotonic() - begun > limit:
            return
        for way in ways:  # each captures all of its steps, beside the others
            way.ask("load", shape)
        for way in ways:
            report["gpu"] = way.told()
        for step in STEPS:
            if time.monotonic() - begun > limit:
                return
            times: dict[str, list[float]] = {way.name: [] for way in ways}
            for _ in range(ROUNDS):
                for way in ways:
                    way.ask("time", step)
                    times[way.name].append(way.told())
            medians = {name: round(statistics.median(all_), 4) for name, all_ in times.items()}
            report["rows"].append({"shape": shape, "step": step, "ms": medians, "all": times})
            told = "  ".join(f"{name} {ms:.3f}" for name, ms in medians.items())
            print(f"{time.monotonic() - begun:5.0f} s  {shape:13} {step:5} {told}", flush=True)
            file.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


class Step:
    """A step of so many answers, each of so many threads of which each has written so much, ready to be run again."""

    def __init__(self, engine: Any, answers: int, threads: int, written: int = 0):
        # Here, and not above: whose pasta it is, is the way's.
        from pasta.bench.gpu import GREEDY
        from pasta.core.grammar import Expect

        self.engine = engine
        context = CONTEXT if answers == 1 else CONTEXT * 9 // 10  # the pool holds so many
        self.mains = []
        for answer in range(answers):  # of different prompts, since what is the same is kept once
            self.mains.append(engine.open([5 + answer] * context, Expect.TEXT, GREEDY))
            engine.step()
        handles = [each for main in self.mains for each in (main, *(engine.fork(main) for _ in range(threads - 1)))]
        for place in range(written):
            for handle in handles:
                engine.feed(handle, 9, context + place, None)
        for number, handle in enumerate(handles):
            engine.feed(handle, 7 + number, context + written, Expect.TEXT)
        decoded = 0
        while decoded < len(handles):  # what was written may take several steps
            decoded += len(engine.step())
        last = context + written + 1
        for number, handle in enumerate(handles):
            engine.feed(handle, 8 + number, last, Expect.TEXT)
        fill = engine._captures._fill
        engine._captures._fill = lambda *step: self._used(fill(*step))
        engine.step()
        engine._captures._fill = fill

    def _used(self, graph: Any) -> Any:
        self.graph = graph
        return graph

    def replay(self) -> None:
        self.graph._graph.replay()

    def close(self) -> None:
        for main in self.mains:
            self.engine.close(main)


def prepared(engine: Any, name: str) -> Step:
    return Step(engine, *map(int, re.findall(r"\d+", name)))


def device_ms(graph: Any) -> float:
    """Of a step, or of another graph."""
    import torch

    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / REPLAYS


def serve(constants: list[str]) -> None:
    import torch

    from pasta.bench import gpu

    for each in constants:
        place, value = each.split("=")
        module, constant = place.split(".")
        found = importlib.import_module(f"pasta.engine.cuda.{module}")
        assert hasattr(found, constant), place
        setattr(found, constant, ast.literal_eval(value))
    engine: Any = None
    for line in sys.stdin:
        command, name = line.split()
        if command == "load":
            engine = None
            torch.cuda.empty_cache()
            engine = gpu.make_engine(name)
            for each in STEPS:  # compiles and captures
                prepared(engine, each).close()
            print(json.dumps(torch.cuda.get_device_name()), flush=True)
            continue
        step = prepared(engine, name)
        print(json.dumps(device_ms(step)), flush=True)
        step.close()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2:])
    else:
        main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
