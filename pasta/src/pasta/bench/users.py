"""What threads are worth to many users: latency and goodput of the same answers, with PASTA and without.

    python -m pasta.bench.users --json FILE                        the default model, on what device there is
    python -m pasta.bench.users --shape qwen2.5-1.5b --json FILE   a shape with random weights, answers made up

So many users, each of whom asks, waits for the answer and asks again. All modes write the same texts, token for token
(they are replayed), so that only time differs: `plain`, without PASTA, one thread without tags; `free`, all threads at
once; and as the server regulates them, by a bound on how much longer they may make a step, and by plain answers where
threads are not worth their tags. Modes take turns, back and forth. Each has one scheduler for all loads and answers
each load once before it is measured, so that it knows what a server knows that has run for a while. Load stays until
the last measured answer has ended. A step that captured a CUDA graph is taken off the clock: a server does that once.
Nothing is drafted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pasta.bench.scripts import Script, made_up, own_answers
from pasta.core.garbage import collect_rarely, freeze_libraries
from pasta.core.tree import Tree
from pasta.decoding.prompts import UNLIMITED, make_request
from pasta.decoding.request import Request, RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.engine.base import Engine
from pasta.errors import UsageError
from pasta.outputs import output_file

USERS = (1, 2, 4, 8, 16, 32, 64, 128)
SLOWDOWNS = (1.5, 2.0)
SLOTS = 2048  # for each user


@dataclass(frozen=True, slots=True)
class Mode:
    name: str
    tags: bool = True
    slowdown: float | None = None


@dataclass
class Turn:
    """What one mode did in one turn."""

    latencies: list[float] = field(default_factory=list)  # of the measured answers
    steps: list[tuple[int, float]] = field(default_factory=list)  # threads that decoded, and seconds
    rows: int = 0  # tokens decoded
    content: float = 0.0  # of them, those that somebody reads
    seconds: float = 0.0
    captured: int = 0  # steps that were taken off the clock
    answers: int = 0  # also those that are not measured
    crowded: int = 0  # of them, those that began without threads where the mode has threads

    @property
    def goodput(self) -> float:
        return self.content / self.seconds


class Load:
    """One mode under one load, for one turn. The scheduler is the mode's own."""

    def __init__(self, scheduler: Scheduler, mode: Mode, scripts: Iterator[Script], users: int, answers: int):
        self.engine, self.mode, self.scripts = scheduler.engine, mode, scripts
        self.scheduler = scheduler
        scheduler.max_running, scheduler.slowdown = users, mode.slowdown
        self.users, self.answers = users, answers
        self.begun: dict[RequestState, tuple[float, Script]] = {}  # those under way, and since when
        self.measured: set[RequestState] = set()
        self.turn = Turn()

    def run(self) -> Turn:
        """Replaces each answer that ends, until the first so many have all ended."""
        turn, now, asked = self.turn, 0.0, 0
        while True:
            while len(self.begun) < self.users:
                state = self._ask(now)
                if asked < self.answers:
                    self.measured.add(state)
                asked += 1
            rows = sum(len(state.interpreter.running) for state in self.begun)
            captured, begin = self._captured(), time.perf_counter()
            self.scheduler.step()
            took = time.perf_counter() - begin
            if self._captured() == captured:
                now += took
                turn.steps.append((rows, took))
            else:
                turn.captured += 1
            for state in [state for state in self.begun if state.finished]:
                self._end(state, now)
            if asked >= self.answers and not self.measured:
                break
        for state in list(self.begun):
            self.scheduler.abort(state)
            self._count(state)
        turn.seconds = now
        return turn

    def _ask(self, now: float) -> RequestState:
        script = next(self.scripts)
        plain = self._request(script, script.plain)
        request = plain
        if self.mode.tags:
            regulated = self.mode.slowdown is not None
            request = replace(self._request(script, script.annotated), in_a_crowd=plain if regulated else None)
        state = RequestState(request, self.engine)
        self.begun[state] = (now, script)
        self.scheduler.add(state)
        return state

    def _request(self, script: Script, tree: Tree) -> Request:
        plain = tree is script.plain
        return make_request(self.engine, script.prompt, script=tree, max_tokens=UNLIMITED, plain=plain, drafts=False)

    def _end(self, state: RequestState, now: float) -> None:
        if state.error is not None:
            raise state.error
        if state in self.measured:
            self.measured.discard(state)
            self.turn.latencies.append(now - self.begun[state][0])
        self._count(state)

    def _count(self, state: RequestState) -> None:
        _, script = self.begun.pop(state)
        decoded = sum(len(thread.tokens) for thread in state.interpreter.threads)
        self.turn.rows += decoded
        assert state.request.script is not None
        self.turn.content += decoded * script.content(state.request.script)
        self.turn.answers += 1
        self.turn.crowded += state.crowded

    def _captured(self) -> int:
        return getattr(self.engine, "captured", 0)


