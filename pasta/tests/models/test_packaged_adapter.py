"""An adapter in a package of its own is a model by its name, over a base from anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pasta
from adapters import make_adapter
from pasta.errors import PastaError
from pasta.models import available, load_model, resolve
from pasta.models.catalogue import find_adapter
from pasta.models.packaged import packaged

NAME = "tiny-coder-1.5b-pasta"


@pytest.fixture
def installed(tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution as pip would unpack it: an adapter's folder as a package, and an entry point."""
    site = tmp_path / "site"
    folder = site / "pasta_tiny"
    make_adapter(load_model(base, device="cpu", tags=True), folder)
    record = json.loads((folder / "pasta.json").read_text())
    record.pop("checksum")  # whoever has the base from elsewhere, or in other bits, has another
    (folder / "pasta.json").write_text(json.dumps(record))
    (folder / "__init__.py").write_text('raise RuntimeError("nobody need run this")\n')
    about = site / "pasta_tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pasta-tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[pasta.adapters]\n{NAME} = pasta_tiny\ngone = no_such_package\n")
    monkeypatch.syspath_prepend(site)
    return folder


def test_it_is_a_model_by_its_name(installed: Path, base: str) -> None:
    assert packaged() == {NAME: installed.resolve()} and find_adapter(NAME) == installed.resolve()
    found = resolve(NAME)
    assert (found.name, found.source, found.reference) == (NAME, "package", NAME)
    assert found.base is not None and str(found.base.path) == str(Path(base).resolve())
    [listed] = [each for each in available() if each.name == NAME]
    assert listed.source == "package" and listed.ready and listed.bytes > 0


def test_it_answers_over_a_base_from_elsewhere(installed: Path, base: str, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.symlink_to(base)
    record = json.loads((installed / "pasta.json").read_text())
    (installed / "pasta.json").write_text(json.dumps({**record, "base": "somebody/that-is-not-here"}))
    [listed] = [each for each in available() if each.name == NAME]
    assert not listed.ready
    model = pasta.load(NAME, base=str(moved), device="cpu")
    answer = pasta.generate(model, "Hm?", max_tokens=4)
    assert answer.model == NAME and answer.tokens_total == 4


def test_what_is_not_installed_is_no_name(base: str) -> None:
    assert NAME not in packaged() and find_adapter(NAME) is None
    with pytest.raises(PastaError, match=r"unknown model.*installed with pip first"):
        resolve(NAME)
