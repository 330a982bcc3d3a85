"""Names of models, prompts and judges: each is a file or a folder in the folder of an evaluation."""

from __future__ import annotations

from pasta.errors import UsageError

LONGEST = 200  # bytes; file systems take 255, and `.jsonl.xz` comes after some names


def check_name(given: str, name: str) -> None:
    """Refuses a name that is no single part of a path, or too long for one: its rows would land elsewhere."""
    if name in ("", ".", "..") or any(mark in "/\\" or not mark.isprintable() for mark in name):
        raise UsageError(f"{given}: {name!r} cannot be a name", "use letters, digits, dots and dashes, as in my-model")
    if len(name.encode()) > LONGEST:
        raise UsageError(f"{given}: the name has {len(name.encode())} bytes, expected {LONGEST} or less")
