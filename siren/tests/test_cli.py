import io
import json
import subprocess
import sys
import tomllib
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from siren.cli import main

MODELS = Path(__file__).parents[1] / "benchmarks" / "models"

COIN = """\
val step = fun (toss, p) ->
  let () = observe(bernoulli(p), toss) in
  p
in

let p <- beta(1, 1) in
fold(step, tosses, p)
"""


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def siren(
    *arguments: str | Path | float, stdin: str = "", cwd: Path | None = None, into: TextIO | None = None
) -> Done:
    """The command as a shell would run it, but in this process, since starting Python takes long."""
    out, err = into or io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["siren", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.setattr("warnings.showwarning", warnings.showwarning)
        if cwd:
            patch.chdir(cwd)
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0
    return Done(code, out.getvalue() if isinstance(out, io.StringIO) else "", err.getvalue())


@pytest.fixture
def coin(tmp_path: Path) -> Path:
    (tmp_path / "coin.si").write_text(COIN, encoding="utf-8")
    (tmp_path / "tosses.csv").write_text("n,toss\n1,1\n2,0\n3,1\n", encoding="utf-8")
    return tmp_path


def test_run_prints_table_plan_evidence_and_seed(coin: Path) -> None:
    done = siren("run", "coin.si", "--data", "tosses=tosses.csv:toss", "--seed", 7, cwd=coin)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["output", "mean", "sd", "5%", "50%", "95%"]
    assert "0.6" in lines[1] and "0.2" in lines[1]
    assert "p symbolic" in done.stdout and "-2.4849" in done.stdout and "seed 7" in done.stdout


def test_run_json(coin: Path) -> None:
    done = siren(
        "run", "coin.si", "--data", "tosses=tosses.csv:toss", "--json", "-m", "ds", "-p", 5, cwd=coin
    )
    found = json.loads(done.stdout)
    assert found["method"] == "ds" and found["particles"] == 5 and found["plan"] == {"p": "symbolic"}
    (output,) = found["outputs"].values()
    assert output["mean"] == pytest.approx(0.6) and set(output["quantiles"]) == {"0.05", "0.5", "0.95"}


def test_same_seed_same_output(coin: Path) -> None:
    arguments = (
        "run",
        MODELS / "noise.si",
        "--json",
        "-p",
        20,
        "--seed",
        3,
        "--resample",
        "systematic",
        "--ess",
        0.5,
    )
    first, second = (json.loads(siren(*arguments).stdout)["outputs"] for _ in range(2))
    assert first == second


def test_plot_and_record_are_written_and_said_on_stderr(coin: Path) -> None:
    done = siren("run", MODELS / "outlier.si", "-p", 20, "--plot", "o.png", "--record", "o.html", cwd=coin)
    assert done.returncode == 0, done.stderr
    assert (coin / "o.png").exists() and (coin / "o.html").exists()
    assert done.stderr.splitlines() == ["wrote o.png", "wrote o.html"]


def test_a_path_is_drawn_over_two_columns(coin: Path) -> None:
    text = "let x <- gaussian(0, 1) in let track = [[x, 1], [x + 1, 2 * x], [x, x]] in track"
    (coin / "track.si").write_text(text, encoding="utf-8")
    drawn = ("--plot", "t.svg", "--plot-plane", "track", "--plot-data")
    done = siren("run", "track.si", *drawn, "track=tosses.csv:n, toss", cwd=coin)
    assert done.returncode == 0 and (coin / "t.svg").exists(), done.stderr
    done = siren("run", "track.si", *drawn, "track=tosses.csv:n", cwd=coin)
    assert done.returncode == 1 and "name two columns: FILE:x,y" in done.stderr


def test_stream(tmp_path: Path) -> None:
    program = COIN.replace("toss,", "row,").replace("p), toss", "p), List.hd(row)").replace("tosses", "data")
    (tmp_path / "s.si").write_text(program, encoding="utf-8")
    done = siren("run", "s.si", "--stream", "--json", stdin="toss\n1\n0\n1\n", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    means = [next(value["mean"] for key, value in row.items() if key != "row") for row in rows]
    assert means == pytest.approx([2 / 3, 2 / 4, 3 / 5])
    plain = siren("run", "s.si", "--stream", stdin="1\n", cwd=tmp_path)
    assert plain.stdout.splitlines()[1].startswith("1\t0.66667")


def test_a_stream_without_rows_says_so(tmp_path: Path) -> None:
    (tmp_path / "v.si").write_text("val f = fun (row, x) -> row.x in fold(f, data, 0)")
    for rows in ("", "x\n", '{"x": "one"}\n'):
        done = siren("run", "v.si", "--stream", stdin=rows, cwd=tmp_path)
        assert done.returncode == 0 and not done.stdout
        assert "warning: no rows came on standard input" in done.stderr
    assert not siren("run", "v.si", "--stream", stdin="x\n1\n", cwd=tmp_path).stderr


def test_a_stream_that_cannot_be_saved_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "v.si").write_text("val f = fun (row, x) -> row.x in fold(f, data, 0)")
    done = siren("run", "v.si", "--stream", "--save", "no/state", stdin="x\n1\n", cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout and "no such folder: no" in done.stderr


def test_a_stream_says_that_it_shows_the_last_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "v.si").write_text("val f = fun (row, xs) -> row.x :: xs in (1, fold(f, data, [5, 6]))")
    done = siren("run", "v.si", "--stream", stdin="x\n1\n2\n", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "row\t1\tsd\tlast of fold(f, data, [5, 6])\tsd"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "none.si"), 2, "does not exist"),
        (("run", "coin.si", "--method", "magic"), 2, "magic"),
        (("run", "coin.si", "--particles", "0"), 2, "particles"),
        (("run", "coin.si", "--plan", "p=maybe"), 2, "x=symbolic"),
        (("run", "coin.si", "--plan", "p=sample,p=symbolic"), 2, "`p` is given twice"),
        (("run", "coin.si", "--record", "x.txt"), 2, ".html"),
        (("run", "coin.si", "--plot", "x.gif"), 2, ".png"),
        (("nonsense",), 2, "nonsense"),
        (("run", "coin.si"), 1, "unknown name `tosses`"),
        (("run", "coin.si", "--data", "tosses"), 2, "name=FILE"),
        (("run", "coin.si", "--lag", "3"), 2, "--smooth"),
        (("run", "coin.si", "--values", "3"), 2, "--learn"),
        (("run", "coin.si", "--data", "tosses=none.csv"), 1, "no such data file"),
        (("run", "coin.si", "--data", "tosses=tosses.csv", "--plan", "q=sample"), 1, "the plan names `q`"),
        (("run", "bad.si"), 1, "bad.si:1:5: syntax: "),
        (("run", "plan.si"), 1, "symbolic"),
        (("run", "empty.si"), 1, "empty"),
    ],
)
def test_mistakes_have_exit_codes_and_no_traceback(
    coin: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (coin / "bad.si").write_text("1 + )", encoding="utf-8")
    (coin / "empty.si").write_text("List.hd([])", encoding="utf-8")
    plan = "let symbolic x <- gaussian(0, 1) in\nlet () = observe(poisson(x), 2) in x"
    (coin / "plan.si").write_text(plan, encoding="utf-8")
    done = siren(*arguments, cwd=coin)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
@pytest.mark.parametrize(
    "words", [("run", "--data", "tosses=tosses.csv:toss"), ("check", "--data", "tosses")]
)
def test_a_full_disk_is_no_traceback(coin: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = siren(words[0], "coin.si", *words[1:], cwd=coin, into=full)
    assert (done.returncode, done.stderr) == (1, "siren: cannot write the result: No space left on device\n")


def test_check(coin: Path) -> None:
    assert siren("check", "coin.si", "--data", "tosses", cwd=coin).returncode == 0
    done = siren("check", "coin.si", "--json", cwd=coin)
    assert done.returncode == 1
    finding = json.loads(done.stdout)["findings"][0]
    assert finding["range"]["start"] == {"line": 7, "column": 12}


def test_fmt(tmp_path: Path) -> None:
    path = tmp_path / "m.si"
    path.write_text("let x=1 in x # one", encoding="utf-8")
    checked = siren("fmt", "--check", "m.si", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (1, "would reformat m.si\n")
    assert siren("fmt", "m.si", cwd=tmp_path).returncode == 0
    assert path.read_text(encoding="utf-8") == "let x = 1 in\nx  # one\n"
    assert siren("fmt", "--check", "m.si", cwd=tmp_path).returncode == 0
    assert siren("fmt", "-", stdin="1+1", cwd=tmp_path).stdout == "1 + 1\n"


def test_numbers_in_the_header_are_warned_about(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1\n2\n", encoding="utf-8")
    (tmp_path / "p.si").write_text('List.map(List.hd, File.read("d.csv"))', encoding="utf-8")
    done = siren("run", "p.si", cwd=tmp_path)
    assert done.returncode == 0 and "dropped as the header" in done.stderr


def test_a_parameter_of_which_one_value_is_left_is_named(tmp_path: Path) -> None:
    """Of a whole number that may be certainty, of a real one it is not."""
    path = tmp_path / "worn.si"
    path.write_text(
        """
        val step = fun (y, (mean, count)) ->
          let () = observe(gaussian(mean + 100 * count, 0.0001), y) in
          let () = resample() in
          (mean, count)
        in
        let mean <- gaussian(0, 100) in
        let sample count <- poisson(1) in
        let (mean, count) = fold(step, [1, 1, 1], (mean, count)) in
        (mean, count)
        """,
        encoding="utf-8",
    )
    run = ("run", path, "--seed", "1", "--particles", "50")
    assert "worn out     `mean`: one value left" in siren(*run, "--plan", "mean=sample").stdout
    assert "worn out" not in siren(*run, "--plan", "mean=symbolic").stdout


def test_unused_data_are_warned_about(coin: Path) -> None:
    (coin / "one.si").write_text("1", encoding="utf-8")
    done = siren("run", "one.si", "--data", "tosses=tosses.csv", cwd=coin)
    assert done.returncode == 0 and "does not use `tosses`" in done.stderr


def test_version_and_help() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert siren("--version").stdout.strip() == project["version"]
    assert "run" in siren("--help").stdout


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.si").write_text("1 +", encoding="utf-8")
    command = [sys.executable, "-m", "siren", "run", "p.si"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("p.si:1:4: syntax: the program ends too early")
