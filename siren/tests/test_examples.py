import json
import runpy
import time
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


def test_the_notebook_runs_in_under_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first code is that of the README."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    notebook = json.loads((FOLDER / "first.ipynb").read_text(encoding="utf-8"))
    codes = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert codes[0] in (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(FOLDER.parent)
    started, scope, shown = time.process_time(), {}, []  # not the clock on the wall: other programs may run
    for code in codes:
        *lines, last = code.splitlines()
        exec("\n".join(lines), scope)
        shown.append(eval(last, scope))
    assert time.process_time() - started < 60
    first, (plan, rate), checks = shown
    assert [panel.get_ylabel() for panel in first.axes] == ["positions", ""] and len(checks.axes) == 2
    assert plan["position"] == "symbolic" and 0.1 < rate < 0.2
