"""Rows that are appended while others append to the same file, and files that are written whole."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pasta.data.lines import append_line, append_lines, read_json, read_lines, write_json, write_lines
from pasta.errors import StorageError


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


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """No file may grow beyond 1 kB: the record of an evaluation must not be lost with what did not fit."""
    write_json(tmp_path / "run.json", {"models": 1})
    write_lines(tmp_path / "pairs.jsonl", [{"id": 1}])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(StorageError, match="too large"):
            write_json(tmp_path / "run.json", {"models": "m" * 2000})
        with pytest.raises(StorageError, match="too large"):
            write_lines(tmp_path / "pairs.jsonl", [{"id": 2, "text": "t" * 2000}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_json(tmp_path / "run.json") == {"models": 1}
    assert list(read_lines(tmp_path / "pairs.jsonl")) == [{"id": 1}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl", "run.json"]
