"""On machines whose steps take what we say: as served, nobody waits longer than without PASTA."""

import types

import pytest

from pasta.bench import users
from pasta.bench.scripts import made_up
from pasta.decoding import scheduler
from support import tiny_engine

LOADS = (16, 1)


def measured(monkeypatch, cost):
    """The rows of each load, by mode, where a step of so many rows takes `cost` seconds."""
    engine = tiny_engine(slots=32768)
    clock = types.SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    step = engine.step

    def timed():
        decoded = step()
        clock.now += cost(len(decoded))
        return decoded

    engine.step = timed
    for module in (users, scheduler):
        monkeypatch.setattr(module, "time", clock)
    scripts = made_up(engine, 8, threads=(3, 4))
    rows = list(users.measure(engine, scripts, LOADS, (2.0,), least=4, rounds=1, turns=1))
    assert engine.pool.free_slots == engine.pool.slots
    return {load: {row["mode"]: row for row in rows if row["users"] == load} for load in LOADS}


def least(row):
    return min(*row["faster_by_turn"], *row["goodput_ratio_by_turn"])


@pytest.mark.slow
def test_where_a_row_costs_as_much_as_a_step_only_a_few_have_threads(monkeypatch):
    by_load = measured(monkeypatch, lambda rows: 0.01 * rows)
    free, served = by_load[16]["free"], by_load[16]["slowdown 2"]
    assert least(free) < 0.95  # the tags are paid for by everybody
    assert served["plain_when_full"] == 1 and least(served) == pytest.approx(1, abs=0.001)
    assert by_load[1]["slowdown 2"]["plain_when_full"] == 0


@pytest.mark.slow
def test_where_rows_cost_nothing_all_have_threads(monkeypatch):
    by_load = measured(monkeypatch, lambda rows: 0.01)
    for rows in by_load.values():
        assert rows["slowdown 2"]["plain_when_full"] == 0
        assert least(rows["slowdown 2"]) == pytest.approx(least(rows["free"]), rel=0.02)
        assert least(rows["free"]) > 1.3


def test_where_the_host_can_do_no_more_the_crowd_is_plain_and_the_rest_is_not(monkeypatch):
    """As 128 users of a model of 1.5B on an H200, at an eighth of the size."""
    by_load = measured(monkeypatch, lambda rows: max(1.7e-3 + 6.4e-5 * rows, 1.76e-4 * rows))
    assert least(by_load[16]["free"]) < 0.98
    assert by_load[16]["slowdown 2"]["plain_when_full"] > 0.9
    assert all(least(rows["slowdown 2"]) >= 0.98 for rows in by_load.values())
    assert by_load[1]["slowdown 2"]["plain_when_full"] == 0 and least(by_load[1]["slowdown 2"]) > 1.3
