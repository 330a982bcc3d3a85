"""How results look where they are printed."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

import siren
from siren.cli import app
from siren.cli.show import show_result
from siren.digits import number

TRACK = """
val step = fun (row, track) ->
  let x <- mv_gaussian([[1, 1], [0, 1]] * List.hd(track), [[0.01, 0], [0, 0.1]]) in
  let () = observe(gaussian(x[0], 1), row.position) in
  x :: track
in
let x <- mv_gaussian([0, 1], identity(2)) in
let track = fold(step, File.read("d.csv"), [x]) in
{track = List.rev(track), now = List.hd(track), level = List.hd(track)[0]}
"""
POSITIONS = "position\n1.2\n1.9\n3.3\n"


@pytest.mark.parametrize(
    ("value", "sd", "shown"),
    [
        (523456.789, 2.345, "523456.8"),  # easting in metres
        (1709294436.313, 0, "1709294436"),  # certain: the second of a date
        (1709294436.313, 0.01, "1709294436.313"),
        (1.4706123, 8.9e-16, "1.4706"),  # a spread that is a rounding error
        (99999.7, 10, "99999.7"),  # which has a digit more in five digits
        (0.6666666, 0, "0.66667"),
        (1.23456789, 100, "1.2346"),
        (0.00012345678, 1, "0.00012346"),
        (123456.0, float("nan"), "1.2346e+05"),
        (1.23456789e300, 0, "1.2346e+300"),
        (0.0, 0.0, "0"),
        (float("-inf"), 1, "-inf"),
    ],
)
def test_digits_are_enough_to_show_the_spread(value: float, sd: float, shown: str) -> None:
    assert number(value, sd) == shown


def test_a_result_prints_as_the_table_of_the_command() -> None:
    result = siren.run("let x <- gaussian(500000, 4) in [x, x + 1, 1e6]", particles=1, seed=0)
    shown = io.StringIO()
    with redirect_stdout(shown):
        show_result(result, 12)
    assert repr(result) == shown.getvalue().rstrip()
    assert "500000 2 499996.7" in " ".join(repr(result).split())


def test_what_was_learnt_prints_as_a_table() -> None:
    program = """
    let sample m <- gaussian(0, 1) in
    let () = fold(fun (y, ()) -> observe(gaussian(m, 1), y), ys, ()) in
    m
    """
    learned = siren.learn.tempered(program, data={"ys": [1.0, 2.0]}, values=10, seed=0)
    assert repr(learned.result) in repr(learned) and "learnt       tempered" in repr(learned)
    assert "array" not in repr(learned)


@pytest.fixture
def command(tmp_path: Path):
    (tmp_path / "p.si").write_text(TRACK, encoding="utf-8")
    (tmp_path / "d.csv").write_text(POSITIONS, encoding="utf-8")
    return lambda name, *more, rows=POSITIONS: CliRunner().invoke(
        app, [name, str(tmp_path / "p.si"), *more], input=rows
    )


def test_no_line_ends_in_spaces(command) -> None:
    for shown in (command("run", "--rows", "2"), command("plans", "--all")):
        assert shown.exit_code == 0, shown.output
        assert not [line for line in shown.stdout.splitlines() if line != line.rstrip()]


def test_a_stream_shows_a_vector_whole_and_of_a_history_the_last(command) -> None:
    shown = command("run", "--stream", "--particles", "1")
    header, *rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert header[1::2] == ["last of track[0]", "last of track[1]", "now[0]", "now[1]", "level"]
    assert len(rows) == 3 and all(row[1:5] == row[5:9] and row[9:] == row[5:7] for row in rows)


def test_a_stream_that_goes_on_has_the_same_columns(command, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    whole = command("run", "--stream", "--seed", "1").stdout.splitlines()
    first, *later = POSITIONS.splitlines(keepends=True)[1:]
    begun = command("run", "--stream", "--seed", "1", "--save", state, rows=f"position\n{first}")
    ended = command("run", "--stream", "--resume", state, rows=f"position\n{''.join(later)}")
    assert begun.stdout.splitlines() == whole[:2]
    assert ended.stdout.splitlines() == [whole[0], *whole[2:]]


def test_the_answer_between_rows_changes_nothing() -> None:
    program = """
    val step = fun (y, x) ->
      let sample x <- gaussian(x, 1) in
      let () = observe(gaussian(x, 1), y) in
      let () = resample() in
      x
    in
    let start <- gaussian(0, 1) in
    let x = fold(step, data, start) in
    [x, exp(x + start)]
    """
    plain, asked = (siren.Stream(program, particles=50, seed=3) for _ in range(2))
    assert asked.answer()[0].mean[0] == 0
    for y in (1.0, 2.0, 0.5):
        expected, result = plain.push(y), asked.push(y)
        assert result[0].mean.tolist() == expected[0].mean.tolist()
        again = asked.answer()
        assert again[0].mean[0] == result[0].mean[0] and again.log_evidence == result.log_evidence


def test_help_keeps_its_brackets(command) -> None:
    assert "list of [x, y]" in " ".join(CliRunner().invoke(app, ["run", "--help"]).stdout.split())
