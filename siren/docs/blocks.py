"""Runs the examples in the documents and compares, or renews, the output that they show.

`python docs/blocks.py` rewrites the shown output; the tests call `differences` and change nothing. It knows
    console   lines after `$ ` are run; what follows is their output
    siren     a program, run with seed 0; an `output` block after it shows `label mean sd`, or the error
    python    a script; an `output` block after it shows what it prints
A fence may say `no-run`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import siren
from siren.cli import main as command
from siren.digits import number

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```\n", re.S | re.M)
TOLERANCE = 0.02  # between machines the last digits of a long sampled run may differ


@dataclass(frozen=True, slots=True)
class Shown:
    """A stretch of the document that shows output, and what the output is now."""

    start: int
    end: int
    actual: str


def documents() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [*pages, ROOT / "examples" / "README.md", ROOT / "benchmarks" / "README.md"]


def examine(text: str) -> list[Shown]:
    """Run every example of a document."""
    fences = [fence for fence in FENCE.finditer(text) if "no-run" not in fence[2]]
    shown = []
    for index, fence in enumerate(fences):
        language, body = fence[1], fence[3]
        following = fences[index + 1] if index + 1 < len(fences) else None
        if language == "console":
            shown.append(Shown(fence.start(3), fence.end(3), _console(body)))
        elif language in ("siren", "python"):
            actual = _siren(body) if language == "siren" else _python(body)
            if following is not None and following[1] == "output":
                shown.append(Shown(following.start(3), following.end(3), actual))
    return shown


def differences(text: str) -> list[str]:
    """Where the shown output is not what comes out today."""
    return [
        f"shown:\n{text[item.start : item.end]}\nactual:\n{item.actual}"
        for item in examine(text)
        if not alike(text[item.start : item.end], item.actual)
    ]


def renew(text: str) -> str:
    for item in reversed(examine(text)):
        if not alike(text[item.start : item.end], item.actual):
            text = text[: item.start] + item.actual + text[item.end :]
    return text


def alike(shown: str, actual: str) -> bool:
    """Equal word by word, numbers within a tolerance, seconds whatever they are."""
    left, right = (_words(text) for text in (shown, actual))
    return len(left) == len(right) and all(_alike(a, b) for a, b in zip(left, right, strict=True))


def _words(text: str) -> list[str]:
    # A run takes as long as it takes.
    return re.sub(r"[\d.e-]+ s\b", "TIME s", text).split()


def _alike(shown: str, actual: str) -> bool:
    if shown == actual:
        return True
    try:
        a, b = float(shown.rstrip(",")), float(actual.rstrip(","))
    except ValueError:
        return False
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a))


def _console(body: str) -> str:
    out = []
    for line in body.splitlines():
        if line.startswith("$ "):
            out.append(line + "\n" + _shell(line[2:]))
    return "".join(out)


def _shell(line: str) -> str:
    """`siren ARGUMENTS [< FILE] [| head -N]`, in this process."""
    line, _, head = line.partition(" | head -")
    line, _, source = line.partition(" < ")
    arguments = shlex.split(line)
    assert arguments[0] == "siren", line
    stdin = io.StringIO((ROOT / source.strip()).read_text(encoding="utf-8") if source else "")
    caught = io.StringIO()
    with (
        contextlib.redirect_stdout(caught),
        contextlib.redirect_stderr(caught),
        contextlib.suppress(SystemExit),
        mock.patch.object(sys, "argv", arguments),
        mock.patch.object(sys, "stdin", stdin),
        mock.patch.object(warnings, "showwarning", warnings.showwarning),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
        contextlib.chdir(ROOT),
    ):
        command()
    lines = [text.rstrip() for text in caught.getvalue().splitlines()]
    return "\n".join(lines[: int(head)] if head else lines) + "\n"


def _siren(body: str) -> str:
    try:
        result = siren.run(body, seed=0, particles=1000)
    except siren.SirenError as error:
        return error.render() + "\n"
    rows = [
        f"{label}  {number(leaf.mean)}  {number(leaf.sd)}"
        for output in result
        for label, leaf in output.leaves()
    ]
    return "\n".join(rows) + "\n"


def _python(body: str) -> str:
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught), contextlib.chdir(ROOT):
        exec(compile(body, "<document>", "exec"), {"__name__": "__main__"})
    return caught.getvalue()


if __name__ == "__main__":
    for path in documents():
        before = path.read_text(encoding="utf-8")
        after = renew(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"renewed {path.relative_to(ROOT)}")
