"""How long a server that is busy asks its clients to wait."""

from __future__ import annotations

LONGEST_S = 60.0


def retry_after(header: str | None) -> float:
    """The seconds of a `Retry-After`, a minute at most; 0 where there is none, or a date."""
    try:
        asked = float(header or 0)
    except ValueError:
        return 0.0
    return min(LONGEST_S, asked) if asked > 0 else 0.0
