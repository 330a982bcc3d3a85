"""Servers that break off or stay away."""

from __future__ import annotations

from typing import Any

import pytest
from remote_support import ROWS, served

from pasta.decoding.api import generate
from pasta.decoding.prompts import make_request
from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote_client import Client, ServerError
from pasta.errors import UsageError
from support import Stepper


def test_what_breaks_off_is_taken_up_again(native: NativeEngine, folder: str) -> None:
    """A request carries all that came before it, so that any replica can go on."""
    with served(native, folder) as server:
        engine = connect(server.url)
        server.quirks = ["drop"]
        for row in ROWS[:2]:
            assert generate(engine, row["prompt"]).tree == generate(native, row["prompt"]).tree
        assert "dropped" in {seen.ended for seen in server.seen}


def test_a_server_that_stays_away_ends_its_own_answers_alone(native: NativeEngine, folder: str) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        engine.retries_s = (0.0, 0.01)  # type: ignore[assignment]
        decoder = Stepper(engine)
        jobs = [decoder.submit(make_request(engine, row["prompt"])) for row in ROWS[:2]]
        decoder.step()
        server.quirks = ["refuse"]
        late = decoder.submit(make_request(engine, ROWS[2]["prompt"]))
        while not late.finished:
            decoder.step()
        with pytest.raises(ServerError, match="503: not now"):
            late.result()
        server.quirks = []
        while decoder.busy:
            decoder.step()
        assert all(job.error is None or "503" in str(job.error) for job in jobs)
        assert generate(engine, ROWS[0]["prompt"]).tree == generate(native, ROWS[0]["prompt"]).tree
    with pytest.raises(ServerError, match="does not answer"):
        generate(engine, ROWS[0]["prompt"])


NONSENSE = [
    3, None, {"choices": [3]}, {"choices": [], "usage": 3},
    *({"choices": [{"token_ids": ids}]} for ids in (["a"], "ab", [-(10**6)], [10**30], [1.5], [True], [None])),
    {"choices": [{"token_ids": [65], "finish_reason": "stop", "stop_reason": True}]},
]  # fmt: skip


@pytest.mark.parametrize("event", NONSENSE, ids=str)
def test_nonsense_ends_its_own_answer_with_one_line(
    native: NativeEngine, folder: str, event: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take = Client._take
    with served(native, folder) as server:
        engine = connect(server.url)
        monkeypatch.setattr(Client, "_take", lambda client, stream, _, body: take(client, stream, event, body))
        with pytest.raises(ServerError, match=r"for token ids|something else than completions") as caught:
            generate(engine, ROWS[0]["prompt"])
    assert "\n" not in str(caught.value) and not caplog.records


def test_nonsense_for_log_probabilities_is_none(
    native: NativeEngine, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        monkeypatch.setattr(Client, "get", lambda *_: {"choices": [{"logprobs": 3}]})
        with pytest.raises(UsageError, match="returns no logprobs"):
            generate(engine, ROWS[0]["prompt"], logprobs=1)
