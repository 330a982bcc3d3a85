"""Records, fields by name, and rows that go by the columns of their file or frame."""

import numpy as np
import pytest

import siren
from siren.errors import CheckErrors, RunError


def values(text: str, **options) -> list:
    return [output.mean for output in siren.run(text, particles=10, seed=0, **options)]


def test_a_record_and_its_fields():
    assert values("let r = {x = 1, y = (2, 3)} in let (a, b) = r.y in (r.x, a, b)") == [1, 2, 3]


def test_a_changed_copy_leaves_the_record_as_it_is():
    assert values("let r = {x = 1, y = 2} in let s = {r with x = 5} in (s.x, s.y, r.x)") == [5, 2, 1]


def test_patterns_take_fields_in_any_order_and_number():
    text = "val f = fun ({y, x = (a, _)}, n) -> a + 10 * y + 100 * n in f({x = (1, 7), y = 2, z = 0}, 3)"
    assert values(text) == [321]


def test_any_text_may_name_a_field():
    assert values('let r = {"wind (m/s)" = 3, sum = 1} in (r."wind (m/s)", r.sum)') == [3, 1]


def test_fields_and_places_chain():
    assert values("let r = {rows = [{x = 1}, {x = 2}]} in r.rows[1].x") == [2]


def test_records_are_equal_if_their_fields_are():
    text = "val same = fun (a, b) -> a = b in (same(p, q), same(p, r), same(p, s))"
    p, q, r, s = {"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 3}, {"x": 1}
    assert values(text, data={"p": p, "q": q, "r": r, "s": s}) == [1, 0, 0]


def test_a_record_as_the_answer_has_an_output_for_each_field():
    result = siren.run("let x <- gaussian(0, 1) in let r = {x = x, n = 3} in r", particles=10)
    assert list(result.outputs) == ["r.x", "r.n"]
    assert list(siren.run("{b = 1, a = [2, 3]}", particles=10).outputs) == ["b", "a"]
    nested = siren.run("[{x = 1, y = 2}, {x = 3, y = 4}]", particles=10)[0]
    assert [label for label, _ in nested.leaves()][:2] == [f"{nested.name}[0].x", f"{nested.name}[0].y"]


def test_branches_of_particles_put_records_together():
    text = (
        "let sample b <- bernoulli(0.5) in let r = if b then {x = 1, y = 2} else {x = 3, y = 4} in "
        "(r.x, r.y, (if b then 1 else 3) - r.x)"
    )
    x, y, same = values(text)
    assert y == pytest.approx(x + 1) and same == 0


def test_a_random_condition_mixes_field_by_field():
    x, y = values(
        "let b <- bernoulli(0.25) in let r = if b then {x = 4, y = 0} else {x = 0, y = 4} in (r.x, r.y)"
    )
    assert (x, y) == (1, 3)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_a_state_as_a_record_is_the_state_as_a_tuple(method):
    ys = np.random.default_rng(1).normal(size=30).cumsum().tolist()
    record = """
      val step = fun (y, s) ->
        let x <- gaussian(s.x, 1 / s.q) in
        let () = observe(gaussian(x, 0.5), y) in
        let () = resample() in
        {s with x = x, n = s.n + 1} in
      let sample q <- gamma(3, 3) in
      let {x, q, n} = fold(step, ys, {x = 0, q = q, n = 0}) in (x, q, n)"""
    plain = """
      val step = fun (y, (x, q, n)) ->
        let x <- gaussian(x, 1 / q) in
        let () = observe(gaussian(x, 0.5), y) in
        let () = resample() in
        (x, q, n + 1) in
      let sample q <- gamma(3, 3) in
      let (x, q, n) = fold(step, ys, (0, q, 0)) in (x, q, n)"""
    runs = [siren.run(t, data={"ys": ys}, method=method, particles=100, seed=4) for t in (record, plain)]
    assert runs[0].plan == runs[1].plan
    assert runs[0].log_evidence == pytest.approx(runs[1].log_evidence, abs=1e-12)
    for a, b in zip(*runs, strict=True):
        assert a.mean == pytest.approx(b.mean, abs=1e-12) and a.sd == pytest.approx(b.sd, abs=1e-12)


# Rows -------------------------------------------------------------------------------------------------------

CSV = "time,Speed (m/s),y\n0,2,1.5\n1,3,\n2,4,2.5\n"
SUM = 'fold(fun (row, s) -> s + row.time + row."Speed (m/s)", rows, 0)'


def test_rows_of_a_file_go_by_the_names_in_its_header(tmp_path):
    (tmp_path / "d.csv").write_text(CSV, encoding="utf-8")
    program = tmp_path / "p.si"
    program.write_text(f'let rows = File.read("d.csv") in {SUM}', encoding="utf-8")
    assert siren.run(program, particles=5)[0].mean == 12
    # and are lists all the same
    program.write_text('List.hd(List.tl(List.hd(File.read("d.csv"))))', encoding="utf-8")
    assert siren.run(program, particles=5)[0].mean == 2


def test_a_missing_cell_is_skipped_by_name(tmp_path):
    (tmp_path / "d.csv").write_text(CSV, encoding="utf-8")
    program = tmp_path / "p.si"
    program.write_text(
        "let x <- gaussian(0, 1) in "
        'let () = fold(fun ({y}, ()) -> observe(gaussian(x, 1), y), File.read("d.csv"), ()) in x',
        encoding="utf-8",
    )
    result = siren.run(program, particles=5)
    assert result.missing == {"y": 1}
    assert result[0].mean == pytest.approx(4 / 3)


def test_rows_of_frames_and_mappings():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"time": [0, 1], "Speed (m/s)": [2.0, 3.0]})
    assert values(SUM, data={"rows": frame}) == [6]
    assert values(SUM, data={"rows": frame.to_dict("records")}) == [6]
    assert values("prior.mean + prior.sd", data={"prior": {"mean": 1, "sd": 2}}) == [3]


