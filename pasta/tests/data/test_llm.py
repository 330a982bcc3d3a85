"""The annotator `llm` against a real server on this machine that answers as OpenAI's does."""

import json
import threading

import pytest
from data_texts import LIST, count_words

from chat_server import ChatServer
from pasta.data.example import Example, Refused
from pasta.data.examples import WORKED
from pasta.data.llm import Llm
from pasta.data.plan import PlanError, apply, verified
from pasta.data.prompt import messages, read_plan, show
from pasta.errors import PastaError, UsageError

GOOD = {
    "blocks": [{"first": n, "last": n, "topic": topic} for n, topic in ((2, "light"), (3, "water"), (4, "soil"))],
    "wait_after": [4],
}


class Server(ChatServer):
    """Replies from a list of (status, content); the last one again and again."""

    def __init__(self):
        super().__init__()
        self.replies = [(200, json.dumps(GOOD))]
        self.requests = []
        self.lock = threading.Lock()
        self.barrier = None

    def reply(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            status, content = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if self.barrier is not None:
            self.barrier.wait(20)
        return status, {"index": 0, "message": {"role": "assistant", "content": content}} if status == 200 else content


@pytest.fixture
def server():
    with Server().running() as server:
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
    server.replies = [(429, "slow down"), (503, "busy"), (200, json.dumps(GOOD))]
    annotator, [decision] = ask(server, tmp_path)
    assert decision.plan
    assert annotator.requests == 3


def test_a_server_that_stays_away_is_a_refusal(server, tmp_path):
    server.replies = [(500, "broken")]
    annotator, [decision] = ask(server, tmp_path, retries=2)
    assert decision.plan == Refused("the server answered 500")
    assert annotator.requests == 3
    server.shutdown()
    server.server_close()
    _, [decision] = ask(server, tmp_path, retries=1)
    assert isinstance(decision.plan, Refused)
    assert "cannot reach" in decision.plan.reason


@pytest.mark.parametrize(("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "--base-url")])
def test_a_wrong_key_or_address_ends_the_run_with_one_line(server, tmp_path, status, hint):
    server.replies = [(status, "no")]
    with pytest.raises(PastaError, match=hint):
        ask(server, tmp_path)


def test_replies_are_kept_and_bad_ones_are_not(server, tmp_path):
    server.replies = [(200, "I would rather not."), (200, json.dumps(GOOD))]
    _, [decision] = ask(server, tmp_path)
    assert decision.plan == Refused("unusable reply: the reply is not a JSON object with blocks")
    for _ in range(2):
        _, [decision] = ask(server, tmp_path)
        assert decision.plan
    assert len(server.requests) == 2


def block(first, last, topic="some topic"):
    return {"first": first, "last": last, "topic": topic}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"blocks": [block(2, 2)]}, "single"),
        ({"blocks": [block(2, 9), block(3, 3)]}, "do not exist"),
        ({"blocks": [block("2", 2), block(3, 3)]}, "do not exist"),
        ({"blocks": [block(2, 2), block(2, 2)]}, "overlap"),
        ({"blocks": [block(2, 3), block(4, 4)]}, "several items"),
        ({"blocks": [block(1, 1), block(2, 2)]}, "fixed"),
        ({"blocks": [block(2, 2, '""'), block(3, 3)]}, "no topic"),
        ({"blocks": [block(2, 2), block(3, 3)], "wait_after": [9]}, "wait_after"),
        ({"blocks": "none"}, "not a list"),
        ([], "not a JSON object"),
    ],
)
def test_replies_that_cannot_be_carried_out_are_refused(reply, message):
    with pytest.raises(PlanError, match=message):
        read_plan(json.dumps(reply), LIST)


def test_a_fence_around_the_reply_does_no_harm():
    assert len(read_plan(f"Sure:\n```json\n{json.dumps(GOOD)}\n```", LIST).blocks) == 3


@pytest.mark.parametrize("worked", WORKED, ids=lambda worked: worked.prompt[:20])
def test_the_worked_examples_are_right(worked):
    """Each can be carried out, and saves time where it marks anything."""
    turns = messages(Example(0, (), "x"))
    shown = show(worked.prompt, worked.answer)
    reply = turns[[turn["content"] for turn in turns].index(shown) + 1]["content"]
    plan = read_plan(reply, worked.answer)
    assert len(plan.blocks) == len(worked.blocks)
    written = verified(apply(plan, worked.answer, count_words), worked.answer)
    assert written.count("<sync/>") == len(worked.waits)


def test_seven_examples_of_which_some_mark_nothing():
    assert len(WORKED) == 7
    assert sum(not worked.blocks for worked in WORKED) == 2


def test_an_address_that_is_none():
    with pytest.raises(UsageError, match="http"):
        Llm("m", "localhost:8000")
