"""What the threads decoded equals one dense pass under the plan's mask, constraints applied."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import torch
import transformers
from plan_dense import check_against_dense, contexts

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import run
from pasta.engine.native import NativeEngine
from pasta.structured import StructuredResult, compile_schema, make_structured_request
from pasta.structured.planner import CHECKED, MODES
from support import FAMILIES, SIZES, tiny_engine
from toy_tokenizers import toy_tokenizer

WORD = {"type": "string", "pattern": "^[a-z ]{1,6}$"}
FLAG = {"type": "boolean"}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": WORD,
        "home": {
            "type": "object",
            "properties": {
                "city": WORD,
                "flat": {
                    "type": "object",
                    "properties": {"floor": {"type": "integer", "minimum": 0, "maximum": 99}, "lift": FLAG},
                    "required": ["floor", "lift"],
                },
            },
            "required": ["city", "flat"],
        },
        "mood": {"enum": ["good", "grim", "great"]},
    },
    "required": ["name", "home", "mood"],
}
DEPENDENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tax": {"type": "integer", "minimum": 0, "maximum": 50, "x-after": ["total", "/note/kind"]},
        "total": {"type": "integer", "minimum": 0, "maximum": 500},
        "note": {"type": "object", "properties": {"kind": WORD, "open": FLAG}, "required": ["kind", "open"]},
        "last": {**FLAG, "x-after": ["tax"]},
        "alone": WORD,
    },
    "required": ["tax", "total", "note", "last", "alone"],
}
OPTIONAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": WORD,
        "b": {"type": "object", "properties": {"c": FLAG, "d": WORD}, "required": ["c"]},
        "e": {"anyOf": [{"$ref": "#/$defs/pair"}, {"type": "null"}]},
        "f": FLAG,
    },
    "required": ["e"],
    "$defs": {"pair": {"type": "object", "properties": {"x": FLAG, "y": FLAG}, "required": ["x", "y"]}},
}
ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows": {
            "type": "array",
            "minItems": 3,
            "maxItems": 3,
            "items": {"type": "object", "properties": {"k": WORD, "v": FLAG}, "required": ["k", "v"]},
        },
        "list": {"type": "array", "items": FLAG, "minItems": 1, "maxItems": 3},
    },
    "required": ["rows", "list"],
}
SCHEMAS: dict[str, Any] = {
    "nested": NESTED, "dependent": DEPENDENT, "optional": OPTIONAL, "rows": ROWS,
    "scalar": {"type": "integer", "minimum": 10, "maximum": 9999}, "array": ROWS["properties"]["list"],
}  # fmt: skip


COUNTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "minItems": 2,
            "maxItems": 4,
            "items": {"type": "object", "properties": {"what": WORD, "paid": FLAG}, "required": ["what"]},
        },
        "tags": {"type": "array", "items": WORD, "maxItems": 3},
        "last": {**FLAG, "x-after": ["lines"]},
    },
    "required": ["lines", "tags", "last"],
}


def watched(engine: NativeEngine, schema: Any, mode: str, **options: Any) -> StructuredResult:
    request = make_structured_request(engine, "Say it.", schema, mode=mode, max_tokens=3000, **options)
    [result] = run(engine, [request], watched=True)
    assert isinstance(result, StructuredResult) and result.complete
    jsonschema.validate(result.value, schema)
    return result


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != CHECKED])  # that one is what `sequential` is
@pytest.mark.parametrize("name", SCHEMAS)
def test_threads_equal_one_dense_pass(name: str, mode: str) -> None:
    engine = tiny_engine("llama", tags=False)
    result = watched(engine, SCHEMAS[name], mode)
    plan = compile_schema(SCHEMAS[name], mode=mode)
    assert check_against_dense(engine, plan, result) == result.decoded_tokens


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"llama"}))
def test_in_other_families(family: str) -> None:
    engine = tiny_engine(family, tags=False)
    for mode in ("parallel", "sequential"):
        result = watched(engine, DEPENDENT, mode)
        assert check_against_dense(engine, compile_schema(DEPENDENT, mode=mode), result) > 5


@pytest.mark.parametrize("kind", ["byte-level", "metaspace-always-split", "gemma", "unigram", "prepend"])
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_with_other_tokenizers(kind: str, mode: str) -> None:
    """Tokens of several letters, which may end a value and begin what comes after it."""
    tokenizer = toy_tokenizer(kind)
    engine = NativeEngine(model_of(len(tokenizer) + 3), Vocabulary(tokenizer), name=kind)
    for name in ("nested", "dependent", "optional"):
        result = watched(engine, SCHEMAS[name], mode)
        assert check_against_dense(engine, compile_schema(SCHEMAS[name], mode=mode), result) == result.decoded_tokens


def model_of(size: int) -> transformers.LlamaForCausalLM:
    torch.manual_seed(5)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "vocab_size": size}))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    return model.eval()


def test_a_value_sees_its_path_and_what_it_waits_for() -> None:
    engine = tiny_engine("llama", tags=False)
    result = watched(engine, DEPENDENT, "parallel")
    said, seen = result.value, contexts(result, engine.vocabulary)
    assert seen["/total"] == '{"total":'
    assert seen["/note/open"] == '{"note": {"open":'
    before = f'{{"total": {said["total"]}, "note": {{"kind": "{said["note"]["kind"]}"}}, "tax":'
    assert seen["/tax"] == before
    assert seen["/last"] == f'{before} {said["tax"]}, "last":'
    assert seen["/alone"] == '{"alone":'


def test_all_but_the_first_see_it() -> None:
    engine = tiny_engine("llama", tags=False)
    result = watched(engine, NESTED, "lead")
    said, seen = result.value, contexts(result, engine.vocabulary)
    assert seen["/name"] == '{"name":'
    assert seen["/home/flat/lift"] == f'{{"name": "{said["name"]}", "home": {{"flat": {{"lift":'
    assert seen["/mood"] == f'{{"name": "{said["name"]}", "mood":'


def test_optional_values_see_the_required_and_those_before_them() -> None:
    engine = tiny_engine("llama", tags=False)
    schema = {"type": "object", "properties": {"a": FLAG, "b": FLAG, "c": FLAG, "d": FLAG}, "required": ["b", "d"]}
    result = watched(engine, schema, "leftover")
    said, seen = {field.pointer: field.text for field in result.fields}, contexts(result, engine.vocabulary)
    required = f'{{"b": {said["/b"]}, "d": {said["/d"]}, '
    assert seen["/b"] == '{"b":' and seen["/d"] == '{"d":'
    assert seen["/a"] == f'{required}"a":'
    assert seen["/c"] == f'{required}"a": {said.get("/a", "null")}, "c":'


def test_sequentially_a_value_sees_all_before_it() -> None:
    engine = tiny_engine("llama", tags=False)
    result = watched(engine, NESTED, "sequential")
    for pointer, text in contexts(result, engine.vocabulary).items():
        assert result.text.startswith(text) and text.endswith(f'"{pointer.rpartition("/")[2]}":')


def test_arrays_are_counted_and_then_decoded_at_once() -> None:
    engine = tiny_engine("llama", tags=False)
    result = watched(engine, COUNTED, "parallel", arrays="parallel")
    plan = compile_schema(COUNTED, arrays="parallel")
    assert check_against_dense(engine, plan, result) == result.decoded_tokens
    lines, tags = result.value["lines"], result.value["tags"]
    seen = contexts(result, engine.vocabulary)
    assert seen["/lines"] == '{"number of lines":' and seen["/tags"] == '{"number of tags":'
    for index in range(len(lines)):
        assert seen[f"/lines/{index}/what"] == f'{{"lines": [/* {index + 1} of {len(lines)} */ {{"what":'
    for index in range(len(tags)):
        assert seen[f"/tags/{index}"] == f'{{"tags": [/* {index + 1} of {len(tags)} */'
    assert f"/lines/{len(lines)}/what" not in {field.pointer for field in result.fields}
    assert seen["/last"].endswith('}], "last":') and seen["/last"].startswith('{"lines": [{"what": ')
