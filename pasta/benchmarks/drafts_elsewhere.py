"""What guesses would be worth that are learned from other answers, reckoned without a model.

    python benchmarks/drafts_elsewhere.py ANSWERS.jsonl OUT.json MODEL [HELD_OUT]

ANSWERS has rows with a `response`; MODEL is a folder with a tokenizer. All answers but those held out teach a table of
which token follows the one, two or three before it, and how often; the held-out ones are then replayed with guesses of
that table, of the answer's own words (`decoding/drafts.py`), and of whichever of the two gains more. Steps cost what
`drafts_recorded.py` says, for models of three sizes.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean

from transformers import AutoTokenizer

from drafts_recorded import LEAST, MOST, replayed
from pasta.data.lines import read_lines, write_json
from pasta.decoding.drafts import MAX_DRAFT, Drafter, Guess
from pasta.engine.cuda.costs import row_cost, wait_cost
from pasta.eval.machine import describe_machine

SIZES = (3, 2, 1)  # how many last tokens are looked up
DOUBT = 1.5  # as if a guess had failed so many times more than was seen
SEEN = 2  # times that tokens must have come before they count
STEPS = {"8B": 4.6e-3, "1.5B": 1.0e-3, "135M": 0.6e-3}  # seconds of a step on an H200, about


class Table:
    """What most often follows some tokens, and in what share of the times."""

    def __init__(self, texts: Iterable[Sequence[int]]):
        counts: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for text in texts:
            for end in range(1, len(text)):
                for size in SIZES:
                    if end >= size:
                        counts[tuple(text[end - size : end])][text[end]] += 1
        self._best: dict[tuple[int, ...], tuple[int, float]] = {}
        for before, after in counts.items():
            token, times = after.most_common(1)[0]
            if after.total() >= SEEN:
                self._best[before] = (token, times / (after.total() + DOUBT))

    def __len__(self) -> int:
        return len(self._best)

    def next(self, text: Sequence[int]) -> tuple[int, float] | None:
        found = [self._best[key] for size in SIZES if (key := tuple(text[-size:])) in self._best]
        return max(found, key=lambda one: one[1], default=None)


class Elsewhere:
    """Guesses of a table, for one answer."""

    def __init__(self, table: Table):
        self._table, self._text = table, list[int]()

    def put(self, thread: int, token: int) -> None:
        self._text.append(token)

    def draft(self, thread: int, most: int, least_odds: float) -> Guess:
        tokens, odds, likely = self._text[-max(SIZES) :], list[float](), 1.0
        before = len(tokens)
        while len(odds) < min(most, MAX_DRAFT) and (found := self._table.next(tokens)) is not None:
            likely *= found[1]
            if likely <= least_odds:
                break
            tokens.append(found[0])
            odds.append(likely)
        return Guess(tokens[before:], odds)


class Either:
    """The guess of two that gains more."""

    def __init__(self, *drafters: Drafter | Elsewhere):
        self._drafters = drafters

    def put(self, thread: int, token: int) -> None:
        for drafter in self._drafters:
            drafter.put(thread, token)

    def draft(self, thread: int, most: int, least_odds: float) -> Guess:
        guesses = [drafter.draft(thread, most, least_odds) for drafter in self._drafters]
        return max(guesses, key=lambda guess: guess.gain(least_odds, 0))


def main(source: str, target: str, model: str, held_out: str = "400") -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts = [row["response"] for row in read_lines(Path(source))]
    random.Random(0).shuffle(texts)
    answers = [ids[:MOST] for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    taught, replays = answers[int(held_out) :], [ids for ids in answers[: int(held_out)] if len(ids) > LEAST]
    table = Table(taught)
    ways = {
        "own words": lambda: Drafter((), ()),
        "other answers": lambda: Elsewhere(table),
        "either": lambda: Either(Drafter((), ()), Elsewhere(table)),
    }
    rows = []
    for size, step_s in STEPS.items():
        row, wait = row_cost(step_s), wait_cost(step_s)
        for way, drafter in ways.items():
            done = [(len(ids), *replayed(drafter(), ids, row, wait)) for ids in replays]
            tokens = geometric_mean(length / steps for length, steps, _ in done)
            speeds = [length / cost for length, _, cost in done]
            told = [round(number, 3) for number in (tokens, geometric_mean(speeds), min(speeds))]
            rows.append([size, way, *told])
            print(
                f"{size}, {way}: {told[0]} tokens a step, {told[1]} times as fast, {told[2]} at the least", flush=True
            )
    about = {
        "command": "python benchmarks/drafts_elsewhere.py ANSWERS.jsonl OUT.json MODEL",
        "machine": describe_machine(),
        "answers": len(replays),
        "taught": {"answers": len(taught), "tokens": sum(map(len, taught)), "entries": len(table)},
    }
    columns = ["model", "guesses from", "tokens a step", "times as fast", "at the least"]
    write_json(Path(target), {**about, "columns": columns, "rows": rows})


if __name__ == "__main__":
    main(*sys.argv[1:])
