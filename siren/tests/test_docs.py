"""Every example in the documents runs, and shows what comes out."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import blocks  # noqa: E402


@pytest.mark.parametrize("path", blocks.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_show_what_comes_out(path: Path) -> None:
    assert blocks.differences(path.read_text(encoding="utf-8")) == []


def test_likeness_ignores_seconds_and_last_digits_only() -> None:
    assert blocks.alike("x  1.234  seed 1, 0.25 s", "x 1.235 seed 1, 1.5 s")
    assert not blocks.alike("x 1.2", "x 1.3")
    assert not blocks.alike("x 1.2", "y 1.2")


def test_the_program_in_the_readme_is_the_example() -> None:
    example = (ROOT / "examples" / "outliers.si").read_text(encoding="utf-8")
    program = "".join(line for line in example.splitlines(keepends=True) if not line.startswith("#"))
    assert program in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_link_to_a_file_leads_somewhere() -> None:
    import re

    for path in blocks.documents():
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
