"""Rows that are appended while others append to the same file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pasta.data.lines import append_line, append_lines, read_lines


def test_long_rows_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"id": number, "text": str(number % 10) * 40_000} for number in range(60)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda row: append_line(path, row), rows))
    assert sorted(read_lines(path), key=lambda row: row["id"]) == rows


def test_a_row_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": 1}\n{"id": 2, "te')
    append_lines(path, [{"id": 3}, {"id": 4}])
    assert [row["id"] for row in read_lines(path)] == [1, 3, 4]
