"""A small model that a larger one teaches keeps its own voice: what forks it learns from the larger one's answers, all
else from its own.

    python own.py prompts LARGE/chats/marked PROMPTS SMALL.jsonl      # of PROMPTS, those whose answers do not fork
    python own.py both LARGE/chats/marked SMALL/marked BOTH.jsonl     # for `default/run.py annotate --annotated`

Both folders hold what the stages that annotate have marked. PROMPTS are as the stage `sample` takes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.data.fields import prompt_of
from pasta.data.lines import read_lines, write_lines
from pasta.data.rows import read_rows
from pasta.errors import PastaError, UsageError

Row = dict[str, Any]


def marked(folder: Path) -> Iterator[Row]:
    files = [path for path in sorted(folder.glob("*-*.jsonl")) if not path.name.endswith(".source.jsonl")]
    if not files:
        raise UsageError(f"{folder} holds no answers that were marked", "name the folder `marked` of a stage's own")
    for path in files:
        yield from read_lines(path)


def forking(large: Path) -> list[Row]:
    return [row for row in marked(large) if row["pasta"]["blocks"]]


def prompts(large: Path, source: Path, out: Path) -> None:
    forked = {row["prompt"] for row in forking(large)}
    write_lines(out, (row for row in read_rows(str(source)) if prompt_of(row) not in forked))


def both(large: Path, small: Path, out: Path) -> None:
    forks = forking(large)
    forked = {row["prompt"] for row in forks}
    own = [row for row in marked(small) if not row["pasta"]["blocks"] and row["prompt"] not in forked]
    write_lines(out, [*forks, *own])
    print(f"{len(forks)} answers with forks of {len(forked)} prompts, {len(own)} of its own", file=sys.stderr)


def main(given: list[str]) -> int:
    steps = {"prompts": prompts, "both": both}
    try:
        if len(given) != 4 or given[0] not in steps:
            raise UsageError(f"{' '.join(given) or 'nothing'} was given", "expected prompts or both, and three paths")
        steps[given[0]](*map(Path, given[1:]))
    except PastaError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
