import numpy as np
import pytest
from typer import BadParameter

import siren
from siren.cells import is_missing
from siren.cli.arguments import read_data
from siren.data import read_axis, read_csv, read_target, stream_rows, warning_about
from siren.errors import DataError, RunError
from siren.frames import plain


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("t,obs\n0,1.5\n\n1,-2e3\n", encoding="utf-8")
    return path


def test_rows_without_the_header(csv) -> None:
    assert read_csv(csv) == [[0.0, 1.5], [1.0, -2000.0]]


def test_binding_rows_and_column(csv) -> None:
    assert read_data([f"ys={csv}"]) == {"ys": [[0.0, 1.5], [1.0, -2000.0]]}
    assert read_data([f"ys={csv}:obs"]) == {"ys": [1.5, -2000.0]}


@pytest.mark.parametrize("text", ["ys", "=x.csv", "1a=x.csv", "ys="])
def test_malformed_binding(text: str) -> None:
    with pytest.raises(BadParameter, match="cannot read"):
        read_data([text])


def test_a_name_is_bound_once(csv) -> None:
    with pytest.raises(BadParameter, match="`ys` is given twice"):
        read_data([f"ys={csv}", f"ys={csv}:obs"])


def test_a_file_without_a_line(tmp_path) -> None:
    (tmp_path / "none.csv").touch()
    with pytest.raises(DataError, match=r"none\.csv is empty"):
        read_target(f"{tmp_path / 'none.csv'}:y")


def test_unknown_column_names_the_nearest(csv) -> None:
    with pytest.raises(DataError) as caught:
        read_target(f"{csv}:obx")
    assert caught.value.hint == "did you mean `obs`?"


