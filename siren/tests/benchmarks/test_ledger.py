"""Finished work is found again, whatever happened to the process that did it."""

from pathlib import Path

import pytest

from benchmarks.ledger import Ledger
from siren.errors import SirenError


def test_what_is_done_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "cells.jsonl"
    first = Ledger(file, {"steps": 5})
    first.add(("noise", None, 3), {"seconds": 0.5})
    second = Ledger(file, {"steps": 5})
    assert ("noise", None, 3) in second and second["noise", None, 3] == {"seconds": 0.5}
    assert ("noise", 1, 3) not in second and len(second) == 1


def test_a_line_cut_short_is_done_again(tmp_path: Path) -> None:
    file = tmp_path / "cells.jsonl"
    ledger = Ledger(file, {})
    ledger.add("a", 1)
    ledger.add("b", 2)
    file.write_text(file.read_text()[:-5])
    again = Ledger(file, {})
    assert "a" in again and "b" not in again
    again.add("b", 3)
    assert Ledger(file, {})["b"] == 3


def test_other_conditions_are_not_mixed_in(tmp_path: Path) -> None:
    Ledger(tmp_path / "cells.jsonl", {"steps": 5})
    with pytest.raises(SirenError, match="other conditions"):
        Ledger(tmp_path / "cells.jsonl", {"steps": 6})