def test_rows_that_arrive_one_by_one_have_names():
    stream = siren.Stream("fold(fun (row, s) -> s + row.x, data, 0)", particles=5)
    assert [stream.push({"x": x, "y": 0})[0].mean for x in (1.0, 2.0)] == [1, 3]


def test_the_header_of_a_stream_names_its_columns():
    from siren.data import stream_rows

    rows = list(stream_rows(["a,b\n", "1,2\n", "3,4\n"]))
    assert rows == [[1, 2], [3, 4]] and [row.names for row in rows] == [("a", "b")] * 2
    assert [type(row) for row in stream_rows(["1,2\n"])] == [list]


# Mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("let r = {speed = 1} in r.sped", "1:26", "no field `sped`", "did you mean `speed`?"),
        ("let r = {a = 1, b = 2} in r.zzz", "1:29", "no field `zzz`", "the fields are: a, b"),
        ("let r = 3 in r.x", "1:14", "`.x` needs a record, but this is a number", None),
        ("let r = {a = 1} in {r with b = 2}", "1:20", "no field `b`", "the fields are: a"),
        ("let r = {a = 1} in r + 1", "1:20", "needs a number, but this is the record `{a}`", None),
        ("let {a, c} = {a = 1, b = 2} in a", "1:5", "`{a, c}` cannot match the record `{a, b}`", None),
        ("let R = {a = 1} in R.a", "1:20", "read as a function of a library", "not begin with a capital"),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_the_run(text, place, message, hint):
    with pytest.raises(CheckErrors) as caught:
        siren.run(text)
    shown = caught.value.render()
    assert shown.startswith(f"<program>:{place}:") and message in shown
    assert hint is None or hint in shown


def test_a_column_that_is_not_there(tmp_path):
    (tmp_path / "d.csv").write_text(CSV, encoding="utf-8")
    program = tmp_path / "p.si"
    program.write_text('List.map(fun row -> row.tyme, File.read("d.csv"))', encoding="utf-8")
    with pytest.raises(RunError, match="this row has no `tyme`") as caught:
        siren.run(program)
    assert caught.value.hint == "did you mean `time`?"
    assert "     |                         ^^^^" in caught.value.render()


def test_a_list_without_names():
    with pytest.raises(RunError, match="needs a record, not a list") as caught:
        siren.run("List.map(fun row -> row.x, rows)", data={"rows": [[1.0]]})
    assert "header" in (caught.value.hint or "")


def test_a_field_that_is_given_twice():
    with pytest.raises(siren.SirenError, match="the field `x` is given twice"):
        siren.parse("{x = 1, x = 2}")
