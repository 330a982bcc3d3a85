"""What the host does for each row of a step on a GPU: the CUDA engine without the device.

    python benchmarks/host.py --json host.json
    python benchmarks/host.py --instructions --only '32 answers' --json instructions.json

It runs on any machine that has triton (`pip install triton`). Kernels are left out: a graph gives back the tokens of
the replayed response, or the same letter again and again, and the time in which it does that is not counted. What is
left is the scheduler, the interpreter, the plan of each step, rows that follow, and the text. Times are processor time
of this process, of the steps without prompts. They depend on the machine, and on what else runs there: compare two
versions by turns.

Python's instructions (`--instructions`, which is slow) are the same on every machine with the same Python. They say
where work is, not how long it takes: a call of C is one, whatever it does. Beside them stands which share of the rows
is of answers in which nothing but text comes (`text`), and in the step before as well (`text_again`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import torch
import transformers

import pasta.engine.cuda.engine as cuda
from pasta.bench.gpu import wide_response
from pasta.bench.machine import describe
from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import byte_tokenizer
from pasta.core.commands import Put
from pasta.core.garbage import collect_rarely, freeze_libraries
from pasta.core.interpreter import Interpreter
from pasta.core.params import SamplingParams
from pasta.core.tree import Tree
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.prompts import UNLIMITED, make_request
from pasta.decoding.request import RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.engine.cuda import captures, graph, prefill
from pasta.models.tags import add_tags

PROMPT = [5] * 100
WORDS = "abcdefghijklmnopqrstuvwxyz"


class Device:
    """Stands for the GPU, and counts the time that standing for it takes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def install(self) -> None:
        """In place of every call of CUDA that the engine makes."""
        zeros = torch.zeros
        torch.zeros = lambda *sizes, pin_memory=False, **options: zeros(*sizes, **options)  # type: ignore[assignment]
        event = SimpleNamespace(record=lambda: None, synchronize=lambda: None)
        torch.cuda.Event = lambda **_: event  # type: ignore[assignment,misc]
        torch.cuda.graph_pool_handle = lambda: None  # type: ignore[assignment]
        graph.capture = lambda work, memory: (SimpleNamespace(replay=self.timed(work)), None)  # type: ignore[assignment]
        captures.Captures._capture = capture  # type: ignore[method-assign]
        captures.Captures._capture_choice = capture_choice  # type: ignore[method-assign]
        run = self.timed(self.run)
        prefill.Prefiller.run = lambda *arguments: run(*arguments)  # type: ignore[method-assign]

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            begin = time.process_time()
            result = work(*arguments)
            self.seconds += time.process_time() - begin
            return result

        return run

    def run(self, _: prefill.Prefiller, prompts: Any) -> list[prefill.Prefill]:
        rows = [row for chunk in prompts for row in chunk.rows]
        return [prefill.Prefill(rows, torch.zeros(len(rows), SIZE))]


SIZE = 360  # of the vocabulary, tags included


def capture(self: Any, shape: Any) -> graph.StepGraph:
    """A step that chooses what it is told to."""
    chosen = self._board.chosen[: shape.rows]
    word = torch.tensor(70)

    def run(plan: Any) -> None:
        chosen.copy_(torch.where(plan.forced >= 0, plan.forced, word))

    logits = None if captures.leaves_hidden(shape.rows) else torch.zeros(shape.rows, SIZE)
    return graph.StepGraph(shape, run, chosen=chosen, logits=logits, padding_slot=self._padding_slot, memory=None)


