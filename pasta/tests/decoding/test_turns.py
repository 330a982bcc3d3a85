"""Threads give way to other requests: how long a step may be, who gets a row of it, and that no word changes."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense import pilot
from pasta.decoding.prompts import make_request
from pasta.decoding.turns import StepCost, share
from support import Stepper, tiny_engine

QUESTIONS = ["Why?", "How so?", "And then?", "Who?"]


def learned(steps):
    cost = StepCost()
    for rows, seconds in steps:
        cost.learn(rows, seconds)
    return cost


def test_the_cost_of_a_row_is_learned():
    chance = random.Random(1)
    steps = [(rows, 0.005 + 0.0001 * rows) for rows in (chance.randint(1, 32) for _ in range(200))]
    cost = learned(steps)
    assert (cost.fixed, cost.each) == (pytest.approx(0.005), pytest.approx(0.0001))
    assert cost.rows_within(1.1, 4) == 4 + math.floor(0.1 * (0.005 + 0.0004) / 0.0001)
    assert cost.rows_within(1.0, 4) == 4
    for _ in range(2000):  # the rows do not vary any more: what is known stays
        cost.learn(8, 0.0058)
    assert cost.each == pytest.approx(0.0001, rel=0.05)


def test_a_step_that_compiles_is_no_rule_and_a_slower_machine_is():
    steps = [(1 + i % 16, 0.005 + 0.0001 * (1 + i % 16)) for i in range(300)]
    cost = learned([*steps, (16, 1.0)])
    assert cost.fixed + 8 * cost.each == pytest.approx(0.0058, rel=0.05)
    cost = learned([*steps, *((rows, 10 * seconds) for rows, seconds in steps * 3)])
    assert (cost.fixed, cost.each) == (pytest.approx(0.05, rel=0.05), pytest.approx(0.001, rel=0.05))


def test_without_knowledge_nobody_waits():
    assert learned([(1, 0.1)] * 3 + [(9, 0.9)] * 3).rows_within(1.0, 4) == math.inf
    assert learned([(8, 0.1)] * 500).rows_within(1.0, 4) == math.inf
    assert learned([(1 + i % 9, 0.1) for i in range(500)]).rows_within(1.01, 4) > 1e6  # rows are free


def test_a_step_that_is_all_rows():
    cost = learned([(rows, 0.01 * rows) for rows in (1 + i % 16 for i in range(300))])
    assert cost.fixed == pytest.approx(0, abs=1e-9)
    assert [cost.rows_within(1.25, users) for users in (2, 4, 8, 64)] == [2, 5, 10, 80]


@given(rows=st.integers(0, 80), wanted=st.lists(st.integers(1, 17), min_size=1, max_size=20))
def test_rows_are_shared_fairly(rows, wanted):
    rows += len(wanted)
    given_ = share(rows, wanted)
    assert min(given_) >= 1 and sum(given_) == rows
    if rows >= sum(wanted):
        assert all(got >= want for got, want in zip(given_, wanted, strict=True))
        return
    assert all(got <= want for got, want in zip(given_, wanted, strict=True))
    hungry = [got for got, want in zip(given_, wanted, strict=True) if got < want]
    assert not hungry or max(given_) <= min(hungry) + 1  # nobody has two more than one that wants more


# -- in the scheduler -----------------------------------------------------------------------------------------


class Known(StepCost):
    """A cost that is known beforehand: the tests look at no clock."""

    def __init__(self, fixed, each):
        super().__init__()
        self.fixed, self.each = fixed, each

    def learn(self, rows, seconds):
        pass


def run(count, slowdown, cost=None, **options):
    """Answers `count` questions at once; the results, how many threads had a turn in each step, how many waited.

    (A thread that loses its turn has a token under way, which the next step still decodes, and which is held.)
    """
    engine = tiny_engine(slots=16384)
    pilot(engine, 2, 12)
    scheduler = Stepper(engine)
    scheduler.slowdown = slowdown
    scheduler.cost = cost or Known(0.0, 1.0)
    step, rows = engine.step, []

    def counting():
        rows.append(sum(len(state.interpreter.running) for state in scheduler.running))
        return step()

    engine.step = counting
    asked = [QUESTIONS[i % len(QUESTIONS)] for i in range(count)]
    states = [scheduler.submit(make_request(engine, question, max_tokens=200, **options)) for question in asked]
    waited = 0
    while scheduler.busy:
        scheduler.step()
        waited = max(waited, scheduler.threads_waiting)
    assert engine.pool.free_slots == engine.pool.slots
    return [state.result() for state in states], rows, waited


def test_whoever_is_alone_has_all_threads():
    (free,), free_rows, _ = run(1, None)
    (bound,), rows, waited = run(1, 1.0)
    assert bound.tree == free.tree and rows == free_rows and waited == 0
    assert max(rows) > 1


def test_a_step_in_which_nobody_runs_is_no_fault():
    engine = tiny_engine(slots=1024)
    scheduler = Stepper(engine)
    scheduler.slowdown = 2.0
    alone = scheduler.submit(make_request(engine, "Why?", max_tokens=20))
    scheduler.step()
    scheduler.abort(alone)
    assert scheduler.step() == [] and scheduler.threads_waiting == 0


def test_among_many_each_has_one_thread_and_the_same_answer():
    free, free_rows, _ = run(4, None)
    bound, rows, waited = run(4, 1.0)
    assert [result.tree for result in bound] == [result.tree for result in free]
    assert max(free_rows) > 4 == max(rows[: min(result.steps for result in bound)])
    assert waited > 0
    # As many steps as decoding one thread at a time takes: nobody is worse off than without threads.
    sequential, _, _ = run(4, None, sequential=True)
    assert max(result.steps for result in bound) <= max(result.steps for result in sequential)


@pytest.mark.parametrize("slowdown", [1.25, 1.5, 2.0, 3.0])
def test_the_bound_is_kept_while_all_are_there(slowdown):
    free, _, _ = run(4, None)
    bound, rows, _ = run(4, slowdown)
    assert [result.tree for result in bound] == [result.tree for result in free]
    together = min(result.steps for result in bound)
    assert max(rows[:together]) <= 4 * slowdown
    assert max(rows[:together]) > 4  # what slack there is, is used


def test_rows_that_cost_nothing_are_not_rationed():
    free, free_rows, _ = run(4, None)
    bound, rows, _ = run(4, 1.1, cost=Known(1.0, 1e-9))
    assert [result.tree for result in bound] == [result.tree for result in free]
    assert max(rows) >= max(free_rows) - 4  # threads are admitted step by step


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([15, 40, 80, 200]))
def test_whatever_the_turns_the_answer_is_the_same(seed, limit):
    chance = random.Random(seed)
    engine = tiny_engine(slots=16384)
    pilot(engine, 2, 12)
    request = make_request(engine, "Why?", max_tokens=limit)

    def answer(width):
        scheduler = Stepper(engine)
        state = scheduler.submit(request)
        while scheduler.busy:
            state.interpreter.allot(width())
            scheduler.step()
        return state.result()

    expected, found = answer(lambda: 16), answer(lambda: chance.randint(1, 5))
    assert (found.tree, found.text) == (expected.tree, expected.text)
