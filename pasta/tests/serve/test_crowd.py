"""Where the server is full, answers begin without threads: who gets them, and how that is told."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from serve_support import ASK, CHAT, FORKING, serving

from pasta.decoding.worth import FEW, Worth
from support import Slow, tiny_engine, until

USERS = 12
FIELDS = {**FORKING, "max_tokens": 60}


class Costly(Worth):
    """On a machine whose steps are nothing but rows, whatever the clock says."""

    def __init__(self):
        super().__init__()
        for rows in range(1, 200):
            for _ in range(5):
                super().learn_step(rows, 0.001 * rows)
        for _ in range(20):
            super().learn_answer(84, 100, 40)

    def learn_step(self, rows, seconds):
        super().learn_step(rows, 0.001 * rows)

    def learn_answer(self, text, decoded, steps):
        super().learn_answer(84, 100, 40)


@contextmanager
def crowd(**settings):
    engine = tiny_engine(slots=16384)
    with serving(engine, **{"max_running": USERS, "plain_when_full": True, **settings}) as running:
        running.server.dispatcher.runner.scheduler.worth = Costly()
        running.go = Slow(engine)
        running.go.set()
        yield running


@pytest.fixture(scope="module")
def full():
    with crowd(access_log=True) as running:
        yield running


def ask(running, count=USERS, **fields):
    """So many at once: the first is alone when it begins. The values of their answers."""
    dispatcher = running.server.dispatcher
    running.go.clear()
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(running.chat, **{**FIELDS, **fields})]
        until(lambda: dispatcher.running == 1)  # else all may come together, and none of them among few
        asked += [pool.submit(running.chat, **{**FIELDS, **fields}) for _ in range(count - 1)]
        until(lambda: len(dispatcher._tells) == count)
        running.go.set()
        return [each.result().json() for each in asked]


def crowded(values):
    return sum(value["usage"]["plain_when_full"] for value in values)


def texts(values):
    return {value["choices"][0]["message"]["content"] for value in values}


def figures(running):
    lines = running.http.get("/metrics").text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("pasta_")}


def alone(running, **extension):
    return running.chat(**{**FIELDS, "pasta": {**FIELDS["pasta"], **extension}}).json()


def test_of_many_some_are_plain_and_each_is_what_it_is_alone(full, capfd):
    before = figures(full)["pasta_plain_when_full_total"]
    forked, plain = alone(full), alone(full, plain=True)
    assert forked["usage"]["threads"] > 1 == plain["usage"]["threads"]
    assert crowded([forked, plain]) == 0  # who asks for it has not been denied anything
    values = ask(full)
    assert 0 < crowded(values) < USERS  # whoever was there when only a few were
    for value in values:
        same = plain if crowded([value]) else forked
        assert value["choices"] == same["choices"]
        assert value["usage"]["threads"] == same["usage"]["threads"]
    told = figures(full)
    assert told["pasta_plain_when_full_total"] - before == crowded(values)
    assert told["pasta_full"] == 1  # nobody began since
    alone(full)
    assert figures(full)["pasta_full"] == 0
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert sum(line.get("plain_when_full", 0) for line in lines) == crowded(values)


def test_who_is_alone_or_among_few_never_gets_plain(full):
    assert [crowded(ask(full, 1)) for _ in range(3)] == [0, 0, 0]
    values = ask(full, FEW - 1)
    assert crowded(values) == 0 and texts(values) == texts([alone(full)])


def test_who_asks_for_threads_has_them(full):
    extension = {**FIELDS["pasta"], "plain": False}
    values = ask(full, pasta=extension)
    assert crowded(values) == 0 and texts(values) == texts([alone(full)])
    values = ask(full, pasta={**FIELDS["pasta"], "sequential": True})
    assert crowded(values) == 0 and texts(values) == texts([alone(full)])


def test_the_operator_can_say_no():
    with crowd(plain_when_full=False) as running:
        assert crowded(ask(running)) == 0


def test_choices_and_logprobs_and_streams(full):
    value = full.chat(**{**FIELDS, "n": USERS, "logprobs": True}).json()
    assert value["usage"]["plain_when_full"] == USERS == value["usage"]["threads"]  # they come together
    assert all(choice["logprobs"]["content"] for choice in value["choices"])
    plain = alone(full, plain=True)
    assert value["choices"][0]["message"] == plain["choices"][0]["message"]  # the first has the same seed
    fields = {**FIELDS, "messages": ASK, "n": USERS, "stream": True, "stream_options": {"include_usage": True}}
    chunks = [
        json.loads(line[6:])
        for line in full.http.post(CHAT, json=fields).text.splitlines()
        if line.startswith("data: {")
    ]
    told = "".join(
        choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"] if not choice["index"]
    )
    assert told == plain["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["plain_when_full"] == USERS


def test_objects_and_calls_are_as_ever(full):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}}
    shape = {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}
    value = full.chat(n=USERS, max_tokens=40, seed=1, response_format=shape).json()
    assert value["usage"]["plain_when_full"] == 0
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    value = full.chat(n=USERS, max_tokens=40, seed=1, tools=[tool], tool_choice="required").json()
    assert value["usage"]["plain_when_full"] == 0
    assert {choice["message"]["tool_calls"][0]["function"]["name"] for choice in value["choices"]} == {"look"}
    value = full.chat(n=USERS, max_tokens=40, seed=1, temperature=0, tools=[tool]).json()  # it answers in its own words
    assert len({json.dumps(choice["message"]) for choice in value["choices"]}) == 1
    assert value["usage"]["completion_tokens"] == USERS * 40  # no probe took the place of an answer
