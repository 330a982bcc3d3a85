import runpy
from pathlib import Path

import pytest

from siren.syntax import check, format_text, parse

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.si")), ids=lambda path: path.stem)
def test_program_is_valid_and_formatted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check(parse(text, path.name)) == ()
    assert format_text(text) == text


def test_data_are_what_the_script_makes(tmp_path: Path) -> None:
    made = runpy.run_path(str(FOLDER / "make_data.py"))
    made["main"].__globals__["FOLDER"] = tmp_path
    made["main"]()
    files = sorted(path.name for path in (FOLDER / "data").iterdir())
    assert files == sorted(path.name for path in tmp_path.iterdir())
    for name in files:
        assert (tmp_path / name).read_text(encoding="utf-8") == (FOLDER / "data" / name).read_text(
            encoding="utf-8"
        )
