"""What the masks of an object take on this machine, its right answers fed token by token to all fields at once.

    python benchmarks/structured_masks.py ITEMS.jsonl TOKENIZER_FOLDER [--set dates …] > masks.json

ITEMS.jsonl is what `python -m pasta.eval.extraction make` writes. Processor time, of every step the least of five;
compare within one machine only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from pasta.bench.machine import describe
from pasta.core.vocabulary import Vocabulary
from pasta.engine.sampling import masks_of
from pasta.eval.extraction.item import Item, read_items
from pasta.eval.extraction.speed import choose
from pasta.structured import make_program

REPEATS = 5
OBJECTS = 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("items", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("--set", action="append", dest="sets")
    options = parser.parse_args()
    vocabulary = Vocabulary(AutoTokenizer.from_pretrained(options.tokenizer))
    sets = choose(read_items(options.items))
    chosen = options.sets or list(sets)
    found = {name: measure(vocabulary, sets[name][:OBJECTS]) for name in chosen}
    print(json.dumps({"machine": describe(), "tokens": vocabulary.size, "sets": found}, indent=1))


def measure(vocabulary: Vocabulary, items: list[Item]) -> dict[str, float]:
    objects = []
    for item in items:
        runs = zip(*(steps(vocabulary, item) for _ in range(REPEATS)), strict=True)
        objects.append([1e3 * min(step) for step in runs])
    return {
        "ms_an_object": statistics.fmean(map(sum, objects)),
        "first_step_ms": statistics.fmean(each[0] for each in objects),
        "longest_step_ms": max(map(max, objects)),
        "steps": statistics.fmean(map(len, objects)),
    }


def steps(vocabulary: Vocabulary, item: Item) -> list[float]:
    """The seconds of each step's masks."""
    made = make_program(vocabulary, item.schema)
    lanes: list[tuple[Any, Any, list[int]]] = []
    for index, beginning in made.known.items():
        answers = item.answers.get(made.plan.values[index].pointer)
        if answers and beginning.whole is None:
            text = f" {json.dumps(answers[0], ensure_ascii=False)}".encode()[len(beginning.written) :]
            lanes.append((beginning.matcher.copy(), beginning.scanner.copy(), vocabulary.encode(text.decode())))
    out, words = [], -(-vocabulary.size // 32)
    while lanes:
        began = time.process_time()
        masks_of([matcher for matcher, _, _ in lanes], words)
        out.append(time.process_time() - began)
        going = []
        for matcher, scanner, tokens in lanes:
            if tokens and scanner.push(vocabulary.octets[tokens[0]]) is None:
                matcher.consume(tokens[0])
                going.append((matcher, scanner, tokens[1:]))
        lanes = going
    return out


if __name__ == "__main__":
    main()
