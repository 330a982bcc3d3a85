"""What the host does for threads inside vLLM, without a model: 64 scripted answers, and one of 1 to 32 threads.

    python benchmarks/inside_vllm_host.py --json host.json

The worker's part of a step is all but the forward pass: rows, tokens, interpreters. CPU time of its thread.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pasta.bench.machine import describe
from pasta.bench.responses import make_responses, plain_tokens
from pasta.bench.shapes import byte_tokenizer
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.tree import Block, Item, Tree, threads_of
from pasta.core.vocabulary import Vocabulary
from pasta.engine.vllm.burst import STEPS, Burst
from pasta.engine.vllm.plan import Plan, Rows
from pasta.engine.vllm.sampler import Answer, Choice, LaneSampler
from pasta.engine.vllm.terms import Terms

USERS, THREADS, TURNS, SIZE = 64, (1, 4, 16, 32), 5, 512


class Worker:
    """Bursts whose tokens are played from scripts."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary(byte_tokenizer())
        self.vocabulary.add_tags()
        assert self.vocabulary.tags is not None
        self.tags = self.vocabulary.tags
        self.words = self.vocabulary.encode("abcdefghijklmnopqrstuvwxyz")
        self.sampler = LaneSampler(self.vocabulary, SIZE, torch.device("cpu"), Taught())
        self.plans: dict[int, Plan] = {}
        self.rows = self.rounds = 0

    def begin(self, script: Tree, prompt: int) -> Answer:
        end = min(self.vocabulary.eos)
        played = {path: tuple(ids[1:]) if path else (*ids, end) for path, ids in threads_of(script).items()}
        params = SamplingParams(max_tokens=1 << 20, max_threads=64, positions=Positions())
        return self.sampler.answer(Terms(params, 1 << 20, 511, end, played), self.words[:1] * prompt, (), 1 << 20)

    def round(self, answers: Sequence[Answer]) -> list[Answer]:
        """One of vLLM's steps; the answers that go on."""
        self.rounds += 1
        streams = []
        for answer in answers:
            choices = [Choice(answer, lane) for lane in range(len(answer.lanes.deciding))]
            self.rows += len(choices)
            streams.append(answer.take(list(enumerate(self.sampler.play([0] * len(choices), choices)))))
        Burst(answers, streams, [1 << 30] * len(answers)).run(STEPS - 1, self._decide)
        return [answer for answer in answers if not answer.lanes.finished]

    def _decide(self, rows: Rows, deciding: list[int], choices: list[Choice] | None) -> list[int]:
        size = 1 << (len(rows.numbers) - 1).bit_length()
        plan = self.plans.setdefault(size, Plan(size))
        plan.fill(rows, tile_rows=16)
        self.rows += len(deciding)
        assert choices is not None
        return self.sampler.play(np.zeros(size, dtype=np.int64)[deciding].tolist(), choices)


def users() -> dict[str, Any]:
    """All at once, every fourth without threads."""
    worker = Worker()
    trees = make_responses(USERS, worker.tags, worker.words, threads=(2, 6))
    trees = [plain_tokens(tree, worker.tags) if user % 4 == 3 else tree for user, tree in enumerate(trees)]
    spent = []
    for _ in range(TURNS):
        answers = [worker.begin(tree, 40) for tree in trees]
        worker.rows = worker.rounds = 0
        begun = time.thread_time()
        while answers:
            answers = worker.round(answers)
        spent.append(1e6 * (time.thread_time() - begun) / worker.rows)
    return {"rows": worker.rows, "turns_of_the_scheduler": worker.rounds, "us_a_row": round(min(spent), 1)}


def one_answer(threads: int) -> float:
    """Microseconds a step, where all threads are live."""
    worker, draw = Worker(), random.Random(0)
    items: list[Item] = []
    for _ in range(threads - 1):
        body = (worker.tags.open, *draw.choices(worker.words, k=150 + 3 * threads), worker.tags.close)
        items += [worker.tags.promise, draw.choice(worker.words), worker.tags.of_tens(10), Block(body)]
    items += draw.choices(worker.words, k=200)
    spent = []
    for _ in range(TURNS):
        answers = [worker.begin(tuple(items), 1000)]
        while answers:
            lanes, begun, rows = answers[0].lanes, time.thread_time(), worker.rows
            before = len(lanes.deciding)
            answers = worker.round(answers)
            if answers and before == len(lanes.deciding) == threads and worker.rows - rows == STEPS * threads:
                spent.append(1e6 * (time.thread_time() - begun) / STEPS)
    return round(statistics.median(spent), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="The host's part of threads inside vLLM.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = {
        "machine": describe(),
        "users": users(),
        "us_a_step_of_one_answer": {threads: one_answer(threads) for threads in THREADS},
    }
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
