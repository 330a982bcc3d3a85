"""The bench of structured answers, on a tiny model: its figures, and its clock on the constraints."""

from __future__ import annotations

import json
from pathlib import Path

from pasta.eval.extraction.item import Item, object_of, write_items
from pasta.eval.extraction.run import main
from pasta.eval.extraction.speed import asked, choose, constraint_clock, counts, measure
from pasta.structured.matcher import Matcher
from support import tiny_engine

DIGIT = {"type": "integer", "minimum": 0, "maximum": 99}
NAMES = [f"n{number}" for number in range(8)]


def items(count: int, fields: int = 8) -> list[Item]:
    names = NAMES[:fields]
    schema, answers = object_of(dict.fromkeys(names, DIGIT)), {f"/{name}": [1] for name in names}
    return [Item("digits", str(number), f"Count {number}!", schema, answers) for number in range(count)]


def test_only_objects_of_many_fields_are_timed() -> None:
    assert choose(items(40, fields=3)) == {}
    assert len(choose(items(40))["digits"]) == 32


def test_figures_of_a_set() -> None:
    found = measure(tiny_engine(tags=False), items(3), objects=1, repeats=1)
    assert found["fields"] == 8 and found["counts"]["parallel"]["incomplete"] == 0
    assert found["counts"]["parallel"]["steps"] < found["counts"]["sequential"]["steps"]
    assert found["one_at_a_time"]["speedup"]["prompts"] == 1
    assert found["many_at_once"]["parallel"]["objects_a_second"] > 0
    assert found["counts"]["sequential"]["constraint_ms"] > 0


def test_the_clock_leaves_nothing_behind() -> None:
    before = dict(Matcher.__dict__)
    with constraint_clock() as spent:
        assert Matcher.__dict__["fill_all"] is not before["fill_all"]
        counts(tiny_engine(tags=False), items(1), "parallel")
    assert dict(Matcher.__dict__) == before and spent["masks"] > 0 and spent["consume"] > 0


def test_the_command_writes_figures(models: dict[str, str], tmp_path: Path) -> None:
    write_items(items(32), tmp_path / "items.jsonl")
    given = ["speed", str(tmp_path / "items.jsonl"), str(tmp_path / "out.json"), "--model", models["plain"]]
    assert main([*given, "--device", "cpu", "--objects", "1", "--repeats", "1"]) == 0
    assert list(json.loads((tmp_path / "out.json").read_text("utf-8"))["sets"]) == ["digits"]


def test_prompts_are_told_as_tokens() -> None:
    [line] = asked(tiny_engine(tags=False), {"digits": items(1)})
    told = json.loads(line)
    assert told["schema"]["required"] == NAMES and all(isinstance(token, int) for token in told["prompt_ids"])
