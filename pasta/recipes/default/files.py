"""The prompts that a stage reads, and the table that it ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.data.fields import is_unicode, prompt_of
from pasta.data.rows import read_rows
from pasta.errors import PastaError, UsageError


def read_prompts(source: str, limit: int = 0) -> list[str]:
    """The prompts of a file that are not empty, and Unicode."""
    prompts = []
    for row in read_rows(source):
        prompt = prompt_of(row)
        if prompt is None:
            raise UsageError(f"{source}: a row has no prompt", hint="rows need prompt, instruction or messages")
        if prompt.strip() and is_unicode(prompt):
            prompts.append(prompt)
        if limit and len(prompts) == limit:
            break
    return prompts


def need_made(path: Path, stage: str) -> Path:
    """Refuses to begin without what another stage makes."""
    if not path.exists():
        raise PastaError(f"{path} is missing", hint=f"run the stage {stage} first")
    return path


def table(title: str, rows: Sequence[tuple[str, Any]]) -> None:
    print(f"\n{title}")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        print(f"  {name.ljust(width)}  {shown}", flush=True)