def measure(
    engine: Engine,
    scripts: Sequence[Script],
    users: Sequence[int],
    slowdowns: Sequence[float] = SLOWDOWNS,
    *,
    least: int = 8,
    rounds: float = 1.5,
    turns: int = 2,
    end: float = float("inf"),
) -> Iterator[dict[str, Any]]:
    """A row for each number of users and mode, as they are done, of the turns that all modes had.

    Nothing is begun after `end` (`time.perf_counter`).
    """
    modes = [
        Mode("plain", tags=False),
        Mode("free"),
        *(Mode(f"slowdown {slowdown:g}", slowdown=slowdown) for slowdown in slowdowns),
    ]
    schedulers = {mode.name: Scheduler(engine) for mode in modes}

    def turn_of(mode: Mode, load: int, answers: int) -> Turn:
        return Load(schedulers[mode.name], mode, itertools.cycle(scripts), load, answers).run()

    for load in users:
        answers = max(least, round(rounds * load))
        done: dict[str, list[Turn]] = {mode.name: [] for mode in modes}
        for mode in modes:  # captures and compiles what there is to, and learns what there is to learn
            if time.perf_counter() <= end:
                turn_of(mode, load, load)
        order = [mode for turn in range(turns) for mode in (modes if turn % 2 == 0 else reversed(modes))]
        for mode in order:
            if time.perf_counter() > end:
                break
            done[mode.name].append(turn_of(mode, load, answers))
        whole = min(len(each) for each in done.values())
        if whole:
            yield from (row_of(load, mode, {name: each[:whole] for name, each in done.items()}) for mode in modes)
        if time.perf_counter() > end:
            return


