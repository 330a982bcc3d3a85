"""Device time of captured steps by several ways, in turns: other checkouts of this code, or other constants.

python benchmarks/captured.py FILE SECONDS NAME=TREE[,MODULE.CONSTANT=VALUE…] …     (a CUDA device)
python benchmarks/captured.py now.json 60 now=. narrow=.,attention.TILE_LANES=16 before=../before/pasta

TREE is a folder that holds src/pasta; MODULE is one of pasta.engine.cuda, VALUE what Python would read. Each way is a
process of its own, with random weights; a step runs alone on the device, the ways one after another, ROUNDS times. Told
are medians in milliseconds, and by a star that a way's logits are not those of the first, bit by bit.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHAPES = ("smollm2-135m", "qwen2.5-1.5b", "llama-3-8b")
STEPS = ("1x1", "1x2", "1x4", "1x5", "1x16", "1x32", "32x2")  # answers, and threads of each
CONTEXT, ROUNDS, REPLAYS = 1_000, 5, 20
COMPARED = 1_000  # logits of a row: those of tags, which are made up after the model, may differ


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
    begun = time.monotonic()
    ways = []
    for each in given:
        name, _, rest = each.partition("=")
        tree, *constants = rest.split(",")
        ways.append(Way(name, tree, constants))
    report: dict[str, Any] = {"ways": given, "rows": []}
    for shape in SHAPES:
        for way in ways:  # each captures all of its steps, beside the others
            way.ask("load", shape)
        machines = [way.told() for way in ways]
        report["gpu"] = machines[0]
        for step in STEPS:
            if time.monotonic() - begun > limit:
                break
            times: dict[str, list[float]] = {way.name: [] for way in ways}
            same: dict[str, bool] = {}
            for _ in range(ROUNDS):
                first = None
                for way in ways:
                    way.ask("time", step)
                    milliseconds, logits = way.told()
                    first = first or logits
                    times[way.name].append(milliseconds)
                    same[way.name] = logits == first
            medians = {name: round(statistics.median(all_), 4) for name, all_ in times.items()}
            report["rows"].append({"shape": shape, "step": step, "ms": medians, "same": same, "all": times})
            told = "  ".join(f"{name} {ms:.3f}{'' if same[name] else '*'}" for name, ms in medians.items())
            print(f"{time.monotonic() - begun:5.0f} s  {shape:13} {step:5} {told}", flush=True)
            Path(file).write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    for way in ways:
        way.process.kill()


def captured(engine: Any, answers: int, threads: int) -> Any:
    """The graph of a step of so many answers, each of so many threads, as a real one left it."""
    from pasta.bench.gpu import GREEDY
    from pasta.core.grammar import Expect

    context = CONTEXT if answers == 1 else CONTEXT * 9 // 10  # the pool holds so many
    mains = []
    for answer in range(answers):  # of different prompts, since what is the same is kept once
        mains.append(engine.open([5 + answer] * context, Expect.TEXT, GREEDY))
        engine.step()
    handles = [handle for main in mains for handle in (main, *(engine.fork(main) for _ in range(threads - 1)))]
    before = engine._captures.shapes
    for place in range(2):
        for number, handle in enumerate(handles):
            engine.feed(handle, 7 + number, context + place, Expect.TEXT)
        engine.step()
    [shape] = [shape for shape in engine._captures.shapes if shape not in before]
    for main in mains:
        engine.close(main)
    return engine._captures.step(shape)


def serve(constants: list[str]) -> None:
    import torch

    from pasta.bench import gpu

    for each in constants:
        place, value = each.split("=")
        module, constant = place.split(".")
        found = importlib.import_module(f"pasta.engine.cuda.{module}")
        assert hasattr(found, constant), place
        setattr(found, constant, ast.literal_eval(value))
    graphs: dict[str, Any] = {}
    engine: Any = None
    for line in sys.stdin:
        command, name = line.split()
        if command == "load":
            graphs.clear()
            engine = None
            torch.cuda.empty_cache()
            torch.manual_seed(0)
            engine = gpu.make_engine(name)
            graphs.update((step, captured(engine, *map(int, step.split("x")))) for step in STEPS)
            print(json.dumps(torch.cuda.get_device_name()), flush=True)
            continue
        graph = graphs[name]
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph._graph.replay()
        start.record()
        for _ in range(REPLAYS):
            graph._graph.replay()
        end.record()
        end.synchronize()
        logits = graph.logits[:, :COMPARED].float().cpu().numpy().tobytes()
        print(json.dumps([start.elapsed_time(end) / REPLAYS, hashlib.sha256(logits).hexdigest()]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2:])
    else:
        main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
