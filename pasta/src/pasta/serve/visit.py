"""One HTTP request as the access log tells it: one line of JSON, without a word of prompt or answer."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pasta.serve.logs import say

GONE = 499  # nobody reads it: nginx's number for a client that closed the connection


@dataclass(slots=True)
class Visit:
    """What is known when the request has ended; None is left out."""

    id: str
    method: str
    route: str
    status: int = 0
    key: str | None = None
    error: str | None = None  # its code
    stream: bool | None = None
    choices: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    threads: int | None = None
    critical_path: int | None = None
    plain_when_full: int | None = None  # choices that began without threads
    finish: str | None = None
    queue_s: float | None = None  # until the engine took it
    first_s: float | None = None  # until its first text
    begun: float = field(default_factory=time.perf_counter)

    @property
    def total_s(self) -> float:
        return time.perf_counter() - self.begun

    def fields(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {"time": now}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None and name != "begun":
                told[name] = round(value, 4) if isinstance(value, float) else value
        return {**told, "total_s": round(self.total_s, 4)}

    def log(self) -> None:
        say(json.dumps(self.fields(), ensure_ascii=True))
