"""How many of their lists repeat themselves, by who wrote them: what to hold a model's own figure against.

    python benchmarks/repeating_lists.py OUT.json FILE ...

The rows of a FILE have an `output` and the `generator` that wrote it. Saved are, of each with fifty lists or more, the
share that repeats (docs/evaluate.md) and its interval; beside OUT.json the rows: who, how many items, the most that two
of them share.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from pasta.data.lines import write_json
from pasta.data.redundancy import REPEATS, overlap_in_lists
from pasta.data.rows import read_rows, write_rows
from pasta.eval.intervals import mean_of
from pasta.text.lists import items

LEAST = 50  # lists of a writer


def main(target: str, *sources: str) -> None:
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for source in sources:
        for row in read_rows(source):
            overlap = overlap_in_lists(row["output"])
            if overlap is not None:
                found[row["generator"]].append((len(items(row["output"])), round(overlap, 3)))
        print(f"{source}: {sum(map(len, found.values())):,} lists so far", file=sys.stderr, flush=True)
    writers = {}
    for name, lists in found.items():
        if len(lists) >= LEAST:
            share = mean_of([float(overlap > REPEATS) for _, overlap in lists])
            assert share is not None
            writers[name] = share.to_dict()
    ordered = dict(sorted(writers.items(), key=lambda pair: pair[1]["value"]))
    write_json(Path(target), {"command": "python benchmarks/repeating_lists.py OUT.json FILE ...", "writers": ordered})
    rows = ({"writer": name, "items": count, "overlap": overlap} for name in ordered for count, overlap in found[name])
    write_rows(str(Path(target).with_suffix(".rows.jsonl.xz")), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
