"""Threads are given up where they are not worth their tags, from the beginning of an answer, and taken up again."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pasta.core.params import SamplingParams
from pasta.decoding.api import run
from pasta.decoding.prompts import make_request
from pasta.decoding.worth import AGAIN, FEW, FORGOTTEN, LEAST, Worth
from support import Stepper, tiny_engine

SHARE = 0.84  # of the tokens of answers with threads that are text
ROWS = 2.5  # that such an answer has in a step


def taught(seconds, users=128, rows=ROWS, share=SHARE):
    """After steps of all sizes, which take what `seconds` says of their rows, and answers that forked."""
    worth, chance = Worth(), random.Random(1)
    for _ in range(4000):
        size = chance.randint(1, round(rows * users))
        worth.learn_step(size, seconds(size))
    for _ in range(100):
        worth.learn_answer(text=round(1000 * share), decoded=1000, steps=round(1000 / rows))
    return worth


def test_rows_that_cost_nothing_give_what_threads_give():
    assert taught(lambda rows: 0.002).gain(128, 128) == pytest.approx(ROWS * SHARE, rel=0.01)


def test_a_step_that_is_all_rows_gives_the_share_of_text():
    assert taught(lambda rows: 2e-5 * rows).gain(128, 128) == pytest.approx(SHARE, rel=0.02)


@pytest.mark.parametrize("users", [8, 16, 32, 64, 100, 128])
def test_the_gain_is_that_of_the_costs(users):
    fixed, each = 0.0015, 1.2e-5
    expected = ROWS * SHARE * (fixed + each * users) / (fixed + each * users * ROWS)
    worth = taught(lambda rows: fixed + each * rows)
    assert worth.gain(users, users) == pytest.approx(expected, rel=0.02)
    assert worth.decide(users, users) is False
    # Of those that cannot fork, nothing changes but the step.
    half = (1 + (ROWS * SHARE - 1) / 2) * (fixed + each * users) / (fixed + each * users * (1 + ROWS) / 2)
    assert worth.gain(users, users // 2) == pytest.approx(half, rel=0.02)


def test_a_machine_is_full_from_some_number_of_users_on():
    """The host's work hides behind the device's up to 128 rows, as on an H200 with a model of 1.5B."""
    worth = taught(lambda rows: max(0.0017 + 8e-6 * rows, 2.2e-5 * rows))
    found = [Worth.decide(worth, users, users) for users in (1, 8, 16, 32, 64, 96, 128)]
    assert found == [False] * 4 + [False, True, True]
    assert worth.decide(128, 128) and not worth.decide(16, 16)  # the load fell


def test_a_few_users_keep_their_threads_whatever_they_cost():
    worth = taught(lambda rows: 2e-5 * rows)
    assert [worth.decide(users, users) for users in (1, 2, FEW - 1, FEW)] == [False, False, False, True]


def test_threads_come_back_a_little_later_than_they_went():
    def gives(gain):
        each = (ROWS * SHARE - gain) / (ROWS * (gain - SHARE)) / 64  # of which this is the gain of 64 users
        return taught(lambda rows: 0.001 * (1 + each * rows), users=64)

    between = gives((LEAST + AGAIN) / 2)
    assert between.decide(64, 64) is False
    between.full = True
    assert between.decide(64, 64) is True
    above = gives(AGAIN * 1.05)
    above.full = True
    assert above.decide(64, 64) is False


def test_what_is_not_known_changes_nothing():
    worth = Worth()
    assert worth.gain(64, 64) is None and worth.decide(64, 64) is False
    for _ in range(100):
        worth.learn_step(64, 0.064)
    assert worth.gain(64, 64) is None  # of answers nothing is known
    for _ in range(100):
        worth.learn_answer(840, 1000, 400)
    assert worth.gain(64, 64) is None  # nor of longer steps
    for _ in range(3):
        worth.learn_step(160, 0.160)
    assert worth.gain(64, 64) is None  # three are not enough
    for _ in range(3):
        worth.learn_step(160, 0.160)
    assert worth.gain(64, 64) == pytest.approx(SHARE, rel=0.01)


def test_what_threads_cost_is_found_out_anew_after_a_while():
    worth = taught(lambda rows: 2e-5 * rows, users=64)
    assert worth.decide(64, 64)
    for _ in range(FORGOTTEN + 1):  # all are plain
        worth.learn_step(64, 64 * 2e-5)
    assert worth.gain(64, 64) is None and not worth.decide(64, 64)
    for _ in range(6):  # they fork again, and the machine has become better
        worth.learn_step(160, 64 * 2e-5)
    assert worth.gain(64, 64) == pytest.approx(ROWS * SHARE, rel=0.02)


def test_a_step_that_compiles_is_no_rule():
    worth = taught(lambda rows: 0.002)
    before = worth.gain(128, 128)
    worth.learn_step(300, 60.0)
    assert worth.gain(128, 128) == pytest.approx(before, rel=0.05)
    fresh = Worth()
    for seconds in (60.0, 0.002, 0.002, 0.002, 0.002):
        fresh.learn_step(8, seconds)
    assert fresh._seconds(8) == 0.002


# -- in the scheduler -----------------------------------------------------------------------------------------


class Decided(Worth):
    """What is decided is known beforehand: the tests look at no clock."""

    def __init__(self, full):
        super().__init__()
        self.wanted, self.asked, self.answers = full, [], []

    def decide(self, users, forking):
        self.asked.append((users, forking))
        self.full = self.wanted
        return self.full

    def learn_answer(self, text, decoded, steps):
        self.answers.append((text, decoded, steps))


FORKING = SamplingParams(temperature=1.0, seed=2, max_tokens=120, parallelism=5.0)
QUESTIONS = ["Why?", "How so?", "And then?", "Who?"]


@pytest.fixture(scope="module")
def engine():
    return tiny_engine(slots=16384)


def asked(engine, params=FORKING):
    """Requests that give their threads up in a crowd."""
    requests = [make_request(engine, question, params) for question in QUESTIONS]
    return [replace(one, in_a_crowd=replace(one, params=replace(one.params, plain=True))) for one in requests]


def scheduler_of(engine, full):
    scheduler = Stepper(engine)
    scheduler.slowdown, scheduler.worth = 2.0, Decided(full)
    return scheduler


def answers(scheduler, states):
    while scheduler.busy:
        scheduler.step()
    assert scheduler.engine.pool.free_slots == scheduler.engine.pool.slots
    return [(state.result().tree, state.result().text) for state in states]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("params", [FORKING, replace(FORKING, logprobs=1), replace(FORKING, stop=("e",))])
def test_an_answer_is_that_of_the_same_request_alone(engine, full, params):
    requests = asked(engine, params)
    scheduler = scheduler_of(engine, full)
    states = [scheduler.submit(request) for request in requests]
    found = answers(scheduler, states)
    alone = [
        run(engine, [replace(one, params=replace(one.params, plain=full), in_a_crowd=None)])[0] for one in requests
    ]
    assert found == [(result.tree, result.text) for result in alone]
    assert [state.crowded for state in states] == [full] * len(states)
    threads = {len(state.result().threads) for state in states}
    assert threads == {1} if full else max(threads) > 1
    assert scheduler.worth.asked[-1] == (len(states), len(states))  # once given up, it counts all the same


def test_only_those_that_name_another_request_give_up_their_threads(engine):
    scheduler = scheduler_of(engine, True)
    requests = [replace(one, in_a_crowd=None) for one in asked(engine)]
    states = [scheduler.submit(request) for request in requests]
    assert answers(scheduler, states) == [(result.tree, result.text) for result in run(engine, requests)]
    assert not any(state.crowded for state in states)


def test_an_answer_that_was_begun_stays_what_it_is(engine):
    """Also where it loses its place and comes back when the machine is full."""
    requests = asked(engine)
    expected = run(engine, [replace(one, in_a_crowd=None) for one in requests])
    scheduler = scheduler_of(engine, False)
    states = [scheduler.submit(request) for request in requests]
    for _ in range(10):
        scheduler.step()
    scheduler.worth.wanted = True
    scheduler._preempt(states[-1])
    late = scheduler.submit(requests[0])
    assert answers(scheduler, states) == [(result.tree, result.text) for result in expected]
    assert [state.crowded for state in states] == [False] * 4 and late.crowded
    with pytest.raises(ValueError, match="before its first step"):
        states[0].give_up_threads()


def test_what_answers_with_threads_took_is_learned(engine):
    scheduler = scheduler_of(engine, False)
    states = [scheduler.submit(request) for request in asked(engine)]
    answers(scheduler, states)
    results = [state.result() for state in states]
    known = {(state.interpreter.sampled, result.steps) for state, result in zip(states, results, strict=True)}
    learned = scheduler.worth.answers
    assert 0 < len(learned) < len(states)  # the last is alone when it ends
    assert {(decoded, steps) for _, decoded, steps in learned} <= known
    for text, decoded, steps in learned:
        assert 0 < text < decoded and 0 < steps <= decoded
    for state, result in zip(states, results, strict=True):
        if not result.dropped_tokens:
            assert state.text_tokens == result.content_tokens


def test_plain_answers_say_nothing_of_threads(engine):
    scheduler = scheduler_of(engine, True)
    answers(scheduler, [scheduler.submit(request) for request in asked(engine)])
    assert scheduler.worth.answers == []


# -- against what was measured ----------------------------------------------------------------------------------

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("name", "full"), [("users-1.5b-h200-always-threads.json", {128}), ("users-1.5b-h200-slower-host.json", {128})]
)
def test_what_an_h200_showed_is_told_from_its_steps_with_threads(name, full):
    """From the steps of loads as they grow, all with threads: who would be plain, and what they would gain."""
    report = json.loads((RESULTS / name).read_text("utf-8"))
    served = sorted((row for row in report["rows"] if row["mode"] == "slowdown 2"), key=lambda row: row["users"])
    worth, found = Worth(), {}
    for row in served:
        for count, rows, seconds in row["step_s_by_rows"].values():
            for _ in range(count):
                worth.learn_step(round(rows), seconds)
        for _ in range(100):
            worth.learn_answer(round(1000 * report["content_share"]), 1000, 1000 * row["users"] / row["rows_per_step"])
        found[row["users"]] = worth.gain(row["users"], row["users"])
        measured = max(row["faster_by_turn"]) if row["users"] != 64 else min(row["faster_by_turn"])  # of 64, one stood
        assert found[row["users"]] == pytest.approx(measured, rel=0.2)
    assert {users for users, gain in found.items() if gain < LEAST} == full
