"""`pasta demo` on the default model, into a pipe."""

import json

import pytest
from cli_support import refused

from pasta.cli import demo
from pasta.examples import EXAMPLES
from pasta.lang import check, parse, plain


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=lambda example: example.name)
def test_examples_are_spotless(example):
    assert check(example.path.read_bytes()) == []


def test_the_log(pasta, default_folder, monkeypatch, tmp_path):
    """On a shorter example, to be quick; the real weights decode it in both ways."""
    short = (
        'Two:<promise topic="red" tokens=1/><async> Red.</async><promise topic="blue" tokens=1/><async> Blue.</async>'
        "<sync/> End."
    )

    class Short(type(EXAMPLES["cities"])):
        text = short

    monkeypatch.setitem(demo.EXAMPLES, "cities", Short("cities", "Which colours?"))
    code, out, _ = pasta("demo", "cities", "--trace", str(tmp_path / "t.json"))
    text = out.decode()
    assert code == 0
    assert "\x1b" not in text
    assert "fork   red" in text
    assert "join   red, blue into main" in text
    assert plain(parse(short)) in text
    assert "times as fast here" in text
    assert text.count("\n  pasta ") == 4
    assert len(json.loads((tmp_path / "t.json").read_bytes())["otherData"]["requests"]) == 2


def test_an_object_out_of_a_text(pasta, default_folder):
    """All fields at once are the fields one after another, in a fraction of the steps; and they are right."""
    code, out, _ = pasta("demo", "extract", "--json")
    value = json.loads(out)
    assert code == 0 and value["same"]
    assert value["value"] == {
        "customer": "Maria Gomez", "city": "Lisbon", "order_number": 4711, "chairs": 3, "day": "Friday", "price": 420,
        "payment": "card", "delivery": "morning",
    }  # fmt: skip
    assert 3 * value["steps"] < value["sequential"]["steps"]


def test_no_such_example(pasta):
    refused(pasta("demo", "nonsense"), 2, "cities")
