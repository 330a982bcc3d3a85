"""Streams that are saved and taken up again go on as if they had never stopped."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import siren
from siren.errors import SirenError

PROGRAM = """
val step = fun (row, (x, xs, rate, n)) ->
  let x <- gaussian(x, 1) in
  let sample o <- bernoulli(rate) in
  let () = if o then observe(gaussian(0, 100), List.hd(row)) else observe(gaussian(x, 1), List.hd(row)) in
  let () = resample() in
  (x, x :: xs, rate, n + 1)
in
let rate <- beta(1, 9) in
let (x, xs, rate, n) = fold(step, data, (start, [], rate, 0)) in
(x, rate, n, List.rev(xs))
"""
ROWS = [[y] for y in np.random.default_rng(0).normal(0, 3, 30).cumsum().tolist()]


def numbers(result: siren.Result) -> list[float]:
    return [
        f(leaf)
        for output in result
        for _, leaf in output.leaves()
        for f in (lambda x: x.mean, lambda x: x.sd)
    ]


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
@pytest.mark.parametrize("plan", [{}, {"x": "sample", "rate": "sample"}], ids=["dynamic", "sampled"])
def test_it_goes_on_where_it_was_saved(method, plan, tmp_path: Path) -> None:
    options = {"data": {"start": 0.0}, "particles": 40, "seed": 3, "method": method, "plan": plan}
    whole = [numbers(result) for result in siren.stream(PROGRAM, ROWS, **options)]
    stream = siren.Stream(PROGRAM, **options)
    for row in ROWS[:17]:
        stream.push(row)
    stream.save(tmp_path / "s.siren")
    again = siren.Stream.resume(tmp_path / "s.siren")
    assert again.rows == 17
    for row, expected in zip(ROWS[17:], whole[17:], strict=True):
        np.testing.assert_allclose(numbers(again.push(row)), expected, rtol=1e-9, atol=1e-12)
    result = again.push(ROWS[0])
    assert result.seed == 3 and result["n"].mean == 31


def test_in_another_process(tmp_path: Path) -> None:
    stream = siren.Stream(PROGRAM, data={"start": 0.0}, particles=30, seed=1)
    for row in ROWS[:5]:
        stream.push(row)
    stream.save(tmp_path / "s.siren")
    expected = stream.push(ROWS[5])["x"].mean
    row, file = ROWS[5], str(tmp_path / "s.siren")
    code = f"import siren; print(siren.Stream.resume({file!r}).push({row!r})['x'].mean)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(expected)


def test_a_long_history_is_no_trouble(tmp_path: Path) -> None:
    program = """
    val step = fun (row, xs) ->
      let x <- gaussian(List.hd(xs), 1) in
      let () = observe(gaussian(x, 1), List.hd(row)) in
      x :: xs
    in
    let xs = fold(step, data, [0]) in List.hd(xs)
    """
    stream = siren.Stream(program, particles=1, seed=0)
    for t in range(3000):
        stream.push([float(t % 7)])
    stream.save(tmp_path / "long.siren")
    again = siren.Stream.resume(tmp_path / "long.siren")
    assert again.push([1.0])[0].mean == pytest.approx(stream.push([1.0])[0].mean)


def test_mapped_rows_and_missing_data(tmp_path: Path) -> None:
    program = """
    val second = fun row -> List.hd(List.tl(row)) in
    val step = fun (y, x) -> let x <- gaussian(x, 1) in let () = observe(gaussian(x, 1), y) in x in
    let ys = List.map(second, File.read("rows.csv")) in
    fold(step, ys, 0)
    """
    stream = siren.Stream(program, particles=1, seed=0)
    stream.push([0.0, 2.0])
    stream.push([1.0, float("nan")])
    stream.save(tmp_path / "s.siren")
    result = siren.Stream.resume(tmp_path / "s.siren").push([2.0, 1.0])
    assert result.missing == {"y": 1}
    # x1 ~ N(0,1) seen as 2, then two steps, seen as 1.
    precision = 1 / (0.5 + 2)
    assert result[0].mean == pytest.approx((1.0 * precision + 1.0) / (precision + 1))


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello", encoding="utf-8")
    with pytest.raises(SirenError, match="is no saved stream"):
        siren.Stream.resume(tmp_path / "x")
    with pytest.raises(SirenError, match="cannot read"):
        siren.Stream.resume(tmp_path / "none")
    with pytest.raises(SirenError, match="no `fold` over the rows") as caught:
        siren.Stream("let x <- gaussian(0, 1) in x")
    assert "write fold(step, data, start)" in caught.value.render()
    with pytest.raises(SirenError, match="cannot write"):
        siren.Stream(PROGRAM, data={"start": 0.0}, particles=2).save(tmp_path / "no" / "such")


def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "p.si").write_text(PROGRAM.replace("start", "0"), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "siren",
        "run",
        str(tmp_path / "p.si"),
        "--stream",
        "-p",
        "20",
        "--seed",
        "1",
    ]

    def run(rows, *more: str) -> list[str]:
        text = "".join(f"{row[0]}\n" for row in rows)
        done = subprocess.run([*command, *more], input=text, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[1:]

    whole = run(ROWS[:6])
    first = run(ROWS[:4], "--save", str(tmp_path / "s"))
    second = run(ROWS[4:6], "--resume", str(tmp_path / "s"))
    assert first + second == whole


def test_a_stream_goes_on_as_it_began(tmp_path: Path) -> None:
    """An option that says otherwise would be of no effect, and is refused."""
    program = tmp_path / "p.si"
    program.write_text(PROGRAM.replace("start", "0"), encoding="utf-8")
    siren.Stream(program, particles=20, seed=1, ess=0.5).save(tmp_path / "s")
    command = [
        sys.executable,
        "-m",
        "siren",
        "run",
        str(program),
        "--stream",
        "--resume",
        str(tmp_path / "s"),
    ]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], input="1\n", capture_output=True, text=True, check=False)

    assert run("--particles", "20", "--seed", "1", "--ess", "0.5").returncode == 0
    done = run("--particles", "5000")
    assert done.returncode == 1 and "was saved with --particles 20, not 5000" in done.stderr
    done = run("--plan", "x=sample")
    assert done.returncode == 1 and "was saved with --plan left out, not x=sample" in done.stderr
    done = run("--method", "bp")
    assert done.returncode == 1 and "was saved with --method ssi, not bp" in done.stderr
    program.write_text(PROGRAM.replace("start", "1"), encoding="utf-8")
    done = run()
    assert done.returncode == 1 and f"was saved by another program than {program}" in done.stderr


def test_rows_from_python_are_read_as_data_are() -> None:
    """Dates are seconds, and what is missing is skipped, however a row comes."""
    pandas = pytest.importorskip("pandas")
    program = """
    val step = fun ({t, y}, (x, last)) ->
      let symbolic x <- gaussian(x, 1) in
      let () = observe(gaussian(x, 1), y) in
      (x, t)
    in
    let symbolic x <- gaussian(0, 1) in
    let (x, last) = fold(step, data, (x, 0)) in
    (x, last)
    """
    frame = pandas.DataFrame({"t": pandas.date_range("2024-01-01", periods=3), "y": [1, None, 2]})
    exact = siren.run(program, data={"data": frame}, particles=1)
    records = [{**row, "y": None if row["y"] != row["y"] else row["y"]} for row in frame.to_dict("records")]
    for rows in (records, list(frame.itertuples()), [row for _, row in frame.iterrows()]):
        *_, last = siren.stream(program, rows, particles=1)
        again = siren.run(program, data={"data": rows}, particles=1)
        for found in (last, again):
            assert [output.mean for output in found] == [output.mean for output in exact]
        assert last.missing == {"y": 1}


def test_a_row_may_be_a_number_and_missing() -> None:
    program = "val step = fun (y, x) -> let () = observe(gaussian(x, 1), y) in x in "
    program += "let symbolic x <- gaussian(0, 1) in fold(step, data, x)"
    *_, last = siren.stream(program, [1, None, 2], particles=1)
    assert last[0].mean == pytest.approx(1) and last.missing == {"y": 1}
    with pytest.raises(SirenError, match="`row` is the text 'a'"):
        siren.Stream(program, particles=1).push("a")


@pytest.mark.parametrize("method", ["ssi", "bp"])
@pytest.mark.parametrize("answer", ["a", "b", "(a, b)", "(b, 2 * a)", "[a, b, 1 - a]"])
@pytest.mark.parametrize("resampling", ["", "let () = resample() in"])
def test_what_all_rows_are_about_is_answered_anew(method: str, answer: str, resampling: str) -> None:
    """A variable from before the loop is the same after every row, and its distribution another."""
    program = f"""
    val step = fun (y, (a, b)) ->
      let () = observe(gaussian(a, 1), y) in
      {resampling}
      (a, b)
    in
    let a <- gaussian(0, 1) in
    let b <- gaussian(a, 1) in
    let (a, b) = fold(step, data, (a, b)) in
    {answer}
    """
    rows = [1.0, 2.0, 4.0, -3.0]
    for count, found in enumerate(siren.stream(program, rows, method=method, particles=1, seed=1), start=1):
        wanted = siren.run(program, data={"data": rows[:count]}, method=method, particles=1, seed=1)
        for one, other in zip(found, wanted, strict=True):
            assert one.mean == pytest.approx(other.mean) and one.sd == pytest.approx(other.sd)


def test_missing_data_are_counted_on_when_a_stream_goes_on(tmp_path: Path) -> None:
    program = """
    val step = fun (row, x) -> let x <- gaussian(x, 1) in let () = observe(gaussian(x, 1), row[0]) in x in
    fold(step, data, 0)
    """
    stream = siren.Stream(program, particles=1)
    for row in ([1.0], [None]):
        stream.push(row)
    stream.save(tmp_path / "s.siren")
    again = siren.Stream.resume(tmp_path / "s.siren")
    again.push([1.0])
    assert again.push([None]).missing == {"row[0]": 2}
