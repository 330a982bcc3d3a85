"""Plans of a program, from Python and from the command line."""

import io
import json
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from benchmarks.suite import suite
from siren.cli import main
from siren.errors import SirenError
from siren.plans import judge, plans_of
from siren.syntax import parse

NOISE = suite()["noise"]
OUTLIERS = Path(__file__).parents[1] / "examples" / "outliers.si"


class Done:
    """What a command gives."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.returncode, self.stdout, self.stderr = code, stdout, stderr


def siren(*arguments: str | Path) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["siren", *map(str, arguments)])
        patch.setattr("warnings.showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as leaving:
            main()
    return Done(int(leaving.value.code or 0), out.getvalue(), err.getvalue())


def test_numbers_are_the_published_ones() -> None:
    assert list(plans_of(NOISE.program())) == [NOISE.plan(number) for number in NOISE.plans]


def test_every_plan_has_a_verdict_for_each_algorithm() -> None:
    judged = judge(NOISE.program())
    for method, satisfiable in NOISE.satisfiable.items():
        assert tuple(item.number for item in judged if item.verdicts[method].satisfiable) == satisfiable


def test_too_many_variables() -> None:
    text = "".join(f"let v{i} <- gaussian(0, 1) in " for i in range(13)) + "1"
    with pytest.raises(SirenError, match="2\\^13 plans"):
        list(plans_of(parse(text)))


def test_the_list_says_which_and_why() -> None:
    done = siren("plans", NOISE.path)
    assert done.returncode == 0, done.stderr
    assert "ssi keeps 5 of 8 plans" in done.stdout and "bp keeps 2 of 8 plans" in done.stdout
    assert "5     yes  yes  -    invq" in done.stdout
    assert "belief propagation keeps only gaussian parents of gaussians" in done.stdout
    one = siren("plans", NOISE.path, "-m", "ds", "--all")
    assert "ds keeps 4 of 8" in one.stdout and "bp keeps" not in one.stdout
    assert "\n0     -    x, invq, invr" in one.stdout and "\n7     yes  (none)" in one.stdout


def test_json_has_ranges() -> None:
    done = siren("plans", NOISE.path, "--json")
    plans = json.loads(done.stdout)["plans"]
    assert [plan["number"] for plan in plans if plan["verdicts"]["ssi"]["satisfiable"]] == [3, 4, 5, 6, 7]
    reason = plans[0]["verdicts"]["ssi"]["reason"]
    assert reason["range"]["start"]["line"] > 0 and reason["notes"][0]["range"]["start"]["line"] > 0


def test_check_a_plan() -> None:
    done = siren("check", OUTLIERS, "--method", "ssi")
    assert (done.returncode, done.stdout) == (0, f"{OUTLIERS}: no run under ssi breaks the plan\n")
    done = siren("check", OUTLIERS, "--method", "ssi", "--plan", "outlier=symbolic")
    assert done.returncode == 1
    assert ":5:14: plan: `outlier` is annotated `symbolic` but has to be sampled" in done.stdout
    assert ":7:5: note: forced by this `if`" in done.stdout
    done = siren("check", OUTLIERS, "--method", "bp", "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.returncode == 1 and finding["range"]["start"]["line"] == 16
    assert siren("check", OUTLIERS, "--plan", "outlier=symbolic").returncode == 2
    unknown = siren("check", OUTLIERS, "--method", "ssi", "--plan", "outliers=symbolic")
    assert unknown.returncode == 1 and "did you mean `outlier`?" in unknown.stdout


def test_check_needs_to_see_data(tmp_path: Path) -> None:
    program = tmp_path / "m.si"
    program.write_text("let symbolic x <- gaussian(List.hd(ys), 1) in x")
    (tmp_path / "ys.csv").write_text("y\n1\n2\n")
    assert siren("check", program, "--method", "ds", "--data", "ys").returncode == 2
    found = siren("check", program, "--method", "ds", "--data", f"ys={tmp_path / 'ys.csv'}:y")
    assert found.returncode == 0, found.stdout


def test_data_may_be_a_frame() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"dose": [1, 2], "effect": [1.9, None]})
    text = """
    let symbolic slope <- gaussian(0, 10) in
    let () = fold(fun ({dose, effect}, ()) -> observe(gaussian(slope * dose, 1), effect), rows, ()) in
    slope
    """
    judged = judge(parse(text), ["ssi"], {"rows": frame})
    assert all(plan.verdicts["ssi"].satisfiable for plan in judged)
