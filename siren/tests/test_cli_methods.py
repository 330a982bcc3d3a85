"""`siren run --learn` and `--smooth` as they are typed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from siren.cli import app

PROGRAM = """
val step = fun (y, (xs, drift)) ->
  let sample x <- gaussian(List.hd(xs) + drift, 0.5) in
  let () = observe(gaussian(x, 1), y) in
  let () = resample() in
  (x :: xs, drift)
in
let drift <- gaussian(0, 1) in
let (xs, drift) = fold(step, ys, ([0], drift)) in
(drift, List.rev(xs))
"""


@pytest.fixture
def run(tmp_path: Path):
    (tmp_path / "p.si").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "d.csv").write_text("when,y\n2024-01-01,1\n2024-01-02,\n2024-01-03,3.2\n", encoding="utf-8")
    words = ["run", str(tmp_path / "p.si"), "--data", f"ys={tmp_path / 'd.csv'}:y", "--seed", "1"]
    return lambda *more: CliRunner().invoke(app, [*words, *more])


@pytest.mark.parametrize("method", ["smc2", "pmmh", "tempered", "moves"])
def test_parameters_are_learnt(run, method: str) -> None:
    words = ["--learn", method, "--particles", "20"]
    words += [] if method == "moves" else ["--values", "10"]
    words += ["--iterations", "5"] if method == "pmmh" else []
    shown = run(*words)
    assert shown.exit_code == 0, shown.output
    assert f"learnt       {method}" in shown.stdout and "parameter" in shown.stdout
    assert "1 of `y`, skipped" in shown.stdout
    assert ("log evidence" in shown.stdout) == (method != "pmmh")
    found = json.loads(run(*words, "--json").stdout)
    assert found["learn"] == method and set(found["parameters"]) == {"drift"}
    assert (found["log_evidence"] is None) == (method == "pmmh")


@pytest.mark.parametrize("how", ["backward", "lag"])
def test_states_are_smoothed(run, how: str) -> None:
    shown = run("--smooth", how, "--particles", "50", "--trajectories", "30", "--plan", "drift=sample")
    assert shown.exit_code == 0, shown.output
    assert "xs[3]" in shown.stdout and "log evidence" in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learn", "smc2", "--smooth", "lag"], "only one of"),
        (["--learn", "smc2", "--iterations", "3"], "only pmmh"),
        (["--learn", "moves", "--values", "3"], "one value for each"),
        (["--parameters", "drift"], "--learn smc2"),
        (["--learn", "nuts"], "nuts"),
        (["--smooth", "lag", "--record", "x.html"], "single filter"),
    ],
)
def test_options_that_do_not_go_together(run, words: list[str], message: str) -> None:
    shown = run(*words)
    assert shown.exit_code == 2 and message in " ".join(shown.output.split())
