"""Choosing a plan by measuring, and writing it into the program."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import siren
from siren.cli import app
from siren.errors import SirenError
from siren.plans import plans_of
from siren.syntax import parse, parse_file
from siren.syntax.traverse import everything
from siren.trials import EXACT, FIRST, Demand, Forecast, Trial, joined
from siren.tune import annotated, tune

EXAMPLES = Path(__file__).parents[1] / "examples"

WALK = """\
val step = fun (y, xs) ->
  let x <- gaussian(List.hd(xs), 1.) in
  let () = observe(gaussian(x, 1.), y) in
  let () = resample() in
  x :: xs
in
let xs = fold(step, ys, [0.]) in
xs
"""
DATA = {"ys": [0.3, 1.0, 1.6, 0.2, -0.4, 0.8, 1.1, 2.0, 2.4, 1.9]}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor on which a run takes as long as its particles say, so that tune decides as on any other."""
    module, now = sys.modules["siren.tune"], [0.0]
    run: Callable[..., siren.Result] = module._Race._run

    def timed(race: object, key: object, particles: int, *rest: object) -> siren.Result:
        now[0] += 0.005 + 2e-5 * particles
        return run(race, key, particles, *rest)

    monkeypatch.setattr(module._Race, "_run", timed)
    monkeypatch.setattr(module, "time", SimpleNamespace(process_time=lambda: now[0]))


@pytest.mark.usefixtures("steady")
def test_a_plan_that_is_exact_wins() -> None:
    tuned = tune(parse(WALK), error=0.05, methods=("ssi",), data=DATA, budget=2)
    assert tuned.reached and tuned.best.plan == {"x": "symbolic"} and tuned.best.error < 1e-9
    sampled = [trial for trial in tuned.trials if trial.plan == {"x": "sample"}]
    assert sampled and all(trial.error > 0.05 for trial in sampled)


def test_a_forecast_counts_the_particles_that_it_cannot_yet_try() -> None:
    """A sampled plan that is quick with few particles is no rival to an exact one."""
    asked = Demand(seconds=None, error=0.01)
    exact = Forecast(start=0.002, slope=1e-7, scale=EXACT / 2, tried=FIRST)
    sampled = Forecast(start=0.001, slope=1e-6, scale=2.0, tried=FIRST)
    assert sampled.wanted(asked) == pytest.approx(40_000) and sampled.particles(asked) < 2000
    assert exact.score(asked) < sampled.score(asked) == pytest.approx(0.041)


def test_more_runs_of_a_trial_join_it() -> None:
    plan, which = {"x": "sample"}, np.zeros(1, dtype=int)
    means, sds, evidence = np.array([[1.0], [2.0]]), np.ones((2, 1)), np.array([-3.0, -4.0])
    one = Trial("ssi", 1, plan, 64, 1.0, means, sds, evidence, True, which)  # type: ignore[arg-type]
    more = replace(one, seconds=2.5, means=np.array([[3.0]]), sds=np.ones((1, 1)), evidence=np.array([-5.0]))
    both = joined(one, more)
    assert both.means.ravel().tolist() == [1.0, 2.0, 3.0] and both.sds.shape == (3, 1)
    assert both.seconds == pytest.approx(1.5) and both.evidence.tolist() == [-3.0, -4.0, -5.0]


BURST = """\
val step = fun (y, (x, jumped)) ->
  let burst <- bernoulli(0.002) in
  let x <- gaussian(x, if burst then 400 else 0.1) in
  let () = observe(gaussian(x, 0.1), y) in
  let () = resample() in
  (x, jumped || burst)
in
let (x, jumped) = fold(step, ys, (0, false)) in
(x, jumped)
"""


@pytest.mark.usefixtures("steady")
def test_particles_that_all_miss_the_same_draw_are_not_exact() -> None:
    """Hardly any of 64 particles draws the burst that there was: most runs agree that there was none."""
    data = {"ys": [0.1, 0.2, -0.1, 0.3, 4.9, 5.2, 5.0, 5.1]}
    best = tune(parse(BURST), error=0.1, data=data, budget=2).best
    found = [
        siren.run(BURST, data=data, plan=best.plan, particles=best.particles, seed=n)["jumped"].mean
        for n in range(10)
    ]
    assert sum(mean > 0.9 for mean in found) >= 8


