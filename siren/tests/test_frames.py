"""Data as people have it: the same answer from a list, an array, and the frames of three libraries."""

from datetime import date, datetime

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import siren
from siren import runtime
from siren.errors import DataError
from siren.frames import bindings, plain

WALK = """
val step = fun (y, xs) ->
  let x <- gaussian(List.hd(xs), 1) in
  let () = observe(gaussian(x, 1), y) in
  x :: xs
in
List.rev(fold(step, y, [0]))
"""
YS = [1.0, None, 3.0, 2.5]
WITH_GAPS = [1.0, float("nan"), 3.0, 2.5]


def expected() -> np.ndarray:
    """The joint Gaussian solved directly, with no term for the missing datum."""
    walk = np.eye(4) - np.eye(4, k=-1)
    seen = np.diag([1.0, 0.0, 1.0, 1.0])
    return np.linalg.solve(walk.T @ walk + seen, np.array([1.0, 0.0, 3.0, 2.5]))


def frames():
    yield "list", {"y": YS}
    yield "array", {"y": np.array(WITH_GAPS)}
    yield "masked", {"y": np.ma.array([1.0, 0.0, 3.0, 2.5], mask=[0, 1, 0, 0])}
    for library in ("pandas", "polars", "pyarrow"):
        yield library, library


def make(source):
    if not isinstance(source, str):
        return source
    library = pytest.importorskip(source)
    when = [datetime(2024, 3, day) for day in (1, 2, 3, 4)]
    columns = {"when": when, "y": YS, "who": ["a", "b", None, "d"]}
    return library.table(columns) if source == "pyarrow" else library.DataFrame(columns)


@pytest.mark.parametrize("source", [s for _, s in frames()], ids=[name for name, _ in frames()])
def test_an_observation_that_is_missing_is_skipped_and_counted(source) -> None:
    result = siren.run(WALK, data=make(source), particles=2, seed=0)
    np.testing.assert_allclose(result[0].mean[1:], expected(), atol=1e-9)
    assert result.missing == {"y": 1}
    assert result.to_json()["missing"] == {"y": 1}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_as_columns_and_as_rows(library: str) -> None:
    frame = make(library)
    columns = bindings(frame)
    assert list(columns) == ["when", "y", "who"]
    assert columns["when"] == [(19783 + day) * 86400.0 for day in range(4)]
    rows = plain("rows", frame)
    assert rows[0] == [19783 * 86400.0, 1.0, "a"] and np.isnan(rows[1][1]) and np.isnan(rows[2][2])
    one = plain("y", frame.column("y") if library == "pyarrow" else frame["y"])
    assert one[0] == 1.0 and np.isnan(one[1])


def test_a_missing_datum_is_skipped_in_every_method_and_branch() -> None:
    program = """
    val step = fun (y, (x, p)) ->
      let x <- gaussian(x, 1) in
      let sample o <- bernoulli(p) in
      let () = if o then observe(gaussian(0, 100), y) else observe(gaussian(x, 1), y) in
      let () = resample() in
      (x, p)
    in
    let p <- beta(1, 9) in
    let (x, p) = fold(step, ys, (0, p)) in x
    """
    for method in ("ssi", "ds", "bp"):
        for plan in ("symbolic", "sample"):
            if (method, plan) == ("ds", "symbolic"):
                continue
            gaps = [1.0, None, 2.0, None]
            result = siren.run(
                program, data={"ys": gaps}, particles=20, seed=1, method=method, plan={"x": plan}
            )
            assert result.missing == {"y": 2} and np.isfinite(result[0].mean)


def test_numbers_computed_from_a_missing_datum_are_missing() -> None:
    program = "let x <- gaussian(1, 1) in let () = observe(gaussian(x, 1), y - 3) in x"
    result = siren.run(program, data={"y": None})
    assert result["x"].mean == 1.0 and result.missing == {"y - 3": 1}


def test_dates_of_python_and_numpy() -> None:
    assert plain("d", [date(1970, 1, 2), np.datetime64("1970-01-03"), np.timedelta64(5, "s")]) == [
        86400.0, 172800.0, 5.0,
    ]  # fmt: skip
    times = plain("d", np.array(["1970-01-02T12", "NaT"], dtype="datetime64[h]"))
    assert times[0] == 129600.0 and np.isnan(times[1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": "abc"}, "is the text 'abc'"),
        ({"y": [{}]}, "a record without fields"),
        ([1.0, 2.0], "give a dict of names"),
        ({"y": object()}, "not a number"),
    ],
)
def test_what_is_no_data_is_refused(data, message: str) -> None:
    with pytest.raises(DataError, match=message):
        siren.run(WALK, data=data)


