"""When something may be said again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pasta.clock import Pace


def test_once_in_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((100.0, 101.0, 106.0, 107.0, 111.5, 200.0, 200.5))
    monkeypatch.setattr("pasta.clock.time", SimpleNamespace(monotonic=lambda: next(times)))
    pace = Pace(5)
    assert [pace.is_due() for _ in range(6)] == [False, True, False, True, True, False]