def row_of(users: int, mode: Mode, done: dict[str, list[Turn]]) -> dict[str, Any]:
    turns, without = done[mode.name], done["plain"]
    latencies = [seconds for turn in turns for seconds in turn.latencies]
    steps = sorted(seconds for turn in turns for _, seconds in turn.steps)
    of_latency = [
        statistics.mean(theirs.latencies) / statistics.mean(ours.latencies)
        for theirs, ours in zip(without, turns, strict=True)
    ]
    of_goodput = [ours.goodput / theirs.goodput for theirs, ours in zip(without, turns, strict=True)]
    return {
        "users": users,
        "mode": mode.name,
        "answers": len(latencies),
        "latency_s": statistics.mean(latencies),
        "latency_p50_s": statistics.median(latencies),
        "latency_p95_s": sorted(latencies)[int(0.95 * len(latencies))],
        "goodput": sum(turn.content for turn in turns) / sum(turn.seconds for turn in turns),  # content tokens a second
        "step_p50_s": steps[len(steps) // 2],
        "step_p99_s": steps[int(0.99 * len(steps))],
        "rows_per_step": sum(turn.rows for turn in turns) / len(steps),
        "step_s_by_rows": by_rows([step for turn in turns for step in turn.steps]),
        "plain_when_full": sum(turn.crowded for turn in turns) / sum(turn.answers for turn in turns),  # of all answers
        "steps_captured": sum(turn.captured for turn in turns),
        "faster": statistics.median(of_latency),  # than without PASTA: the mean answer
        "faster_by_turn": of_latency,
        "goodput_ratio": statistics.median(of_goodput),
        "goodput_ratio_by_turn": of_goodput,
    }


def by_rows(steps: Sequence[tuple[int, float]]) -> dict[int, list[float]]:
    """Of steps up to each power of two: how many, their mean rows, the median of their seconds."""
    found: dict[int, list[tuple[int, float]]] = {}
    for rows, seconds in steps:
        found.setdefault(1 << (rows - 1).bit_length(), []).append((rows, seconds))
    return {
        up_to: [len(those), statistics.mean(r for r, _ in those), statistics.median(s for _, s in those)]
        for up_to, those in sorted(found.items())
    }


# -- the command ------------------------------------------------------------------------------------------


def make_engine(shape: str | None, model: str | None, base: str | None, device: str | None, slots: int) -> Engine:
    import torch

    from pasta.engine.load import load_engine

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if shape is None:
        dtype = "bfloat16" if device == "cuda" else None
        return load_engine(model, base=base, device=device, dtype=dtype, slots=slots)
    from pasta.bench.shapes import byte_tokenizer, random_model
    from pasta.core.vocabulary import Vocabulary
    from pasta.engine.make import make_engine as engine_for
    from pasta.models.tags import add_tags

    freeze_libraries()
    weights = random_model(shape, torch.bfloat16 if device == "cuda" else torch.float32, device)
    vocabulary = Vocabulary(byte_tokenizer())
    add_tags(weights, vocabulary)
    return engine_for(weights, vocabulary, name=shape, slots=slots)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="the default model where neither this nor a shape is named")
    parser.add_argument("--base", help="where the base of an adapter lies")
    parser.add_argument("--shape", help="a shape of bench/shapes.py with random weights")
    parser.add_argument("--device")
    parser.add_argument("--users", type=int, nargs="+", default=list(USERS))
    parser.add_argument("--slowdowns", type=float, nargs="+", default=list(SLOWDOWNS))
    parser.add_argument("--questions", type=int, help="how many the model answers first, to replay")
    parser.add_argument("--rounds", type=float, default=1.5, help="measured answers for each user")
    parser.add_argument("--least", type=int, default=8, help="measured answers of a turn, where users are few")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after this time")
    parser.add_argument("--json", metavar="FILE", type=output_file, help="save everything here, as it comes")
    options = parser.parse_args()
    begun = time.perf_counter()
    engine = make_engine(options.shape, options.model, options.base, options.device, max(options.users) * SLOTS)
    collect_rarely()  # as a server does
    report: dict[str, Any] = {"model": engine.name, "machine": machine(), "rows": []}
    if options.shape is None:
        scripts, asked = own_answers(engine, options.questions)
        report["questions"] = asked
        if not scripts:
            raise UsageError(f"none of {engine.name}'s {asked} answers forks", "name a model that was taught to")
    else:
        scripts = made_up(engine, 64)
    report["answers"] = len(scripts)
    report["content_tokens"] = statistics.mean(len(script.plain) for script in scripts)
    report["content_share"] = statistics.mean(script.content(script.annotated) for script in scripts)
    report["seconds"] = time.perf_counter() - begun
    print({key: value for key, value in report.items() if key != "rows"}, flush=True)
    heads = ("users", "mode", "latency s", "tokens/s", "step ms", "rows", "plain", "faster", "goodput", "after s")
    print("{:>5} {:14} {:>9} {:>9} {:>8} {:>7} {:>7} {:>7} {:>8} {:>8}".format(*heads), flush=True)
    sizes = {"least": options.least, "rounds": options.rounds, "turns": options.turns}
    for row in measure(engine, scripts, options.users, options.slowdowns, **sizes, end=begun + options.seconds):
        report["rows"].append(row)
        report["seconds"] = time.perf_counter() - begun
        print(
            f"{row['users']:5} {row['mode']:14} {row['latency_s']:9.3f} {row['goodput']:9.0f} "
            f"{1e3 * row['step_p50_s']:8.2f} {row['rows_per_step']:7.1f} {row['plain_when_full']:7.2f} "
            f"{row['faster']:7.3f} {row['goodput_ratio']:8.3f} {report['seconds']:8.0f}",
            flush=True,
        )
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(report, indent=1) + "\n")


def machine() -> dict[str, Any]:
    import torch

    if torch.cuda.is_available():
        from pasta.bench.gpu import machine as gpu

        return gpu()
    from pasta.bench.machine import describe

    return describe()


if __name__ == "__main__":
    main()