def capture_choice(self: Any, choice: Any) -> graph.ChoiceGraph:
    logits = torch.zeros(choice.rows, SIZE)
    chosen, word = self._board.chosen[: choice.rows], torch.tensor(70)

    def choose(rows: Any, places: torch.Tensor) -> None:
        if choice.apart:  # else the step has chosen what it was told to
            chosen.copy_(torch.where(rows.forced >= 0, rows.forced, word))

    return graph.ChoiceGraph(choice, choose, logits=logits, board=self._board, words=SIZE // 32, memory=None)


def make_engine() -> cuda.CudaEngine:
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, vocab_size=320, max_position_embeddings=40_960, pad_token_id=0,
    )  # fmt: skip
    model, vocabulary = transformers.LlamaForCausalLM(config).eval(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    freeze_libraries()
    collect_rarely()  # as a server does
    return cuda.CudaEngine(model, vocabulary, name="no device", slots=1 << 19)


class Instructions:
    """Counts Python's instructions and calls in what runs within it, but for what stands for the device."""

    def __init__(self) -> None:
        self.instructions: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()

    def __enter__(self) -> None:
        sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _: str, __: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if code.co_filename == __file__:
            return None
        self.calls[code] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def ran(_: FrameType, event: str, __: object) -> Callable[..., Any]:
            self.instructions[code] += event == "opcode"
            return ran

        return ran

    def told(self, rows: int) -> dict[str, Any]:
        """For each row, and by the functions that most of it is in."""
        most = self.instructions.most_common(16)
        return {
            "instructions": round(self.instructions.total() / rows, 1),
            "calls": round(self.calls.total() / rows, 2),
            "most": {f"{Path(code.co_filename).stem}.{code.co_qualname}": round(n / rows, 1) for code, n in most},
        }


class Texts:
    """Which rows are of answers in which nothing but text comes, so that the same threads go on as they were."""

    def __init__(self) -> None:
        self.rows = self.text = self.again = 0
        self._before: dict[RequestState, list[int]] = {}  # by answer in which only text came: its threads

    def look(self, ends: dict[RequestState, int]) -> None:
        """At what a step did, by where the answers' journals ended before."""
        before, self._before = self._before, {}
        for state, end in ends.items():
            commands = state.journal[end:]
            puts = [command for command in commands if isinstance(command, Put)]
            self.rows += len(puts)
            assert isinstance(state.interpreter, Interpreter)
            tags = not state.interpreter.special.isdisjoint(put.token for put in puts)
            topics = any(put.expect is None or not put.expect.is_text for put in puts)
            if len(puts) < len(commands) or tags or topics:
                continue
            threads = self._before[state] = [put.thread for put in puts]
            self.text += len(puts)
            self.again += len(puts) if before.get(state) == threads else 0

    def told(self) -> dict[str, float]:
        return {"text": round(self.text / self.rows, 3), "text_again": round(self.again / self.rows, 3)}


class Load:
    """So many requests at once; each that ends is followed by another."""

    def __init__(self, engine: cuda.CudaEngine, at_once: int, scripts: Iterator[Tree] | None, **options: Any):
        self.engine, self.at_once, self.scripts, self.options = engine, at_once, scripts, options

    def run(self, device: Device, steps: int) -> dict[str, Any]:
        """What steps take."""
        took: list[float] = []
        rows: list[int] = []
        for step, states in itertools.islice(self.steps(), steps):
            rows.append(sum(len(state.interpreter.running) for state in states))
            device.seconds, begin = 0.0, time.process_time()
            step()
            took.append(time.process_time() - begin - device.seconds)
        middle = list(zip(took, rows, strict=True))[steps // 10 :]
        return {
            "rows": round(statistics.mean(count for _, count in middle), 1),
            "step_us": round(1e6 * statistics.median(seconds for seconds, _ in middle), 1),
            "row_us": round(1e6 * sum(seconds for seconds, _ in middle) / sum(count for _, count in middle), 2),
        }

    def count(self, steps: int) -> dict[str, Any]:
        """Which instructions steps take."""
        counted, texts, rows = Instructions(), Texts(), 0
        for step, states in itertools.islice(self.steps(), steps):
            rows += sum(len(state.interpreter.running) for state in states)
            ends = {state: len(state.journal) for state in states}
            with counted:
                step()
            texts.look(ends)
        return {"rows": round(rows / steps, 1), **counted.told(rows), **texts.told()}

    def steps(self) -> Iterator[tuple[Callable[[], object], list[RequestState]]]:
        """Steps without prompts, to be run before the next is asked for, and the answers that are under way in them."""
        scheduler = Scheduler(self.engine)
        under_way: list[RequestState] = []
        try:
            while True:
                under_way = [state for state in under_way if not state.finished]
                for _ in range(self.at_once - len(under_way)):
                    under_way.append(self.ask())
                    scheduler.add(under_way[-1])
                if all(state.handles for state in under_way):
                    yield scheduler.step, under_way
                else:
                    scheduler.step()
        finally:
            for state in under_way:
                scheduler.abort(state)

    def ask(self) -> RequestState:
        script = None if self.scripts is None else next(self.scripts)
        options = {"max_tokens": UNLIMITED if script else 400, **self.options}
        request = make_request(self.engine, PROMPT, script=script, drafts=False, **options)
        return RequestState(request, self.engine)


def cases(engine: cuda.CudaEngine) -> dict[str, Load]:
    tags = engine.vocabulary.tags
    assert tags is not None
    answers = make_responses(64, tags, engine.vocabulary.encode(WORDS), seed=1)
    plain = [plain_tokens(tree, tags) for tree in answers]
    wide = wide_response(32, 300, tags, engine.vocabulary.encode(WORDS))
    return {
        "128 plain answers, replayed": Load(engine, 128, itertools.cycle(plain), plain=True),
        "128 answers that fork, replayed": Load(engine, 128, itertools.cycle(answers)),
        "32 answers that fork, replayed": Load(engine, 32, itertools.cycle(answers), max_threads=64),
        "one answer of 32 threads, replayed": Load(engine, 1, itertools.repeat(wide), max_threads=64),
        "128 answers, greedy": Load(engine, 128, None),
        "128 answers, sampled": Load(engine, 128, None, params=SamplingParams(temperature=0.7, top_p=0.9)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", help="cases whose names have this in them")
    parser.add_argument("--instructions", action="store_true", help="count Python's instructions, and time nothing")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = Device()
    device.install()
    engine = make_engine()
    report: dict[str, Any] = {"machine": describe(), "cases": {}}
    for name, load in cases(engine).items():
        if options.only and options.only not in name:
            continue
        load.run(device, 30)
        told = load.count(options.steps) if options.instructions else load.run(device, options.steps)
        report["cases"][name] = told
        figures = [f"{key} {value:g}" for key, value in told.items() if key != "most"]
        print(f"{name:40}", ", ".join(figures), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
