"""Functions over the elements of a list whose length is known."""

from pathlib import Path

import pytest

from siren.analysis import analyze
from siren.cli import main
from siren.plans import judge
from siren.syntax import parse
from siren.tune import tune

SLOPE = """
let symbolic slope <- gaussian(0, 1) in
let line = fun x -> 1 + slope * x in
let () = fold(fun ((x, y), ()) -> observe(gaussian(line(x), 0.25), y), [(1, 3), (2, 5)], ()) in
(slope, List.map(line, [3, 4]))
"""
MEAN = """
let symbolic x <- gaussian(0, 1) in
let () = observe(gaussian(x, 1), 2) in
List.map(fun i -> x + i, {list})
"""
PROGRAMS = {
    "documented": SLOPE,
    "literal": MEAN.format(list="[1, 2, 3]"),
    "range": MEAN.format(list="List.range(0, 3)"),
    "filtered": MEAN.format(list="List.filter(fun i -> i > 1, [1, 2, 3])"),
    "nested": MEAN.format(list="List.map(fun i -> i + 1, [1, 2])"),
    "accumulator": """
    val step = fun (y, xs) ->
      List.map(fun x -> let symbolic x <- gaussian(x, 1) in let () = observe(gaussian(x, 1), y) in x, xs)
    in
    fold(step, data, [0, 0])
    """,
}
METHODS = ("ssi", "ds", "bp")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("method", METHODS)
def test_a_plan_is_checked(name: str, method: str) -> None:
    assert analyze(parse(PROGRAMS[name]), method, data={"data": [1.0, 2.0]}).satisfiable


def test_what_a_function_draws_breaks_a_plan() -> None:
    text = "let symbolic x <- gaussian(0, 1) in List.map(fun i -> observe(gaussian(x * x, i), 1), [1, 2])"
    problem = analyze(parse(text), "ssi").problem
    assert problem is not None and "`x`" in problem.message


@pytest.mark.parametrize("name", ["documented", "literal"])
def test_plans_are_judged_and_tuned(name: str) -> None:
    program = parse(PROGRAMS[name])
    assert all(plan.verdicts[m].satisfiable for plan in judge(program, METHODS) for m in METHODS)
    assert tune(program, error=0.5, budget=5.0).reached


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch) -> None:
    file = tmp_path / "m.si"
    file.write_text(PROGRAMS["literal"])
    monkeypatch.setattr("sys.argv", ["siren", "check", str(file), "--method", "ssi"])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert not leaving.value.code
    assert "no run under ssi breaks the plan" in capsys.readouterr().out
