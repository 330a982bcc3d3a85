"""The scripts that compare libraries and count schemas: what they take for right, on schemas of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support import byte_tokenizer, tiny_model

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
ROWS: list[dict[str, Any]] = [
    {
        "name": "pair",
        "schema": PAIR,
        "tests": [{"valid": True, "data": {"b": "x", "a": 1}}, {"valid": False, "data": {"a": 1, "b": "z"}}],
    },
    {"name": "refused", "schema": {"not": {"type": "string"}}, "tests": [{"valid": True, "data": 1}]},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    (path / "schemas.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return path


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str) -> dict[str, Any]:
    line = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_keys_are_put_in_the_order_of_the_schema() -> None:
    ordered = script("constraint_libraries").ordered
    inner = {"properties": {"x": {}, "y": {}}}
    schema = {
        "$defs": {"i": inner},
        "allOf": [{"properties": {"z": {"items": {"$ref": "#/$defs/i"}}}}],
        "properties": {"a": {}},
    }
    value = {"more": 0, "z": [{"y": 1, "x": 2}], "a": 3}
    assert json.dumps(ordered(value, schema, schema)) == json.dumps({"a": 3, "z": [{"x": 2, "y": 1}], "more": 0})


def test_verdicts_of_a_library(folder: Path) -> None:
    found = run("constraint_libraries", str(folder / "schemas.jsonl"), f"tiny={folder}", "--libraries", "llguidance")
    figures = found["tokenizers"]["tiny"]["llguidance"]
    assert (found["schemas"], found["instances"], figures["taken"]) == (2, 3, 1)
    assert (figures["valid_accepted"], figures["invalid_refused"]) == ([1, 1], [1, 1])
    assert figures["masks"] > 0 and figures["crashes"] == figures["too_slow"] == 0


def test_schemas_become_valid_objects(folder: Path) -> None:
    found = run("structured_schemas", str(folder / "schemas.jsonl"), "--model", str(folder), "--device", "cpu")
    assert (found["taken_by_library"], found["supported"], found["supported_of_taken"]) == (1, 1, 1)
    assert len(found["decoded"]) == 3 and all(own["valid"] == 1 for own in found["decoded"].values())
    [[why, count]] = found["refused"]
    assert count == 1 and "not" in why
