"""What a model answered to an item, in one mode, and what it took."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pasta.structured.trial import plain

if TYPE_CHECKING:
    from pasta.structured import StructuredResult


@dataclass(frozen=True, slots=True)
class Answer:
    value: dict[str, Any] | None  # the object; None where a limit cut it
    parts: Mapping[str, Any]  # then the values that were there, by JSON pointer
    steps: int
    decoded_tokens: int
    forced_tokens: int
    critical_path: int
    finish_reason: str
    checked_steps: int | None = None  # looked at again, were a value that stays as it was checked in one step

    @classmethod
    def of(cls, result: StructuredResult) -> Answer:
        return cls(
            result.value,
            {field.pointer: field.value for field in result.fields},
            result.steps,
            result.decoded_tokens,
            result.forced_tokens,
            result.critical_path,
            result.finish_reason,
        )

    def at(self, pointer: str) -> Any:
        """What it says there; None where it says nothing."""
        if self.value is None:
            return self.parts.get(pointer)
        value: Any = self.value
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            value = value.get(name) if isinstance(value, dict) else None
        return value


def digest(value: Any) -> str:
    """Four digits that are the same where two answers are, without keeping their words."""
    return f"{zlib.crc32(plain(value).encode()) & 0xFFFF:04x}"
