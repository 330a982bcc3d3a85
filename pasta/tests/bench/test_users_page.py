"""The page on many users is made from the saved figures."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def users():
    spec = spec_from_file_location("make_users", DOCS / "make_users.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_figures_say(users):
    assert users.page() == (DOCS / "users.md").read_text("utf-8"), "run: python pasta/docs/make_users.py"
    assert users.plot() == users.PLOT.read_text("utf-8")


def test_one_user_gains_and_nobody_is_slower_than_without(users):
    from pasta.serve.settings import Settings

    assert Settings().slowdown is None and not Settings().plain_when_full, "all threads run, as in the mode `free`"
    for name in users.ANSWERS:
        rows = json.loads((users.RESULTS / name).read_text("utf-8"))["rows"]
        served = {row["users"]: row for row in rows if row["mode"] == users.SERVED}
        assert {1, 4, 8, 16, 32, 64, 128} <= served.keys()
        assert users.faster(served[1]) >= 1.5
        assert all(users.worst(row) >= 0.98 for row in served.values())
