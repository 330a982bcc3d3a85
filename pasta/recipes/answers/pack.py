"""What should come back from a machine that gives back few and small files: one archive, cut into parts.

cat packed/answers.tar.xz.* | tar xJ
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pasta.errors import PastaError
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS

PART = 15 << 20
MOST = 8  # parts
NAME = "answers.tar.xz"
#: The best first: what does not fit any more is left out, and said.
WANTED = (
    "eval/run.json", "eval/summary.json", "eval/rows.jsonl.xz", "eval/timing.jsonl", "eval/marks/*/*.jsonl",
    "*/training.json", "preference-*/round-1/lambda-*/training.json", "preference-*/round-1/scores.jsonl",
    "preference-pasta/round-1/lambda-*", "pasta", "answers.jsonl", "preference-baseline/round-1/lambda-*", "baseline",
    "apar", "annotated.jsonl", "held-out.jsonl", "tasks.jsonl", "eval/answers/*/*.jsonl",
)  # fmt: skip
OF_ADAPTER = (WEIGHTS, CONFIG, RECORD, "training.json")  # the tokenizer is the base's, and large


def files(out: Path) -> Iterator[Path]:
    seen: set[Path] = set()
    for pattern in WANTED:
        for found in sorted(out.glob(pattern)):
            inside = [found / name for name in OF_ADAPTER] if found.is_dir() else [found]
            for path in inside:
                if path.is_file() and path not in seen:
                    seen.add(path)
                    yield path


def pack(out: Path, to: Path) -> list[Path]:
    """Writes the parts, and says what did not fit."""
    if not any(files(out)):
        raise PastaError(f"{out} holds nothing to pack", hint="run the stages before")
    to.mkdir(parents=True, exist_ok=True)
    chosen = list(files(out))
    while (packed := archive(out, chosen)) and len(packed) > PART * MOST:
        left = chosen.pop()
        print(f"left out: {left.relative_to(out)}")
    parts = []
    for number, start in enumerate(range(0, len(packed), PART)):
        part = to / f"{NAME}.{number}"
        part.write_bytes(packed[start : start + PART])
        parts.append(part)
    return parts


def archive(out: Path, chosen: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=1) as tar:
        for path in chosen:
            tar.add(path, str(path.relative_to(out)))
    return buffer.getvalue()
