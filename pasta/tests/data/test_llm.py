"""The annotator `llm` against a real server on this machine that answers as OpenAI's does."""

import contextlib
import threading
import time

import pytest
from data_texts import LIST, count_words

from chat_server import ChatServer, quiet_port
from pasta.data.example import Example, Refused
from pasta.data.examples import WORKED
from pasta.data.llm import Llm
from pasta.data.plan import apply, verified
from pasta.errors import PastaError, UsageError

GOOD = """Each item stands alone. The last line speaks of all three, so it waits.
[1] Here is… -> main
[2] 1. **Light**:… -> light
[3] 2. **Water**:… -> water
[4] 3. **Soil**:… -> soil
[5] With these… -> wait"""


class Server(ChatServer):
    """Replies from a list of (status, content); the last one again and again."""

    def __init__(self, port=0):
        super().__init__(port)
        self.replies = [(200, GOOD)]
        self.requests = []
        self.lock = threading.Lock()
        self.barrier = None

    def reply(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            status, content = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if self.barrier is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.barrier.wait(300)
        return status, {"index": 0, "message": {"role": "assistant", "content": content}} if status == 200 else content


@pytest.fixture
def server():
    with Server(quiet_port()).running() as server:
        yield server


def example(row=0, prompt="Garden?"):
    return Example(row, ({"role": "user", "content": prompt},), LIST)


def ask(server, tmp_path, examples=None, **options):
    annotator = Llm("m", server.url, cache=tmp_path, backoff=0.01, **options)
    return annotator, list(annotator.decide(examples or [example()]))


def test_ranges_of_lines_become_blocks(server, tmp_path):
    _, [decision] = ask(server, tmp_path, key="secret")
    written = verified(apply(decision.plan, LIST, count_words), LIST)
    assert '1.<promise topic="light" tokens=2/><async> **Light**' in written
    assert "</async><sync/>\n\nWith these" in written
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer secret"
    assert body["model"] == "m"
    assert len(body["messages"]) == 2 + 2 * len(WORKED)


def test_many_requests_are_under_way_at_a_time(server, tmp_path):
    server.barrier = threading.Barrier(4)  # no reply is sent before four requests have come in
    _, decisions = ask(server, tmp_path, [example(n, f"Garden {n}?") for n in range(8)], concurrency=4)
    assert sorted(decision.row for decision in decisions) == list(range(8))
    assert all(decision.plan for decision in decisions)


def test_what_passes_is_tried_again(server, tmp_path):
    server.replies = [(429, "slow down"), (503, "busy"), (200, GOOD)]
    annotator, [decision] = ask(server, tmp_path)
    assert decision.plan
    assert annotator.requests == 3


def test_a_server_that_stays_busy_is_a_refusal(server, tmp_path):
    server.replies = [(500, "broken")]
    annotator, [decision] = ask(server, tmp_path, retries=2)
    assert decision.plan == Refused("the server answered 500, broken")
    assert annotator.requests == 3


def test_a_server_that_is_not_there_is_said_at_once(server, tmp_path):
    server.shutdown()
    server.server_close()
    annotator = Llm("m", server.url, cache=tmp_path, backoff=100)
    with pytest.raises(PastaError, match=rf"nothing answers at {server.url}.*check the address"):
        list(annotator.decide([example()]))
    assert annotator.requests == 1


def test_a_server_that_goes_away_ends_the_run_and_one_that_comes_back_does_not(server, tmp_path):
    annotator, [decision] = ask(server, tmp_path, retries=3)
    assert decision.plan
    server.shutdown()
    server.server_close()
    annotator.endpoint.backoff = 0.01
    with pytest.raises(PastaError, match=r"went away.*what is done is kept"):
        list(annotator.decide([example(prompt="Another garden?")]))
    assert annotator.requests == 5

    annotator.endpoint.backoff, annotator.endpoint.retries = 0.05, 12
    with contextlib.ExitStack() as later:

        def come_back():
            while annotator.requests < 7:  # one was in vain
                time.sleep(0.01)
            later.enter_context(Server(server.server_port).running())

        helper = threading.Thread(target=come_back)
        helper.start()
        [decision] = annotator.decide([example(prompt="Another garden?")])
        helper.join()
    assert decision.plan


def test_a_server_that_takes_too_long_is_a_refusal(server, tmp_path):
    server.barrier = threading.Barrier(2)  # nobody else comes
    annotator, [decision] = ask(server, tmp_path, timeout=0.2)
    server.barrier.abort()
    assert decision.plan == Refused("no answer within 0.2 s: ask for fewer at a time")
    assert annotator.requests == 1


def test_what_the_server_says_is_passed_on(server, tmp_path):
    server.replies = [(400, "This model's context\nholds 2048 tokens.")]
    _, [decision] = ask(server, tmp_path)
    assert decision.plan == Refused("the server answered 400, This model's context holds 2048 tokens.")


@pytest.mark.parametrize(("key", "message"), [("", "wants a key.*set OPENAI_API_KEY"), ("k", "refuses the key.*check")])
def test_a_wrong_key_ends_the_run(server, tmp_path, key, message):
    server.replies = [(401, "no")]
    with pytest.raises(PastaError, match=message):
        ask(server, tmp_path, key=key)


def test_a_wrong_name_ends_the_run_and_says_which_there_are(server, tmp_path):
    server.replies = [(404, "no such model")]
    server.models = ["small", "large"]
    with pytest.raises(UsageError, match=r"has no model 'm'.*it has small, large"):
        ask(server, tmp_path)


def test_a_wrong_address_ends_the_run(server, tmp_path):
    server.replies = [(404, "Not Found")]
    with pytest.raises(UsageError, match=r"/v1/chat/completions.*ends in /v1"):
        ask(server, tmp_path)


def test_replies_are_kept_and_bad_ones_are_not(server, tmp_path):
    server.replies = [(200, "I would rather not."), (200, GOOD)]
    _, [decision] = ask(server, tmp_path)
    assert decision.plan == Refused("unusable reply: it labels less than half of the lines")
    for _ in range(2):
        _, [decision] = ask(server, tmp_path)
        assert decision.plan
    assert len(server.requests) == 2


def test_an_address_that_is_none():
    with pytest.raises(UsageError, match="http"):
        Llm("m", "localhost:8000")
