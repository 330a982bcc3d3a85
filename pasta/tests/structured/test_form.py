"""What is no schema is refused in one line, at its place; and telling a model of it never fails."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.structured import SchemaError, compile_schema
from pasta.structured.instructions import show_schema

ORDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "[a-z]+", "description": "who"},
        "size": {"enum": ["small", "large", 3]},
        "when": {"type": ["string", "null"], "format": "date"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1, "maxItems": 2},
        "pay": {"anyOf": [{"type": "integer", "minimum": 0}, {"const": None}], "x-after": ["size"]},
        "pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "number"}], "items": False},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
}
ASKED = [{"role": "user", "content": "What was ordered?"}]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": -1}, "at its root: properties is -1, expected an object of schemas"),
        ({"properties": {"a": 5}}, "at /properties/a: it is 5, expected an object, true or false"),
        ({"properties": {"a": {"enum": -1}}}, "at /properties/a: enum is -1, expected a list of values"),
        ({"required": [-1]}, r"required is \[-1\], expected a list of names"),
        ({"required": "a"}, "required is 'a', expected a list of names"),
        ({"properties": {1: {}}}, "at /properties: the key 1 is no text, and JSON has no other keys"),
        ({"const": float("nan")}, "const is nan, expected a value that JSON has"),
        (
            {"properties": {"a": {"enum": [[float("inf")]]}}},
            r"at /properties/a: enum is \[\[inf\]\], expected a list of",
        ),
        ({"maximum": float("inf")}, "maximum is inf, expected a number"),
        ({"propertyNames": {"minLength": float("nan")}}, "at /propertyNames: minLength is nan, expected a whole"),
        ({"$ref": "#/allOf/²", "allOf": [{}]}, "names nothing in the schema"),
        ({"type": 7}, "type is 7, expected one of string, number, .*, or a list of them"),
        ({"type": ["string", "text"]}, r"type is \['string', 'text'\], expected one of string"),
        ({"properties": {"a": {"type": "str"}}}, "at /properties/a: type is 'str', expected one of string"),
        ({"anyOf": {"type": "null"}}, "expected a list of schemas"),
        ({"items": 7}, "at /items: it is 7, expected an object"),
        ({"$ref": 3}, r"\$ref is 3, expected a string"),
        ({"$defs": [1]}, r"\$defs is \[1\], expected an object of schemas"),
        ({"minLength": "a"}, "minLength is 'a', expected a whole number from 0"),
        ({"minLength": True}, "minLength is True, expected a whole number from 0"),
        ({"minItems": 1.5}, "minItems is 1.5, expected a whole number from 0"),
        ({"maxItems": -1}, "maxItems is -1, expected a whole number from 0"),
        ({"multipleOf": 0}, "multipleOf is 0, expected a number above 0"),
        ({"enum": "x" * 500}, r"^.{1,150}$"),
    ],
)
def test_what_is_no_schema_is_refused_at_its_place(schema: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        compile_schema({"type": "object", **schema} if "type" not in schema else schema)


def test_what_stands_in_values_is_no_schema() -> None:
    """An enum, a constant and a note may hold anything."""
    odd = {"required": 5, "properties": -1}
    compile_schema({"properties": {"a": {"enum": [odd], "default": odd}, "b": {"const": odd, "examples": [odd]}}})


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, each in inside for deeper in places(each, (*path, key)))]


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=4),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.sampled_from(["type", "a", "$ref", "enum", "items", "~/"]), st.integers(), max_size=2),
)  # fmt: skip


@given(place=st.sampled_from(places(ORDER)[1:]), odd=ODD)
def test_anything_anywhere_is_taken_or_refused(place: tuple[Any, ...], odd: Any) -> None:
    schema = copy.deepcopy(ORDER)
    at: Any = schema
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = odd
    assert show_schema(ASKED, schema)[-1] == ASKED[0]
    try:
        compile_schema(schema)
    except SchemaError as refusal:
        assert "\n" not in str(refusal)


def test_references_are_spelled_as_in_addresses():
    schema = {"$ref": "#/$defs/A%5Ba%20b%5D~1c", "$defs": {"A[a b]/c": {"properties": {"x": {"type": "integer"}}}}}
    assert [value.pointer for value in compile_schema(schema).values] == ["/x"]


TOWER = {str(floor): {"allOf": [{"$ref": f"#/$defs/{floor + 1}"}] * 8} for floor in range(20)}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}, {"type": "object"}]},
        {"$ref": "#/$defs/0", "$defs": {**TOWER, "20": {}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}},
    ],
)
def test_parts_that_hold_each_other_over_and_over_are_gone_through_once(schema):
    assert [value.pointer for value in compile_schema(schema).values] == [""]


def tower(floors: int, width: int, top: Any) -> dict[str, Any]:
    """Objects of objects, each with so many of the next, in few words."""
    names = [f"p{index}" for index in range(width)]
    wholes = [{"$ref": f"#/$defs/{floor + 1}"} for floor in range(floors - 1)] + [top]
    objects = [{"type": "object", "properties": dict.fromkeys(names, own), "required": names} for own in wholes]
    return {"$ref": "#/$defs/0", "$defs": {str(floor): own for floor, own in enumerate(objects)}}


@pytest.mark.parametrize("top", [{"type": "null"}, {"const": "x" * 50}], ids=["decoded", "known"])
def test_references_that_multiply_are_followed_no_further_than_an_answer_may_go(top):
    plan = compile_schema(tower(8, 30, top))  # 30 ** 8 values
    assert {value.pointer.count("/") for value in plan.values} == {1}
    assert {value.pointer.count("/") for value in compile_schema(tower(2, 14, top)).values} == {2}


def test_a_schema_told_in_lines_is_no_longer_than_itself():
    schema = tower(2, 200, {"type": "null"})
    flat = {"properties": schema["$defs"]["0"]["properties"], "$defs": {"1": schema["$defs"]["1"]}}
    [told, _] = show_schema(ASKED, flat)
    assert told["content"].startswith("Answer with JSON that follows this schema:")
    assert len(told["content"]) < 2 * len(json.dumps(flat))
