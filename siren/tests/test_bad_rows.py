"""A row that fails is as if it had not come, or the stream says that it is broken."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

import siren
from siren.cli import main
from siren.errors import SirenError

HYBRID = """
val step = fun (row, (x, rate)) ->
  let x <- gaussian(x, 1) in
  let sample o <- bernoulli(rate) in
  let () = if o then observe(gaussian(0, 100), row[0]) else observe(gaussian(x, 1), row[0]) in
  let () = observe(gaussian(x, 4), row[1]) in
  let () = resample() in
  (x, rate)
in
let rate <- beta(1, 9) in
fold(step, data, (0, rate))
"""
MAPPED = """
val pair = fun row -> (row[0], row[1]) in
val step = fun ((y, z), x) ->
  let x <- gaussian(x, 1) in
  let () = observe(gaussian(x, 1), y) in
  let () = observe(gaussian(x, 2), z) in
  x
in
let ys = List.map(pair, File.read("rows.csv")) in
fold(step, ys, 0)
"""
LATE = """
val step = fun (row, x) ->
  let sample x <- gaussian(x, 1) in
  let () = observe(gaussian(x, 1), row[0]) in
  let () = resample() in
  let () = observe(gaussian(x, 1), row[1]) in
  x
in
fold(step, data, 0)
"""
ROWS = np.random.default_rng(0).normal(0, 2, (12, 2)).tolist()
BAD = [[1.0], [1.0, float("inf")], ["1.0", 2.0], []]


def figures(result: siren.Result) -> list[float]:
    return [number for output in result for _, leaf in output.leaves() for number in (leaf.mean, leaf.sd)]


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
@pytest.mark.parametrize("program", [HYBRID, MAPPED], ids=["hybrid", "mapped"])
def test_a_stream_goes_on_as_if_a_bad_row_had_not_come(program: str, method: str, tmp_path: Path) -> None:
    options = {"particles": 30, "seed": 1, "method": method}
    good, tried = siren.Stream(program, **options), siren.Stream(program, **options)
    for t, row in enumerate(ROWS):
        for bad in BAD:
            with pytest.raises(SirenError):
                tried.push(bad)
        assert not tried.broken
        if t == 6:
            tried.save(tmp_path / "s.siren")
            tried = siren.Stream.resume(tmp_path / "s.siren")
        expected, result = good.push(row), tried.push(row)
        np.testing.assert_allclose(figures(result), figures(expected), rtol=1e-9, atol=1e-12)
        assert result.log_evidence == pytest.approx(expected.log_evidence, rel=1e-12)
        assert tried.rows == t + 1


def test_a_row_that_fails_after_resampling_breaks_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "s.siren"
    stream = siren.Stream(LATE, particles=10, seed=0)
    for _ in range(5):
        stream.push([0.5, 1.0])
    stream.save(path)
    before = path.read_bytes()
    with pytest.raises(SirenError):
        stream.push([0.5])
    assert stream.broken
    for ask in (lambda: stream.push([0.5, 1.0]), stream.answer, lambda: stream.save(path)):
        with pytest.raises(SirenError, match="row 6 failed too late") as raised:
            ask()
        assert "go on from where it was saved last" in str(raised.value)
    assert path.read_bytes() == before
    assert siren.Stream.resume(path).push([0.5, 1.0])[0].mean > 0


def test_an_answer_that_fails_leaves_the_row() -> None:
    text = "val step = fun (row, xs) -> row[0] :: xs in let xs = fold(step, data, []) in List.nth(xs, 1)"
    stream = siren.Stream(text, seed=0)
    with pytest.raises(SirenError):
        stream.push([1.0])
    assert stream.rows == 1 and stream.push([2.0])[0].mean == 1.0


def run(monkeypatch: pytest.MonkeyPatch, rows: str, *arguments: str | Path) -> object:
    monkeypatch.setattr(sys, "stdin", io.StringIO(rows))
    monkeypatch.setattr(sys, "argv", ["siren", "run", *map(str, arguments)])
    with pytest.raises(SystemExit) as leaving:
        main()
    return leaving.value.code


@pytest.mark.parametrize("bad", ["inf,1", "1"])
def test_what_was_saved_is_not_lost_to_a_bad_row(bad: str, tmp_path: Path, monkeypatch, capsys) -> None:
    program, keep = tmp_path / "m.si", tmp_path / "keep"
    program.write_text(HYBRID)
    options = (program, "--stream", "--particles", "20", "--seed", "1", "--save", keep)
    assert not run(monkeypatch, "y,z\n1,2\n2,1\n", *options)
    assert run(monkeypatch, f"y,z\n1.5,1\n{bad}\n", *options, "--resume", keep)
    assert f"wrote {keep} after 3 rows" in capsys.readouterr().err
    assert not run(monkeypatch, "y,z\n2,2\n", *options, "--resume", keep)
    assert siren.Stream.resume(keep).rows == 4


def test_a_broken_stream_is_not_written(tmp_path: Path, monkeypatch, capsys) -> None:
    program, keep = tmp_path / "m.si", tmp_path / "keep"
    program.write_text(LATE)
    options = (program, "--stream", "--particles", "20", "--save", keep)
    assert not run(monkeypatch, "y,z\n1,2\n2,1\n", *options)
    before = keep.read_bytes()
    assert run(monkeypatch, "y,z\n1,1\n1,inf\n", *options, "--resume", keep)
    assert f"{keep} is not written: row 4 failed" in capsys.readouterr().err
    assert keep.read_bytes() == before
