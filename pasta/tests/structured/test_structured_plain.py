"""Schemas as libraries write them: what forbids nothing is no reason to refuse one, and what is refused is named."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from pasta import extract
from pasta.structured import SchemaError, compile_schema, make_structured_request
from pasta.structured.endings import shortest_ending
from pasta.structured.errors import ConstraintError
from pasta.structured.matcher import Grammars
from support import tiny_engine

NUMBER = {"type": "integer", "minimum": 0, "maximum": 9}
WORD = {"type": "string", "maxLength": 4}


def holding(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def fitting(schema: Any, values: list[Any]) -> list[Any]:
    """Those of some values that the grammar of a schema lets a model write."""
    vocabulary = tiny_engine(tags=False).vocabulary
    (value,) = compile_schema(schema).values
    begun = Grammars.of(vocabulary).compile(value.schema, "")

    def fits(written: str) -> bool:
        matcher = begun.copy()
        try:
            for token in vocabulary.encode(written):
                matcher.consume(token)
        except ConstraintError:
            return False
        return matcher.accepts

    return [each for each in values if fits(json.dumps(each, ensure_ascii=False))]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": NUMBER, "uniqueItems": False, "maxItems": 3.0},
        {**WORD, "maxLength": 4.0, "minLength": 1.0},
        {"type": "array", "items": {**WORD, "maxLength": (1 << 63) - 1}, "maxItems": 2},
        {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": NUMBER, "maxProperties": 2},
        {"type": "object", "propertyNames": True, "additionalProperties": NUMBER, "maxProperties": 2},
        {"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": NUMBER, "required": ["x"]},
        {"type": "object", "propertyNames": {"pattern": "^x[0-9]$"}, "additionalProperties": NUMBER},
        {"type": "object", "propertyNames": {"type": "string", "minLength": 1}, "additionalProperties": NUMBER},
        {"type": "object", "propertyNames": {"minLength": 2.0, "maxLength": 3}, "additionalProperties": NUMBER},
        {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": NUMBER, "required": ["é"]},
        {"type": "object", "propertyNames": {"type": "string", "const": "x"}, "additionalProperties": NUMBER},
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "null"}, "uniqueItems": False}]},
    ],
)
def test_what_forbids_nothing_is_followed(schema: Any) -> None:
    engine = tiny_engine(tags=False)
    for seed in range(3):
        asked = {"temperature": 1.0, "seed": seed, "max_tokens": 60, "at_limit": "close"}
        jsonschema.validate(extract(engine, "Say it.", holding(schema), **asked), holding(schema))


@pytest.mark.parametrize(
    ("names", "right", "wrong"),
    [
        ({"type": "string", "minLength": 1}, ["a", "é", "😀", "\n", '"', "a b"], [""]),
        ({"minLength": 2, "maxLength": 3}, ["ab", "éé", "😀\n\\", '""'], ["", "a", "😀", "abcd", "\\\\\\\\"]),
        ({"maxLength": 1}, ["", "é", "\t"], ["ab", "éé"]),
    ],
)
def test_the_length_of_a_key_counts_characters(names: Any, right: list[str], wrong: list[str]) -> None:
    """What zod writes of `z.record(z.string().min(1), …)`: by the library's grammar, the keys of that length alone."""
    schema = {"type": "object", "propertyNames": names, "additionalProperties": NUMBER}
    assert fitting(schema, [{key: 1} for key in (*right, *wrong)]) == [{key: 1} for key in right]


def test_maps_of_pydantic_are_taken_apart_where_their_keys_are_known() -> None:
    class Size(Enum):
        SMALL = "s"
        LARGE = "l"

    class Stock(BaseModel):
        by_day: dict[Literal["mon", "tue"], Annotated[int, Field(ge=0, le=9)]]
        by_size: dict[Size, bool]

    plan = compile_schema(Stock)
    assert {"/by_day/mon", "/by_day/tue", "/by_size/s", "/by_size/l"} <= {value.pointer for value in plan.values}
    asked = {"temperature": 1.0, "seed": 1, "max_tokens": 60, "at_limit": "close"}
    assert isinstance(extract(tiny_engine(tags=False), "Say it.", Stock, **asked), Stock)


@pytest.mark.parametrize("names", [{"enum": ["x"]}, {"pattern": "^x$"}, {"maxLength": 1.0, "minLength": 1}])
def test_references_are_to_places_of_the_schema_that_was_written(names: Any) -> None:
    """Libraries refer to the first place of what comes twice: zod's, to what a map holds."""
    key, held = ({"$ref": f"#/properties/map/{place}"} for place in ("propertyNames", "additionalProperties"))
    schema = {
        "type": "object",
        "properties": {
            "map": {"type": "object", "propertyNames": names, "additionalProperties": NUMBER},
            "other": {"type": "object", "propertyNames": key, "additionalProperties": held, "minProperties": 1},
            "one": held,
        },
        "required": ["map", "other", "one"],
    }
    asked = {"temperature": 1.0, "seed": 1, "max_tokens": 60, "at_limit": "close"}
    jsonschema.validate(extract(tiny_engine(tags=False), "Say it.", schema, **asked), schema)


