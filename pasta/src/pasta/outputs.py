"""What a command is about to write, looked at before it does anything that takes long."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pasta.errors import UsageError

Name = str | os.PathLike[str]


def check_apart(target: Name, sources: Iterable[Name | None]) -> None:
    """Refuses to write over what is read, by whatever path or link; None and what is no path are nobody's file."""
    for source in (each for each in sources if each is not None):
        if os.path.exists(source) and os.path.exists(target) and os.path.samefile(source, target):
            raise UsageError(f"{source} and {target} are the same file, read and written", "name another output")
