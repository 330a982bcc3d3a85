"""What an operator decides."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pasta.serve.keys import Keys


@dataclass(frozen=True, slots=True)
class Settings:
    """How much the server takes on, and from whom."""

    host: str = "127.0.0.1"
    keys: Keys | None = None  # None: whoever reaches the server may use it
    max_running: int = 16  # requests that decode at once
    max_queue: int = 64  # requests that wait; more are refused
    slowdown: float | None = None  # times as long that threads beyond one for each request may make a step; None: any
    plain_when_full: bool = False  # answers begin without threads while these are not worth their tags: needs a bound
    max_tokens: int = 2048  # of the longest answer, in reading order, tags included
    max_body: int = 4 << 20  # bytes
    max_bodies: int = 64 << 20  # bytes of all bodies that are being read
    max_connections: int = 1024
    head_s: float = 10.0  # from a connection's beginning, or a request's first byte, to the end of its headers
    body_s: float = 60.0  # from there to the end of its body
    read_s: float = 60.0  # for which a client may read nothing of what waits to be sent
    grace_s: float = 10.0  # how long a shutdown lets running answers go on
    access_log: bool = False  # a line of JSON on stderr for each request
    aliases: tuple[str, ...] = ()  # other names by which clients may ask for the model
    chat_template_kwargs: Mapping[str, Any] | None = None  # of what a request does not set itself

    @property
    def most_at_once(self) -> int:
        """Answers that may run or wait."""
        return self.max_running + self.max_queue

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
