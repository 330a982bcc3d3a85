"""Many clients at once: the batch, the queue, disconnects and the end, and no slot lost in any."""

import contextlib
import logging
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from serve_support import ASK, CHAT, LONG_S, asked, cancelled, events_of, serving, text_of

from pasta.decoding.api import generate
from pasta.decoding.events import StepOutput
from pasta.decoding.prompts import make_request
from pasta.decoding.results import Result
from pasta.errors import UsageError
from pasta.serve.dispatcher import Dispatcher, EngineFailed, QueueFull, ShuttingDown
from pasta.serve.settings import Settings
from support import Slow, tiny_engine, until

LONG = {
    "messages": ASK,
    "max_tokens": 2000,
    "stream": True,
    "pasta": {"parallelism": 5.0},
    "temperature": 1.0,
    "seed": 2,
}


def test_a_client_that_leaves_frees_every_slot():
    with serving(tiny_engine(slots=16384)) as running:
        with running.http.stream("POST", CHAT, json=LONG) as response:
            lines = response.iter_lines()
            for _ in range(8):
                next(lines)
            assert not running.is_idle()
        until(running.is_idle)
        assert cancelled(running) == 1


def test_a_client_that_does_not_stream_may_leave_too():
    engine = tiny_engine(slots=16384)
    slow = Slow(engine)
    with serving(engine) as running:
        with asked(running, CHAT, {**LONG, "stream": False}):
            until(lambda: running.server.dispatcher.running == 1)
        until(lambda: cancelled(running) == 1)
        slow.set()
        until(running.is_idle)
        assert running.server.dispatcher.steps < 1000


def test_a_client_that_leaves_the_queue_makes_room():
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, max_running=1, max_queue=1) as running:
        dispatcher = running.server.dispatcher
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(running.chat, max_tokens=3)
            until(lambda: dispatcher.running == 1)
            with asked(running, CHAT, LONG):
                until(lambda: dispatcher.waiting == 1)
            until(lambda: dispatcher.waiting == 0)
            second = pool.submit(running.chat, max_tokens=3)
            until(lambda: dispatcher.waiting == 1)
            full = running.chat(max_tokens=3)
            assert full.status_code == 429
            assert full.json()["error"]["code"] == "queue_full"
            assert int(full.headers["retry-after"]) >= 1
            slow.set()
            assert first.result().json()["choices"] == second.result().json()["choices"]


def test_default_requests_run_at_once():
    """A request takes what it needs now: as many as may run do, though their longest answers would not all fit."""
    engine = tiny_engine()
    slow = Slow(engine)
    most = Settings().max_running
    assert most * Settings().max_tokens > engine.pool.slots
    with serving(engine) as running, contextlib.ExitStack() as streams:
        dispatcher = running.server.dispatcher
        for _ in range(most):
            streams.enter_context(running.http.stream("POST", CHAT, json={"messages": ASK, "stream": True}))
        assert dispatcher.running + dispatcher.waiting == most
        step, seen = engine.step, []

        def watched():
            seen.append((dispatcher.running, dispatcher.waiting))
            return step()

        engine.step = watched  # a look from here may come too late: soon the pool is full, and some wait again
        slow.set()
        until(lambda: (most, 0) in seen)


def test_when_the_pool_is_full_some_are_computed_again():
    """Together they need thrice the pool: some lose their place for a while, and every answer is right."""
    engine = tiny_engine(slots=512)
    expected = generate(engine, "Why?", max_tokens=200).text
    slow = Slow(engine)
    with serving(engine) as running, ThreadPoolExecutor(6) as pool:
        posts = [pool.submit(running.chat, max_tokens=200) for _ in range(6)]
        until(lambda: running.server.dispatcher.running + running.server.dispatcher.waiting == 6)
        slow.set()
        answers = [post.result() for post in posts]
        assert [answer.json()["choices"][0]["message"]["content"] for answer in answers] == [expected] * 6
        lost = running.server.dispatcher.preemptions
        assert lost > 0
        assert f"pasta_preemptions_total {lost}.0" in running.http.get("/metrics").text