def test_what_stands_in_values_stays() -> None:
    odd = {"uniqueItems": False, "maxLength": 2.0, "propertyNames": 5}
    (value,) = compile_schema({"const": odd}).values
    assert json.loads(value.text or "") == odd


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "string", "pattern": r"\bfoo\b"}, r"at /a: the pattern .*foo.* cannot be enforced: lookarounds"),
        ({"type": "string", "format": "regex"}, "at /a: the format 'regex' cannot be enforced"),
        (
            {"type": "string", "pattern": "^a$", "minLength": 3},
            "at /a: no text has all of its pattern, format and length",
        ),
        ({"$ref": "#/$defs/t"}, "at /a/b: circular references with sibling keys are not supported$"),
        ({"type": "array", "items": NUMBER, "uniqueItems": True}, "at /a: uniqueItems cannot be enforced"),
        (
            {"type": "object", "propertyNames": {"minLength": 2, "pattern": "^x"}},
            "/a: propertyNames cannot be enforced",
        ),
        ({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 1}}, "/a: propertyNames cannot be enforced"),
        ({"type": "object", "propertyNames": {"$ref": "#"}}, "/a: propertyNames cannot be enforced"),
        ({"type": "object", "propertyNames": False}, "/a: propertyNames cannot be enforced"),
    ],
)
def test_what_is_refused_is_named_in_the_words_of_the_schema(schema: Any, says: str) -> None:
    node = {"type": "object", "properties": {"b": {"$ref": "#/$defs/t", "minProperties": 0}}}
    with pytest.raises(SchemaError, match=says):
        make_structured_request(tiny_engine(tags=False), "Say it.", {**holding(schema), "$defs": {"t": node}})


def test_keys_of_which_too_much_is_said_are_refused_with_what_to_do() -> None:
    schema = {"type": "object", "propertyNames": {"type": "string", "format": "uuid", "pattern": "^[0-9a-f-]{36}$"}}
    with pytest.raises(SchemaError) as refused:
        make_structured_request(tiny_engine(tags=False), "Say it.", schema)
    assert refused.value.keyword == "propertyNames" and "one of them alone" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("bounds", "right", "wrong"),
    [
        ({"exclusiveMinimum": 0, "maximum": 0.5}, ["0.1", "0.001", "0.5"], ["0", "0.0", "-0", "0.6"]),
        ({"exclusiveMinimum": 2.0, "exclusiveMaximum": 2.5}, ["2.1", "2.0001"], ["2", "2.0", "2.5"]),
        ({"exclusiveMaximum": 0, "minimum": -0.5}, ["-0.1", "-0.5"], ["0", "-0", "-0.0", "-0.6"]),
        ({"exclusiveMaximum": -3, "exclusiveMinimum": -3.5}, ["-3.1"], ["-3", "-3.0", "-3.5"]),
        ({"exclusiveMinimum": 0, "minimum": 0.2, "maximum": 0.5}, ["0.2"], ["0.1", "0"]),
        ({"exclusiveMinimum": -1, "exclusiveMaximum": 1}, ["0", "-0.9", "0.9"], ["-1", "1", "1.0"]),
    ],
)
def test_a_whole_number_that_is_excluded_stays_out(bounds: Any, right: list[str], wrong: list[str]) -> None:
    (value,) = compile_schema(holding({"type": "number", **bounds})).values
    assert [shortest_ending(value.schema, text.encode()) for text in right] == [b""] * len(right)
    assert all(shortest_ending(value.schema, f"{text},".encode()) is None for text in wrong)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("time", ["23:59:59Z", "00:00:00.5+01:00"], ["23:59:60Z", "16:16:60z", "24:00:00Z"]),
        ("date-time", ["2024-02-29T23:59:59.5+01:00", "2024-02-29t00:00:00z"], ["2024-02-29T23:59:60Z"]),
        ("duration", ["P3Y6M4DT12H30M5S", "PT0S", "P2W", "P999999D"], ["P1000000D", "P", "PT"]),
    ],
)
def test_times_are_those_that_libraries_read(name: str, right: list[str], wrong: list[str]) -> None:
    """Pydantic refuses a leap second; and a model that goes on with digits would write a duration without end."""
    assert fitting({"type": "string", "format": name}, [*right, *wrong]) == right