def test_a_text_is_named_where_it_is_used_as_a_number() -> None:
    with pytest.raises(siren.RunError, match="observe expects a number, not the text 'b'"):
        siren.run(WALK, data={"y": ["b"]}, particles=2)


@pytest.mark.parametrize("plan", ["symbolic", "sample"])
def test_gaps_are_the_same_compiled_and_interpreted(plan: str) -> None:
    ys = np.random.default_rng(0).normal(size=40)
    ys[[5, 9, 20, 21, 39]] = np.nan
    program = siren.parse("""
    val step = fun (y, x) ->
      let x <- gaussian(0.9 * x, 1) in
      let () = observe(gaussian(x, 1), y) in
      let () = resample() in
      x
    in
    fold(step, ys, 0)
    """)
    options = {"data": {"ys": ys}, "plan": {"x": plan}, "particles": 100, "seed": 1}
    compiled, interpreted = (runtime.run(program, compiled=c, **options) for c in (True, False))
    assert compiled.missing == interpreted.missing == {"y": 5}
    assert compiled.log_evidence == pytest.approx(interpreted.log_evidence, abs=1e-9)
    assert compiled.value.mean == pytest.approx(interpreted.value.mean, abs=1e-9)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_of_a_vector_with_a_missing_number_the_others_count(method: str) -> None:
    program = """
    val step = fun (row, x) ->
      let symbolic x <- mv_gaussian([[1, 1], [0, 1]] * x, [[0.5, 0.1], [0.1, 0.3]]) in
      let () = observe(mv_gaussian(x, [[1, 0.4], [0.4, 2]]), [row.a, row.b]) in
      x
    in
    let symbolic start <- mv_gaussian([0, 0], 4 * identity(2)) in
    let x = fold(step, rows, start) in
    x
    """
    seen = np.array([[1, 2], [3, np.nan], [np.nan, np.nan], [np.nan, 1], [4, 2], [5, np.nan], [5, 3]])
    turn, step, noise = np.array([[1, 1], [0, 1]]), [[0.5, 0.1], [0.1, 0.3]], np.array([[1, 0.4], [0.4, 2]])
    mean, spread, evidence = np.zeros(2), 4 * np.eye(2), 0.0
    for row in seen:
        mean, spread = turn @ mean, turn @ spread @ turn.T + step
        there = np.flatnonzero(~np.isnan(row))
        if len(there):
            total = (spread + noise)[np.ix_(there, there)]
            evidence += multivariate_normal.logpdf(row[there], mean[there], total)
            gain = spread[:, there] @ np.linalg.inv(total)
            mean, spread = mean + gain @ (row - mean)[there], spread - gain @ spread[there]
    rows = [{"a": a, "b": b} for a, b in seen]
    result = siren.run(program, data={"rows": rows}, particles=1, method=method)
    np.testing.assert_allclose(result["x"].mean, mean)
    np.testing.assert_allclose(result["x"].sd, np.sqrt(np.diag(spread)))
    assert result.log_evidence == pytest.approx(evidence)
    assert result.missing == {"row.b": 2, "[row.a, row.b]": 1, "row.a": 1}


def test_a_vector_that_cannot_be_split_is_skipped_as_a_whole() -> None:
    program = "let () = observe(dirichlet([1, 2, 3]), ys) in 1"
    assert siren.run(program, data={"ys": [0.2, None, 0.3]}).missing == {"ys": 1}


def test_columns_of_one_name_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["y", "y"])
    for data in (frame, {"rows": frame}):
        with pytest.raises(DataError, match="the data frame has two columns `y`"):
            bindings(data)
    with pytest.raises(DataError, match="two columns `1`"):
        bindings(pandas.DataFrame([[1.0, 2.0]], columns=["1", 1]))


@pytest.mark.parametrize("value", [np.array(5.0), np.array(5), np.ma.array(5.0)])
def test_an_array_without_dimensions_is_a_number(value) -> None:
    assert plain("y", value) == 5.0 and plain("y", [value]) == [5.0]
    assert siren.run("let x <- gaussian(y, 1) in x", data={"y": value}, particles=1)["x"].mean == 5.0


def test_a_masked_number_is_missing() -> None:
    assert np.isnan(plain("y", np.ma.masked))


def test_what_is_no_data_is_told() -> None:
    with pytest.raises(DataError, match="an integer of more than 300 digits"):
        siren.run("ys", data={"ys": [10**400]})
    with pytest.raises(DataError, match="data has the name 1") as raised:
        siren.run("ys", data={1: 2})
    assert "'ys': ys" in str(raised.value)
    with pytest.raises(DataError):
        plain("y", np.array({1}, dtype=object))
