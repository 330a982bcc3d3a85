"""Data may be missing: what the analysis accepts holds where observations are skipped."""

import math

import faults
import pytest
import random_programs
from soundness import ROWS, require_sound

import siren
from siren.analysis import analyze
from siren.errors import PlanError
from siren.plans import judge
from siren.syntax import parse, parse_file

FACTOR = """
val step = fun (row, x) ->
  let symbolic x <- gaussian(x, 1.) in
  let factor <- gaussian(1., 0.1) in
  let () = observe(gaussian(factor * factor, 1.), row[0]) in
  let () = observe(gaussian(factor * x, 1.), row[1]) in
  x
in
fold(step, rows, 0.)
"""
SENSORS = """
val step = fun (row, x) ->
  let symbolic x <- {prior} in
  {observed}
  x
in
fold(step, rows, {start})
"""


def test_a_datum_whose_observation_draws_may_be_missing() -> None:
    """Without the first datum nothing has drawn `factor` when the second is observed."""
    rows = [[1.1, 0.4], [math.nan, 0.7]]
    assert siren.run(FACTOR, data={"rows": rows[:1]}, seed=1).plan["x"] == "symbolic"
    with pytest.raises(PlanError):
        siren.run(FACTOR, data={"rows": rows}, seed=1)
    assert analyze(parse(FACTOR), "ssi", data={"rows": rows[:1]}).satisfiable
    problem = analyze(parse(FACTOR), "ssi", data={"rows": rows}).problem
    assert problem is not None and "random" in problem.message
    assert problem.notes[-1].message == "where no datum is missing, the plan can be kept"


def test_gaps_are_seen_in_the_file_that_a_program_reads(tmp_path) -> None:
    path = tmp_path / "factor.si"
    path.write_text(FACTOR.replace("rows", 'File.read("rows.csv")'))
    assert analyze(parse_file(path)).satisfiable  # there is no file yet
    for cell, kept in (("0.9", True), ("", False)):
        (tmp_path / "rows.csv").write_text(f"s,y\n1.1,0.4\n{cell},0.7\n")
        assert analyze(parse_file(path)).satisfiable is kept
        judged = judge(parse_file(path), ["ssi"])
        assert [plan.verdicts["ssi"].satisfiable for plan in judged] == [False, True, False, True]


def test_a_plan_that_breaks_anyway_is_not_said_to_depend_on_gaps() -> None:
    problem = analyze(parse(FACTOR), "ssi", {"factor": "symbolic"}, {"rows": [[1.0, None]]}).problem
    assert problem is not None and len(problem.notes) == 1


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_many_data_of_a_step_are_not_a_way_each(method: str) -> None:
    numbers = "\n  ".join(f"let () = observe(gaussian(x, 1.), row[{n}]) in" for n in range(30))
    one = SENSORS.format(prior="gaussian(x, 1.)", observed=numbers, start="0.")
    unit = [[float(i == j) for j in range(15)] for i in range(15)]
    vector = f"let () = observe(mv_gaussian(x, {unit}), row) in"
    many = SENSORS.format(prior=f"mv_gaussian(x, {unit})", observed=vector, start=[0.0] * 15)
    assert analyze(parse(one), method, data={"rows": [[1.0] * 30]}, gaps=True).satisfiable
    assert analyze(parse(many), method, data={"rows": [[1.0] * 15]}, gaps=True).satisfiable


def test_a_truth_of_the_example_may_be_false_elsewhere() -> None:
    text = """
    val step = fun (seen, x) ->
      let symbolic x <- gaussian(x, 1.) in
      let () = if seen then observe(gaussian(x, 1.), 1.) else observe(gaussian(x * x, 1.), 1.) in
      x
    in
    fold(step, flags, 0.)
    """
    assert not analyze(parse(text), "ssi", data={"flags": [True, False]}).satisfiable


def test_what_is_accepted_holds_where_data_are_missing() -> None:
    for seed in (3, 13, 16):
        require_sound(seed, write=random_programs.sensors, data=ROWS)


@pytest.mark.parametrize("fault", faults.FAULTS_OF_GAPS)
def test_a_fault_that_gaps_show_is_found(fault: str) -> None:
    with faults.planted(fault), pytest.raises(AssertionError, match="accepts"):
        require_sound(3, write=random_programs.sensors, data=ROWS)


@pytest.mark.slow
def test_what_is_accepted_holds_where_data_are_missing_at_length() -> None:
    for seed in range(150):
        require_sound(seed, write=random_programs.sensors, data=ROWS)
