"""What drafts would be worth on recorded answers, without a model: guesses, their outcome, and what a step then costs.

    python benchmarks/drafts_recorded.py EVAL/answers OUT.json MODEL [NAME] [ANSWERS]

EVAL is a folder of `pasta eval` in which NAME (`baseline`) answered in one thread; MODEL is a folder with a tokenizer.
A step costs 1. One that checks guesses costs more by `costs.wait_cost` and, for each guess, by `costs.row_cost`; the
first guess after a step ahead of the host comes a step later. A row for each answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Protocol

from transformers import AutoTokenizer

from pasta.core.vocabulary import Vocabulary
from pasta.data.lines import read_lines, write_json
from pasta.decoding.drafts import MAX_DRAFT, PRIOR, Drafter, Guess
from pasta.engine.cuda.costs import row_cost, wait_cost
from pasta.eval.machine import describe_machine

COLUMNS = ["set", "tokens", "tokens a step", "times as fast"]
STEP_S = 1.0e-3  # of 1.5 billion weights in 16 bits, by their bytes
LEAST, MOST = 20, 600  # tokens of an answer


class Guesses(Protocol):
    def put(self, thread: int, token: int) -> None: ...

    def draft(self, thread: int, most: int, least_odds: float) -> Guess: ...


def replayed(drafter: Guesses, answer: Sequence[int], row: float, wait: float) -> tuple[int, float]:
    """In how many steps an answer comes, and what they cost together."""
    place, steps, cost, ahead = 0, 0, 0.0, 1  # ahead: tokens that are decided already when a guess is made

    def step(guess: Sequence[int], extra: float) -> None:
        """Puts the tokens that come true, and the one after them."""
        nonlocal place, steps, cost
        left = answer[place : place + len(guess) + 1]
        right = next((i for i, (one, other) in enumerate(zip(guess, left, strict=False)) if one != other), len(guess))
        for token in left[: right + 1]:
            drafter.put(0, token)
        place, steps, cost = place + min(len(left), right + 1), steps + 1, cost + 1 + extra

    while place < len(answer):
        guess = drafter.draft(0, MAX_DRAFT, row)
        if guess.gain(row, ahead) <= wait:
            step((), 0.0)
            ahead = 1
            continue
        rest = guess.tokens[ahead:]
        if ahead:
            came = answer[place] == guess.tokens[0]
            step((), 0.0)
            rest = rest if came else [-1] * len(rest)
        if place < len(answer):
            step(rest, wait + row * len(rest))
        ahead = 0
    return steps, cost


def main(source: str, target: str, model: str, name: str = "baseline", answers: str = "300") -> None:
    vocabulary = Vocabulary(AutoTokenizer.from_pretrained(model))
    rows = []
    for path in sorted(Path(source).glob(f"*/{name}.jsonl")):
        for row in list(read_lines(path))[: int(answers)]:
            ids = vocabulary.tokenizer.encode(row["text"], add_special_tokens=False)[:MOST]
            if len(ids) > LEAST:
                prompt = vocabulary.encode_chat([{"role": "user", "content": row["prompt"]}])
                steps, cost = replayed(Drafter(prompt, ()), ids, row_cost(STEP_S), wait_cost(STEP_S))
                rows.append([path.parent.name, len(ids), round(len(ids) / steps, 3), round(len(ids) / cost, 3)])
    for kind in dict.fromkeys(row[0] for row in rows):
        speeds = [row[3] for row in rows if row[0] == kind]
        lost = sum(speed < 0.98 for speed in speeds) / len(speeds)
        mean, least = geometric_mean(speeds), min(speeds)
        print(f"{kind}: {mean:.3f} times as fast, {least:.3f} at the least, {lost:.1%} below 0.98")
    about = {"command": "python benchmarks/drafts_recorded.py EVAL/answers OUT.json BASE", "prior": PRIOR}
    write_json(Path(target), {**about, "machine": describe_machine(), "columns": COLUMNS, "rows": rows})


if __name__ == "__main__":
    main(*sys.argv[1:])