@pytest.mark.usefixtures("steady")
def test_an_error_that_takes_too_long_is_not_tried_for() -> None:
    """Two runs of the hundred thousand particles that would reach it take twice the budget."""
    tuned = tune(parse(WALK), error=0.005, methods=("ds",), data=DATA, budget=2)
    assert not tuned.reached and sys.modules["siren.tune"].time.process_time() < 3


@pytest.mark.usefixtures("steady")
def test_plans_that_are_close_run_again() -> None:
    """Both observe the same: two runs of each cannot tell them apart, so they get more."""
    tuned = tune(parse(WALK), seconds=0.05, methods=("ds", "bp"), data=DATA, budget=2)
    sampled = [trial for trial in tuned.trials if trial.plan == {"x": "sample"}]
    assert max(len(trial.means) for trial in sampled) > 2
    assert len({(trial.key, trial.particles) for trial in tuned.trials}) == len(tuned.trials)


@pytest.mark.usefixtures("steady")
def test_a_plan_that_grows_too_large_is_left_out() -> None:
    text = """
    val step = fun (win, rate) ->
      let changed <- uniform_int(0, 49) in
      let fresh <- beta(2, 2) in
      let rate = if changed = 0 then fresh else rate in
      let () = observe(bernoulli(rate), win) in
      rate
    in
    fold(step, wins, 0.5)
    """
    tuned = tune(parse(text), seconds=0.01, methods=("ssi",), data={"wins": [1, 1, 0, 0, 0, 0]}, budget=0.2)
    assert tuned.best.plan["changed"] == "sample"
    assert all(trial.plan["changed"] == "sample" for trial in tuned.trials)


@pytest.mark.parametrize("answer", ["1 / g", "()"])
def test_an_answer_without_a_spread_is_no_measure(answer: str) -> None:
    with pytest.raises(SirenError, match="nothing to measure errors by"):
        tune(parse(f"let g <- gamma(0.5, 1) in {answer}"), seconds=0.01, budget=0.5)


def test_outputs_without_a_spread_are_passed_over(steady: None) -> None:
    best = tune(parse("let g <- gamma(0.5, 1) in (g, 1 / g)"), seconds=0.01, budget=0.5).best
    assert best.plan == {"g": "symbolic"} and best.error == 0


def test_a_demand_that_cannot_be_met() -> None:
    tuned = tune(parse(WALK), seconds=1e-9, methods=("ds",), data=DATA, budget=1)
    assert not tuned.reached and tuned.best.seconds == min(trial.seconds for trial in tuned.trials)
    with pytest.raises(SirenError, match="not for both"):
        tune(parse(WALK), seconds=1.0, error=1.0)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.si")), ids=lambda path: path.name)
def test_a_written_plan_is_the_plan(path: Path) -> None:
    program = parse_file(path)
    for plan in list(plans_of(program))[:4]:
        text = annotated(program, plan)
        written = {
            node.name: node.annotation for node in everything(parse(text)) if hasattr(node, "annotation")
        }
        assert written == plan
        assert len(text.splitlines()) == len(program.source.text.splitlines())


@pytest.mark.usefixtures("steady")
def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "walk.si"
    file.write_text(WALK)
    (tmp_path / "ys.csv").write_text("y\n" + "\n".join(map(str, DATA["ys"])) + "\n")
    options = ["--target-error", "0.1", "-m", "ssi", "--budget", "1", "--data", f"ys={tmp_path / 'ys.csv'}:y"]
    done = CliRunner().invoke(app, ["tune", str(file), *options, "--json", "--write"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["reached"] and found["best"]["plan"] == {"x": "symbolic"}
    assert "let symbolic x <- gaussian" in file.read_text()
    shown = CliRunner().invoke(app, ["tune", str(file), *options])
    assert "x symbolic" in shown.stdout
    assert CliRunner().invoke(app, ["tune", str(file)]).exit_code == 2


@pytest.mark.usefixtures("steady")
def test_particles_grow_for_as_long_as_there_is_time() -> None:
    """Runs of 64 and of 1,024 particles take about the same, so that 64 are no answer to half a second."""
    tuned = tune(parse(WALK), seconds=0.5, methods=("ds",), data=DATA, budget=3)
    sampled = [trial.particles for trial in tuned.trials if trial.plan == {"x": "sample"}]
    assert tuned.reached and max(sampled) >= 1024 and tuned.best.particles >= 1024
