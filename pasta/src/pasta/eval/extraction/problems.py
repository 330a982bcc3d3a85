"""Word problems of GSM8K, three in one object, each with its steps and its answer: the answer needs the steps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.data.rows import read_rows
from pasta.eval.extraction.item import Item, object_of

EACH = 3
STEPS = {"type": "string", "maxLength": 600}


def problem_sets(path: Path, most: int) -> Iterator[Item]:
    rows = list(read_rows(str(path)))
    random.Random(0).shuffle(rows)
    groups = [rows[first : first + EACH] for first in range(0, len(rows) - EACH + 1, EACH)]
    for number, group in enumerate(groups[:most]):
        named = {f"p{place}": row for place, row in enumerate(group, start=1)}
        texts = "\n\n".join(f"{name}: {row['question']}" for name, row in named.items())
        yield Item(
            "gsm8k",
            str(number),
            f"Solve these problems.\n\n{texts}\n\nAnswer with one JSON object that has the keys {', '.join(named)}. "
            'Each is an object with "steps", the calculation in short sentences such as "48 / 2 = 24 clips in May. '
            '48 + 24 = 72 clips in both.", and "answer", the number that it comes to.',
            object_of({name: object_of({"steps": STEPS, "answer": {"type": "number"}}) for name in named}),
            {f"/{name}/answer": [final_number(row)] for name, row in named.items()},
            after={f"/{name}/answer": [f"/{name}/steps"] for name in named},
        )


def final_number(row: dict[str, Any]) -> float:
    """GSM8K's own rows end in `#### NUMBER`; others name it `final`."""
    text = str(row.get("final") or row["answer"].rpartition("####")[2])
    return float(text.replace(",", "").strip())
