"""What should come back from a machine that gives back few and small files: one archive, cut into parts.

cat packed/answers.tar.gz.* | tar xz
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from pasta.errors import PastaError
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS

PART = 14 << 20
MOST = 4  # parts
NAME = "answers.tar.gz"
LEVEL = 1  # weights hardly shrink, and the machine is waited for
#: The best first: what does not fit any more is left out, and said.
WANTED = (
    "eval/run.json", "eval/timing.jsonl", "eval/answers/*/*.jsonl", "eval/marks/*/*.jsonl", "eval/summary.json",
    "*/training.json", "*/round-1/lambda-*/training.json", "*/round-1/scores.jsonl",
    "pasta", "baseline", "*-pasta/round-1/lambda-*", "apar", "*-baseline/round-1/lambda-*",
    "answers.jsonl", "chats/samples.jsonl", "annotated.jsonl", "tasks.jsonl",
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
    for old in to.glob(f"{NAME}.*"):
        old.unlink()
    buffer, room = io.BytesIO(), PART * MOST
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=LEVEL) as tar:
        for path in files(out):
            size = len(zlib.compress(path.read_bytes(), LEVEL)) + 200  # and its header, packed
            if size > room:
                print(f"left out: {path.relative_to(out)}")
                continue
            room -= size
            tar.add(path, str(path.relative_to(out)))
    packed = buffer.getvalue()
    parts = []
    for number, start in enumerate(range(0, len(packed), PART)):
        part = to / f"{NAME}.{number}"
        part.write_bytes(packed[start : start + PART])
        parts.append(part)
    return parts
