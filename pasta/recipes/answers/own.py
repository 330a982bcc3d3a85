"""A small model that a larger one teaches keeps its own voice: what forks it learns from the larger one's answers, all
else from its own.

    python own.py prompts LARGE/chats/marked PROMPTS SMALL.jsonl      # of PROMPTS, those whose answers do not fork
    python own.py both LARGE/chats/marked SMALL/marked BOTH.jsonl     # for `default/run.py annotate --annotated`

Both folders hold what the stages that annotate have marked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.data.lines import read_lines, write_lines

Row = dict[str, Any]


def marked(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*-*.jsonl")):
        if not path.name.endswith(".source.jsonl"):
            yield from read_lines(path)


def forking(large: Path) -> list[Row]:
    return [row for row in marked(large) if row["pasta"]["blocks"]]


def prompts(large: Path, source: Path, out: Path) -> None:
    forked = {row["prompt"] for row in forking(large)}
    write_lines(out, (row for row in read_lines(source) if row["prompt"] not in forked))


def both(large: Path, small: Path, out: Path) -> None:
    forks = forking(large)
    forked = {row["prompt"] for row in forks}
    own = [row for row in marked(small) if not row["pasta"]["blocks"] and row["prompt"] not in forked]
    write_lines(out, [*forks, *own])
    print(f"{len(forks)} answers with forks of {len(forked)} prompts, {len(own)} of its own", file=sys.stderr)


if __name__ == "__main__":
    {"prompts": prompts, "both": both}[sys.argv[1]](*map(Path, sys.argv[2:]))