def test_an_answer_larger_than_the_pool_is_cut():
    long = generate(tiny_engine(), "Why?", max_tokens=600).text
    with serving(tiny_engine(slots=256)) as running:
        (choice,) = running.chat().json()["choices"]
        assert choice["finish_reason"] == "length"
        text = choice["message"]["content"]
        assert len(text) > 100 and long.startswith(text)
        refused = running.chat(messages=[{"role": "user", "content": "x" * 300}])
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_many_clients_some_of_whom_leave():
    """Every answer is complete and right, and in the end all is free."""
    engine = tiny_engine(slots=8192)
    options = {"temperature": 1.0, "max_tokens": 60, "pasta": {"parallelism": 5.0}}
    expected = {
        seed: generate(engine, "Why?", temperature=1.0, seed=seed, max_tokens=60, parallelism=5.0).text
        for seed in range(6)
    }

    def visit(number):
        chance = random.Random(number)
        seed = number % 6
        body = {"messages": ASK, **options, "seed": seed, "stream": True}
        with httpx.Client(base_url=running.url, timeout=300) as http:
            if number % 3 == 0:
                with http.stream("POST", CHAT, json=body) as response:
                    lines = response.iter_lines()
                    for _ in range(chance.randrange(20)):
                        next(lines)
                return None
            if number % 7 == 0:
                assert http.post(CHAT, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
            return text_of(events_of(http.post(CHAT, json=body).text)) == expected[seed]

    with serving(engine, max_running=5, max_queue=100) as running:
        with ThreadPoolExecutor(12) as pool:
            right = list(pool.map(visit, range(48)))
        assert right.count(True) == 32 and False not in right
        until(running.is_idle)


def test_the_end_lets_answers_finish():
    engine = tiny_engine()
    slow = Slow(engine)
    expected = []
    with ThreadPoolExecutor(1) as pool:
        with serving(engine) as running:
            done = pool.submit(running.chunks, max_tokens=30)
            until(lambda: running.server.dispatcher.running == 1)
            running.server.should_exit = True
            slow.set()
            expected = done.result()
        assert expected[-1]["choices"][0]["finish_reason"] == "length"


def test_the_end_does_not_wait_for_ever():
    engine = tiny_engine(slots=16384)
    slow = Slow(engine)
    with ThreadPoolExecutor(2) as pool, serving(engine, max_running=1, grace_s=0.0) as running:
        streams = [pool.submit(running.http.post, CHAT, json=LONG) for _ in range(2)]
        dispatcher = running.server.dispatcher
        until(lambda: dispatcher.running == dispatcher.waiting == 1)
        running.server.should_exit = True
        for stream in streams:  # the step in flight goes on
            answer = stream.result()
            if answer.status_code == 503:  # its stream had not begun
                assert answer.json()["error"]["code"] == "shutting_down"
                continue
            last = answer.text.split("\n\n")[-3:]
            assert "shutting_down" in last[0] and last[1:] == ["data: [DONE]", ""]
        slow.set()
        until(lambda: dispatcher.runner.unfinished == 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_second_ctrl_c_ends_answers_that_say_so(streamed, caplog):
    """uvicorn waits for nothing then, and would drop them without a word."""
    engine = tiny_engine(slots=16384)
    slow = Slow(engine)
    with ThreadPoolExecutor(1) as pool, serving(engine, grace_s=60.0) as running:
        asking = pool.submit(running.http.post, CHAT, json={**LONG, "stream": streamed})
        until(lambda: running.server.dispatcher.running == 1)
        for _ in range(2):
            running.server.handle_exit(signal.SIGINT, None)
        answer = asking.result()  # the step in flight goes on
        slow.set()
        if streamed:
            last = answer.text.split("\n\n")[-3:]
            assert "shutting_down" in last[0] and last[1:] == ["data: [DONE]", ""]
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert "Exception in ASGI" not in caplog.text


# -- the dispatcher by itself ---------------------------------------------------------------------------------


def gather(dispatcher, requests):
    """Submits, and waits for the last word on each."""
    told = [[] for _ in requests]
    ended = threading.Semaphore(0)

    def tell(index, update):
        told[index].append(update)
        if not isinstance(update, StepOutput):
            ended.release()

    dispatcher.submit(requests, tell)
    for _ in requests:
        assert ended.acquire(timeout=LONG_S)
    return told


def test_steps_and_then_a_result():
    engine = tiny_engine()
    dispatcher = Dispatcher(engine)
    requests = [make_request(engine, prompt, max_tokens=9) for prompt in ("Why?", "How so?")]
    for prompt, updates in zip(("Why?", "How so?"), gather(dispatcher, requests), strict=True):
        result = updates.pop()
        assert isinstance(result, Result)
        assert all(isinstance(update, StepOutput) for update in updates)
        assert "".join(output.text for output in updates) == result.text
        assert result.tree == generate(tiny_engine(), prompt, max_tokens=9).tree
    dispatcher.shut_down()
    dispatcher.join(LONG_S)
    assert not dispatcher.open
    with pytest.raises(ShuttingDown):
        dispatcher.submit(requests, lambda index, update: None)


def test_all_choices_or_none():
    engine = tiny_engine()
    dispatcher = Dispatcher(engine, max_running=1, max_queue=1)
    request = make_request(engine, "Why?", max_tokens=2)
    with pytest.raises(UsageError, match="3 answers"):
        dispatcher.submit([request] * 3, lambda index, update: None)
    slow = Slow(engine)
    dispatcher.submit([request], lambda index, update: None)
    with pytest.raises(QueueFull):
        dispatcher.submit([request] * 2, lambda index, update: None)
    slow.set()
    until(lambda: dispatcher.waiting == dispatcher.running == 0)
    assert len(gather(dispatcher, [request] * 2)) == 2
    dispatcher.shut_down()


def test_an_engine_that_fails_is_used_again(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("pasta"), "filters", [])  # a server's: what was said lately is not said again
    engine = tiny_engine()
    dispatcher = Dispatcher(engine)
    step, fail = engine.step, [True]

    def failing():
        if fail:
            fail.clear()
            raise RuntimeError("out of luck")
        return step()

    engine.step = failing
    request = make_request(engine, "Why?", max_tokens=2)
    (((error,)),) = gather(dispatcher, [request])
    assert isinstance(error, EngineFailed)
    assert engine.pool.free_slots == engine.pool.slots
    assert "out of luck" in caplog.text
    assert isinstance(gather(dispatcher, [request])[0][-1], Result)
    dispatcher.shut_down()