def test_errors_name_file_line_and_column(tmp_path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n3,oops\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.csv:3: column 2 is not a number: 'oops'"):
        read_csv(path)
    with pytest.raises(DataError, match="no such data file"):
        read_csv(tmp_path / "none.csv")


def test_booleans_and_byte_order_mark(tmp_path) -> None:
    path = tmp_path / "b.csv"
    path.write_bytes(b"\xef\xbb\xbfh\r\ntrue\r\nFalse\r\n")
    assert read_csv(path) == [[1.0], [0.0]]


def test_stream_skips_a_header_only_if_it_is_one() -> None:
    assert list(stream_rows(["t,obs\n", "1,2\n", "\n", "3,4\n"])) == [[1, 2], [3, 4]]
    assert list(stream_rows(["1,2\n"])) == [[1, 2]]
    with pytest.raises(DataError, match="<stdin>:2"):
        list(stream_rows(["1\n", "x\n"]))


def test_a_row_of_empty_cells_is_a_row(tmp_path) -> None:
    """A step at which nothing was measured; pandas writes it as `""` where there is one column. A blank line,
    or one before the header, is none."""
    path = tmp_path / "gaps.csv"
    for text, rows in {
        ",\nt,y\n1,2\n,\n\n3,4\n": [(1, 2), (None, None), (3, 4)],
        'y\n1\n""\n\n  \n3\n': [(1,), (None,), (3,)],
    }.items():
        path.write_text(text)
        for found in (read_csv(path), list(stream_rows(text.splitlines(keepends=True)))):
            assert [tuple(None if is_missing(cell) else cell for cell in row) for row in found] == rows


def test_a_stream_reads_its_header_as_a_file_does() -> None:
    assert next(iter(stream_rows(["\ufeffy\n", "1\n"]))).names == ("y",)
    with pytest.raises(DataError, match="columns are separated by ';'"):
        list(stream_rows(["t;y\n", "1;2\n"]))


def test_numbers_in_the_header_line_are_warned_about(csv, tmp_path) -> None:
    assert warning_about(csv) is None
    bare = tmp_path / "bare.csv"
    bare.write_text("1,2\n3,4\n", encoding="utf-8")
    assert "dropped as the header" in (warning_about(bare) or "")


def test_a_file_without_rows_is_warned_about(tmp_path) -> None:
    """The answer is then the prior."""
    path = tmp_path / "rows.csv"
    for text, expected in (
        ("", "there are no rows, the file is empty"),
        ("t,y\n", "no rows below the header"),
    ):
        path.write_text(text)
        assert expected in (warning_about(path) or "")


def test_values_from_python() -> None:
    assert plain("a", np.arange(3)) == [0.0, 1.0, 2.0]
    assert plain("a", 2) == 2.0
    assert plain("a", [[1], [2, 3]]) == [[1.0], [2.0, 3.0]]
    with pytest.raises(DataError, match="not a number"):
        plain("a", object())
    assert plain("a", {"x": 1, "y": [2]}) == {"x": 1.0, "y": [2.0]}
    with pytest.raises(DataError, match="without fields"):
        plain("a", {})
    with pytest.raises(DataError, match="field 3"):
        plain("a", {3: 1.0})


MESSY = (
    'when,site,y,z\n2024-03-01,"Oslo, north",1.5,\n2024-03-02,Bergen,,2\n2024-03-03T12:00:00+00:00,,NA,3\n'
)


def test_dates_texts_and_missing_cells(tmp_path) -> None:
    path = tmp_path / "messy.csv"
    path.write_text(MESSY, encoding="utf-8")
    first, second, third = read_csv(path)
    day = 86400.0
    assert first[:3] == [19783 * day, "Oslo, north", 1.5] and np.isnan(first[3])
    assert second[1] == "Bergen" and np.isnan(second[2]) and second[3] == 2
    assert third[0] == 19785.5 * day and np.isnan([third[1], third[2]]).all()
    assert read_target(f"{path}:z")[1:] == [2.0, 3.0]


def test_a_name_of_digits_is_no_number(tmp_path) -> None:
    path = tmp_path / "sensors.csv"
    path.write_text("sensor,y\n1_2,3\n", encoding="utf-8")
    assert read_csv(path) == [["1_2", 3]]


def test_a_slip_in_a_column_of_numbers_is_found_before_the_numbers_too(tmp_path) -> None:
    path = tmp_path / "slip.csv"
    path.write_text("name,y\na,1.2.3\nb,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"slip\.csv:2: column 2 is not a number: '1\.2\.3'"):
        read_csv(path)


DATES = ["01/02/2024", "2024/03/01 12:00", "1.2.2024", "2024-03", "12:30", "12:30:05"]


@pytest.mark.parametrize("date", DATES)
def test_a_date_that_is_written_otherwise_is_told_how(date: str, tmp_path) -> None:
    path = tmp_path / "dates.csv"
    path.write_text(f"t,y\n{date},1\n2024-03-01,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="column 1 is not a number") as mixed:
        read_csv(path)
    path.write_text(f"t,y\n{date},1\n", encoding="utf-8")
    with pytest.raises(siren.SirenError, match="cannot take the text") as used:
        siren.run("List.map(fun row -> row.t - 5, rows)", data={"rows": read_csv(path)})
    for caught in (mixed, used):
        assert caught.value.hint and "2024-03-01T12:30:00" in caught.value.hint


SHORT = "1 cell in this row, but `b` is column 2 of the header"


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("a,b\n\n1,2\n3\n", encoding="utf-8")
    return path


def test_a_short_row_is_named(short) -> None:
    with pytest.raises(DataError, match=rf"short\.csv:4: {SHORT}") as caught:
        read_target(f"{short}:b")
    assert "leave its cell empty" in caught.value.hint


@pytest.mark.parametrize("row, cell", [("row", "row.b"), ("{a, b}", "b")])
def test_a_short_row_is_named_where_a_program_reads_it(short, row, cell) -> None:
    step = f"fun ({row}, s) -> s + {cell}"
    with pytest.raises(DataError, match=rf"short\.csv:4: {SHORT}") as caught:
        siren.run(f'fold({step}, File.read("{short}"), 0)')
    assert caught.value.span is not None and not caught.value.notes
    with pytest.raises(DataError, match=rf"short\.csv:4: {SHORT}"):
        siren.run(f"fold({step}, rows, 0)", data=read_data([f"rows={short}"]))
    with pytest.raises(DataError, match=rf"<stdin>:2: {SHORT}"):
        list(siren.stream(f"fold({step}, data, 0)", stream_rows(["a,b\n", "3\n"])))


@pytest.mark.parametrize(
    "loop",
    [
        "fold(fun (row, s) -> s + List.hd(List.tl(row)), rows, 0)",
        "List.map(fun row -> row[1], rows)",
        "List.filter(fun row -> 0 < row[1], rows)",
        "fold(fun (row, s) -> s + {row with a = 1}.b, rows, 0)",
    ],
)
def test_an_error_in_a_loop_over_rows_says_which_row(short, loop) -> None:
    with pytest.raises(RunError) as caught:
        siren.run(f'let rows = File.read("{short}") in {loop}')
    (note,) = caught.value.notes
    assert note.message == f"the row is {short}:4, of 1 cell"


def test_rows_of_a_file_keep_the_names_of_their_columns(csv) -> None:
    result = siren.run("fold(fun (row, s) -> s + row.obs, rows, 0)", data=read_data([f"rows={csv}"]))
    assert result[0].mean == 1.5 - 2000


def test_streams_with_dates_and_missing_cells() -> None:
    rows = list(stream_rows(["when,y\n", "2024-03-01,\n", "2024-03-02,3\n"]))
    assert [row[0] for row in rows] == [19783 * 86400.0, 19784 * 86400.0]
    assert np.isnan(rows[0][1]) and rows[1][1] == 3.0


def test_an_axis_keeps_dates(tmp_path) -> None:
    path = tmp_path / "messy.csv"
    path.write_text("when,t\n2024-03-01,1\n2024-03-02,2\n", encoding="utf-8")
    assert [day.day for day in read_axis(f"{path}:when")] == [1, 2]
    assert read_axis(f"{path}:t") == [1.0, 2.0] and read_axis(None) is None


def test_a_comma_too_many_is_found_where_it_stands(tmp_path) -> None:
    """Or what follows it would be read as another column. At the end of a line it does no harm."""
    path = tmp_path / "long.csv"
    path.write_text("t,y\n1,2,\n2,3,5\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"long\.csv:3: 3 cells in this row, but the header names 2 columns"):
        read_csv(path)
    with pytest.raises(DataError, match=r"<stdin>:3: 3 cells in this row"):
        list(stream_rows(["t,y\n", "1,2,\n", "2,3,5\n"]))
    assert list(stream_rows(["1,2\n", "2,3,5\n"])) == [[1, 2], [2, 3, 5]]  # no names, so none is wrong


def test_a_name_of_two_columns_is_not_one_of_them(tmp_path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("t,y,y\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"twice\.csv has two columns `y`"):
        read_target(f"{path}:y")
    text = f'let row = List.hd(File.read("{path}")) in '
    with pytest.raises(DataError, match="this row has two columns `y`"):
        siren.run(text + "row.y")
    assert siren.run(text + "[row.t, row[2]]")[0].mean.tolist() == [1, 3]


def test_an_axis_needs_a_column() -> None:
    with pytest.raises(DataError, match=r"`t\.csv` names no column"):
        read_axis("t.csv")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_that_are_not_separated_by_commas_are_refused(tmp_path, mark: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"time{mark}level\n1,5{mark}2\n", encoding="utf-8")
    with pytest.raises(DataError, match="its columns are separated by"):
        read_csv(path)
