"""Where a response comes from and goes to: a file, or standard input and output."""

from __future__ import annotations

import codecs
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.errors import PastaError, UsageError

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of a response, and the name under which messages speak of it."""

    name: str
    data: bytes
    is_result: bool = False  # taken out of what `generate --json` wrote
    is_cut: bool = False  # by a limit, as the result says

    @property
    def is_stdin(self) -> bool:
        return self.name == STDIN


def read_source(file: str) -> Source:
    """Read a file, or standard input for `-`.

    Raises:
        UsageError: There is nothing to read: no such file, a folder, rows, no permission, or not a single byte.
    """
    if ".jsonl" in Path(file).suffixes:
        raise UsageError(f"{file} holds rows, expected one response", "put the text of a row into a file of its own")
    data = (_read_stdin() if file == STDIN else _read_file(file)).removeprefix(codecs.BOM_UTF8)
    if not data:
        what = "standard input" if file == STDIN else file
        raise UsageError(f"{what} is empty", "expected a response in PASTA-LANG, as in docs/language.md")
    return Source(file, data)


def read_response(file: str) -> Source:
    """As `read_source`; of what `generate --json` writes, its annotated text."""
    source = read_source(file)
    result = _result(source.data)
    if result is None:
        return source
    annotated = result["annotated"].encode("utf-8", "replace")
    return Source(file, annotated, is_result=True, is_cut=result.get("finish_reason") == "length")


def write_atomically(file: str, data: bytes) -> None:
    """Replace a file at once: whoever reads it sees the old bytes or the new ones, never a part.

    Raises:
        PastaError: It cannot be written; the old file is untouched.
    """
    target = Path(os.path.realpath(file))  # through a link, so that the link stays one
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, target.stat().st_mode)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise PastaError(f"cannot write {file}: {error.strerror}", "the file is unchanged") from None


def write_standard(data: bytes, *, to_stderr: bool = False) -> None:
    """Write bytes to standard output (or error), at once."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream is None:  # closed by whoever started us: nobody wants to read it
        return
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _read_file(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        hint = "give the path of a response, or - for standard input"
        raise UsageError(f"no such file: {file}", hint) from None
    except IsADirectoryError:
        raise UsageError(f"{file} is a folder", "give one file at a time") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "give a file that you may read") from None


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("standard input is closed", "pipe a response in, or give a file")
    return sys.stdin.buffer.read()


def _result(data: bytes) -> dict[str, Any] | None:
    """A result in JSON, which has its annotated text; None where the bytes are no such result."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(result, dict) or not {"annotated", "text", "threads"} <= result.keys():
        return None
    return result if isinstance(result["annotated"], str) else None
