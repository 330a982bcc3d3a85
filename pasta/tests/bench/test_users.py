"""Many users of one engine: every mode writes the same texts, and what is told of it adds up."""

import pytest

from pasta.bench.scripts import made_up, own_answers
from pasta.bench.users import measure
from support import tiny_engine


@pytest.fixture(scope="module")
def engine():
    return tiny_engine(slots=16384)


def test_every_mode_answers_under_every_load(engine):
    scripts = made_up(engine, 2, threads=(3, 3))
    rows = list(measure(engine, scripts, (1, 2), (1.0,), least=2, rounds=1, turns=1))
    assert [(row["users"], row["mode"]) for row in rows] == [
        (users, mode) for users in (1, 2) for mode in ("plain", "free", "slowdown 1")
    ]
    assert [row["answers"] for row in rows] == [2] * 6
    assert engine.pool.free_slots == engine.pool.slots
    alone = {row["mode"]: row for row in rows[:3]}
    assert alone["plain"]["faster"] == alone["plain"]["goodput_ratio"] == 1
    # One thread decodes a token a step; all threads at once decode what they write in far fewer.
    assert alone["plain"]["rows_per_step"] <= 1 < 1.5 < alone["free"]["rows_per_step"]
    assert alone["slowdown 1"]["rows_per_step"] == alone["free"]["rows_per_step"]  # whoever is alone has all
    among = {row["mode"]: row for row in rows[3:]}
    assert among["free"]["rows_per_step"] > among["plain"]["rows_per_step"]
    assert sum(count for count, _, _ in among["free"]["step_s_by_rows"].values()) > 0


def test_nothing_is_begun_after_the_end(engine):
    assert list(measure(engine, made_up(engine, 2), (1,), end=0)) == []


def test_what_the_time_cut_is_told_as_far_as_all_modes_came(engine, monkeypatch):
    from pasta.bench import users

    runs = []

    class Timed(users.Load):
        def run(self):
            runs.append(self.mode.name)
            return super().run()

    class Clock:
        def perf_counter(self):  # the time is up during the fifth run: the first of the second turn
            return float(len(runs) > 4)

    monkeypatch.setattr(users, "Load", Timed)
    monkeypatch.setattr(users, "time", Clock())
    monkeypatch.setattr(users, "row_of", lambda load, mode, done: {"mode": mode.name, "turns": len(done[mode.name])})
    rows = list(measure(engine, made_up(engine, 1, threads=(2, 2)), (1, 2), (), least=1, rounds=1, end=0.5))
    assert rows == [{"mode": "plain", "turns": 1}, {"mode": "free", "turns": 1}]
    assert runs == ["plain", "free", "plain", "free", "free"]  # the first two warm up, the last was for nothing


def test_own_answers_are_those_that_fork(engine):
    scripts, asked = own_answers(engine, 3, max_tokens=5)
    assert (scripts, asked) == ([], 3)
