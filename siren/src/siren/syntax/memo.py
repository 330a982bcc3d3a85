"""What was worked out about a program, kept as long as the program is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from siren.syntax import ast

T = TypeVar("T")


class Memo:
    """One dictionary for each program object, forgotten with it. Equal programs do not share: to compare them
    would take longer than most of what is kept."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[Any, Any]] = {}

    def once(self, program: ast.Program, make: Callable[[ast.Program], T]) -> T:
        """What the function makes of a program, which it is asked for once."""
        kept = self.of(program)
        if make not in kept:
            kept[make] = make(program)
        return kept[make]  # type: ignore[no-any-return]

    def of(self, program: ast.Program) -> dict[Any, Any]:
        found = self._kept.get(id(program))
        if found is None:
            found = self._kept[id(program)] = {}
            weakref.finalize(program, self._kept.pop, id(program), None)
        return found
