"""axe, which finds what keeps people out of a page."""

from __future__ import annotations

import shutil
import subprocess
import tarfile

import pytest
from page_stage import WIDTHS, no_sideways_scroll

AXE = "axe-core@4.10.3"


def fetch_axe(folder) -> str:
    """axe-core's script from npm; it is not ours to keep."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here to fetch axe-core with")
    got = subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300)
    if got.returncode:
        pytest.skip(f"npm does not give {AXE}: {got.stderr.strip()[-200:]}")
    with tarfile.open(folder / got.stdout.split()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def check_axe(page, source: str) -> None:
    """No rule is broken at any width, and of no text is the contrast undecided."""
    page.evaluate(source)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert no_sideways_scroll(page), width
        run_axe(page)


def run_axe(page) -> None:
    found = page.evaluate(
        "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })"
    )
    told = [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
    assert told == []
    undecided = [
        (node["html"], node["any"][0]["message"])
        for rule in found["incomplete"]
        if rule["id"] == "color-contrast"
        for node in rule["nodes"]
    ]
    assert undecided == []
    assert any(rule["id"] == "color-contrast" for rule in found["passes"])
