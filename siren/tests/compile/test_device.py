"""Steps on a device draw other numbers and give the same answers. Without a GPU the device is JAX's CPU."""

import math

import numpy as np
import pytest

pytest.importorskip("jax")

import siren
from benchmarks.gpu import CASES, data
from siren import runtime
from siren.compile.device import Loop
from siren.syntax import parse


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that the device has done."""
    done: list[int] = []
    run = Loop.run

    def counted(self, interpreter, rows, accumulator):
        count, accumulator = run(self, interpreter, rows, accumulator)
        done.append(count)
        return count, accumulator

    monkeypatch.setattr(Loop, "run", counted)
    return done


def require_alike(name: str, rows: np.ndarray, looped: list[int]) -> None:
    text, plan, _, _ = CASES[name]
    program = parse(text)
    options = {"data": {"rows": rows}, "particles": 4000, "plan": plan}
    host = [runtime.run(program, seed=seed, **options) for seed in range(4)]
    device = [runtime.run(program, seed=seed, compiled="jax", **options) for seed in range(2)]
    assert sum(looped) >= 2 * (len(rows) - 4)
    assert device[0].plan == host[0].plan and device[0].missing == host[0].missing
    assert len(device[0].ess) == len(rows)
    spread = max(np.std([run.log_evidence for run in host]), 0.1)
    for run in device:
        assert abs(run.log_evidence - np.mean([r.log_evidence for r in host])) < 6 * spread
        for place, estimate in enumerate(run.value):
            means = [r.value[place].mean for r in host]
            assert abs(estimate.mean - np.mean(means)) < 6 * max(np.std(means), estimate.sd / 60)


def test_answers_agree_and_missing_rows_are_left_to_the_host(looped: list[int]) -> None:
    rows = data(1, 30)
    rows[12] = math.nan
    require_alike("outlier, x symbolic", rows, looped)
    assert len([count for count in looped if count]) >= 4  # around the missing row, twice


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "outlier, x symbolic"])
def test_answers_agree(name: str, looped: list[int]) -> None:
    require_alike(name, data(CASES[name][3], 30), looped)


def test_a_history_is_left_to_the_host(looped: list[int]) -> None:
    program = parse(
        """
val step = fun (y, xs) ->
  let x <- gaussian(List.hd(xs), 1.) in
  let () = observe(gaussian(x, 1.), y) in
  let () = resample() in x :: xs
in fold(step, ys, [0.])
"""
    )
    ys = [0.1 * i for i in range(12)]
    runs = [runtime.run(program, data={"ys": ys}, particles=50, seed=1, compiled=c) for c in (True, "jax")]
    assert not any(looped)
    assert [e.mean for e in runs[0].value] == [e.mean for e in runs[1].value]


def test_the_backend_is_an_option_of_run() -> None:
    text, plan, _, _ = CASES["outlier, x sampled"]
    with pytest.raises(siren.SirenError, match="backend is one of numpy, jax, not 'jaxx'"):
        siren.run(text, data={"rows": [1.0]}, plan=plan, backend="jaxx")
    found = siren.run(text, data={"rows": [1.0, 2.0]}, plan=plan, particles=50, seed=0, backend="jax")
    assert len(found) == 2
