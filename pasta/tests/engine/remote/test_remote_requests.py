"""What the remote engine asks of a server, and when."""

from __future__ import annotations

import threading
import time

from completions_server import CompletionsServer, Seen
from remote_support import ROWS

from pasta.decoding.api import generate, generate_all, stream
from pasta.decoding.events import Forked
from pasta.decoding.prompts import make_request
from pasta.engine.remote import RemoteEngine
from pasta.engine.remote_client import Client
from support import Stepper, until


def test_requests_share_what_they_begin_with(remote: RemoteEngine, server: CompletionsServer) -> None:
    """A fork finds its parent's tokens, and the sync at least what its first chunk began with, and the chunk."""
    answer = generate(remote, ROWS[0]["prompt"])
    assert len(answer.threads) == 3 and remote.vocabulary.tags is not None
    tags = remote.vocabulary.tags
    children = [seen for seen in server.seen if seen.body["prompt"][-1] == tags.open]
    joins = [seen for seen in server.seen if seen.body["prompt"][-1] == tags.sync]
    assert (len(children), len(joins)) == (2, 1)
    for child in children:
        assert child.cached >= len(child.body["prompt"]) - 2  # but for the token that is just decoded, and <async>
    assert joins[0].cached >= joins[0].body["prompt"].index(tags.close)
    until(lambda: all(seen.ended for seen in server.seen))
    until(lambda: remote.client.usage.cached_tokens > 0)


def test_a_finished_chunk_is_read_ahead(remote: RemoteEngine, server: CompletionsServer) -> None:
    """The second chunk waits until the first is read ahead."""
    tags = remote.vocabulary.tags
    assert tags is not None

    def ahead() -> list[Seen]:
        return [seen for seen in server.seen if "logit_bias" not in seen.body]

    def is_second(seen: Seen) -> bool:
        prompt = seen.body["prompt"]
        return prompt[-1] == tags.open and prompt.count(tags.promise) == 2

    server.holds = lambda seen: is_second(seen) and not ahead()
    answer = generate(remote, ROWS[0]["prompt"])
    joined = next(seen.body["prompt"] for seen in server.seen if seen.body["prompt"][-1] == tags.sync)
    assert ahead() and all(seen.body["max_tokens"] == 1 for seen in ahead())
    assert all(joined[: len(seen.body["prompt"])] == seen.body["prompt"] for seen in ahead())
    assert all(seen.body["prompt"].count(tags.close) == 1 for seen in ahead())  # the sync comes with the second
    assert len(answer.threads) == 3


def test_one_answer_is_one_session(remote: RemoteEngine, server: CompletionsServer) -> None:
    generate_all(remote, [ROWS[0]["prompt"], ROWS[3]["prompt"]])
    sessions: dict[str, set[str]] = {}
    for seen in server.seen:
        sessions.setdefault(seen.headers["X-Session-ID"], set()).add(seen.body["cache_salt"])
        assert seen.headers["X-SMG-Routing-Key"] == seen.headers["X-Session-ID"]
    assert [len(salts) for salts in sessions.values()] == [1, 1]
    assert len(set().union(*sessions.values())) == 2  # nobody finds another's prefixes …
    server.seen.clear()
    generate_all(remote, [ROWS[0]["prompt"], ROWS[3]["prompt"]], cache_salt="one reader")
    assert {seen.body["cache_salt"] for seen in server.seen} == {"one reader"}  # … unless they are of one salt


def test_leaving_an_answer_closes_its_connections(remote: RemoteEngine, server: CompletionsServer) -> None:
    server.pause = 0.02
    outputs = stream(remote, ROWS[0]["prompt"])
    for output in outputs:
        if any(isinstance(event, Forked) for event in output.events):
            server.pause = 0.3  # there is a while to leave
            break
    outputs.close()
    until(lambda: all(seen.ended for seen in server.seen))
    assert "aborted" in {seen.ended for seen in server.seen}
    assert not remote._waiting


def test_a_step_does_not_wait_for_ever(remote: RemoteEngine, server: CompletionsServer) -> None:
    server.pause = 12
    threads = threading.active_count()
    scheduler = Stepper(remote)
    state = scheduler.submit(make_request(remote, ROWS[0]["prompt"]))
    begun = time.monotonic()
    assert scheduler.step() == []
    assert time.monotonic() - begun < 10
    scheduler.abort(state)
    assert threading.active_count() < threads + 10


def test_a_client_that_is_dropped_leaves_nothing() -> None:
    """Wherever the collector runs, even in the client's own thread."""
    for own_thread in (False, True):
        client = Client("http://127.0.0.1:9/v1")
        loop, shut_down = client._loop, client.shut_down
        if own_thread:
            loop.call_soon_threadsafe(shut_down)
        else:
            del client
        until(loop.is_closed)
        assert not shut_down.alive
