"""The grid is filled once, and compared with a posterior that is right."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.grid import QUICK, Cell, Grid, cells, entries
from benchmarks.ledger import Ledger
from benchmarks.measure import Workplace
from benchmarks.reference import References, reference
from benchmarks.suite import suite
from benchmarks.tuning import regrets
from benchmarks.verdicts import Trials, rows
from siren.api import run

SUITE = suite()
SCALE = replace(QUICK, particles=(16, 64), steps=6, reference=2000, patience=60.0)  # no cell is too slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("bench"))


def grid(folder: Path, place: Workplace, scale=SCALE) -> Grid:
    conditions = scale.conditions()
    references = References(
        Ledger(folder / "references.jsonl", conditions), scale.steps, scale.reference, place
    )
    return Grid(scale, Ledger(folder / "cells.jsonl", conditions), references, place)


def test_every_plan_that_can_be_kept_is_compared() -> None:
    count = sum(plan is not None for benchmark in SUITE.values() for _, plan in entries(benchmark))
    assert count == 138 - 2  # two plans of slam take for ever
    assert ("ssi", None) not in entries(SUITE["slam"])


def test_plans_that_are_compared_run_one_after_another() -> None:
    order = list(cells(SCALE, ["noise", "gtree"]))
    assert [cell.round for cell in order] == sorted(cell.round for cell in order)
    block = [cell for cell in order if (cell.benchmark, cell.particles, cell.round) == ("noise", 64, 1)]
    place = order.index(block[0])
    assert order[place : place + len(block)] == block and len(block) == 5 + 4 + 2 + 3


def test_a_second_run_goes_on(tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int | None]] = []
    grid(tmp_path, place).fill(["wheels"], lambda done, total: seen.append((done, total)))
    total = len(list(cells(SCALE, ["wheels"])))
    assert seen[-1] == (total, total)
    lines = (tmp_path / "cells.jsonl").read_text().splitlines()
    assert len(lines) == 1 + total
    (tmp_path / "cells.jsonl").write_text("\n".join(lines[:-3]) + "\n")
    ran: list[Cell] = []
    again = grid(tmp_path, place)
    monkeypatch.setattr(again, "_run", lambda cell: ran.append(cell) or Grid._run(again, cell))
    again.fill(["wheels"], lambda done, total: None)
    assert len(ran) == 3 and len(again.outcomes()) == total


def test_a_plan_that_takes_too_long_is_not_run_with_more_particles(tmp_path: Path, place: Workplace) -> None:
    impatient = grid(tmp_path, place, replace(SCALE, patience=0.0))
    impatient.fill(["wheels"], lambda done, total: None)
    assert {cell.particles for cell in impatient.outcomes()} == {16}


def test_an_exact_reference_is_exact(place: Workplace) -> None:
    found = reference(SUITE["gtree"], 1, 6, 2000, place)
    assert found.error == 0
    program, _ = place.open(SUITE["gtree"], 1, 6)
    exact = run(program, particles=1, seed=3, plan=SUITE["gtree"].plan(0))
    assert max(found.distances(exact).values()) < 1e-9
    sampled = run(program, particles=64, seed=3, plan=SUITE["gtree"].plan(3))
    assert max(found.distances(sampled).values()) > 0.01


def test_a_sampled_reference_knows_how_good_it_is(place: Workplace) -> None:
    """Two references made apart differ by about what they say."""
    few = reference(SUITE["noise"], 1, 6, 500, place)
    many = reference(SUITE["noise"], 1, 6, 20_000, place)
    assert 0 < many.error < few.error < 0.5
    gap = np.abs(np.array(few.means) - np.array(many.means)) / np.array(many.sds)
    assert np.sqrt(np.mean(gap**2)) < 5 * few.error


def test_the_analysis_beside_the_facts(place: Workplace) -> None:
    found = rows(["gtree"], Trials(runs=2, steps=6), Ledger(None, {}), place, lambda done, total: None)
    assert [len(row.accepted) for row in found] == [4, 3, 4]
    assert all(row.exact and not row.false_accepts and not row.false_rejects for row in found)


def test_a_plan_that_is_accepted_and_fails_is_shown(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import verdicts
    from siren.analysis import Verdict

    monkeypatch.setattr(verdicts, "analyze", lambda program, method, plan: Verdict(method))
    _, ds, _ = rows(["gtree"], Trials(2, 6), Ledger(None, {}), place, lambda done, total: None)
    assert ds.false_accepts == [0] and not ds.exact


def test_what_tune_picks_beside_the_best(tmp_path: Path, place: Workplace) -> None:
    filled = grid(tmp_path, place)
    filled.fill(["gtree"], lambda done, total: None)
    ledger = Ledger(tmp_path / "tuned.jsonl", {})
    found = regrets(["gtree"], filled, ledger, place, 0.5, lambda done, total: None)
    assert [(r.method, r.demand) for r in found[:2]] == [("ssi", "time"), ("ssi", "error")]
    exact = next(r for r in found if (r.method, r.demand) == ("ssi", "error"))
    assert exact.picked.plan == 0 and exact.error.value == pytest.approx(1.0)
    assert len(ledger) == len(found) == 6
