"""Modes between parallel and sequential: which fields of a plan see which."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pasta.errors import UsageError
from pasta.structured import SchemaError, compile_schema

FLAG = {"type": "boolean"}


def object_of(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties if required is None else required)}


def seen(schema: Any, mode: str, **options: Any) -> dict[str, set[str]]:
    """By value: those that it sees."""
    values = compile_schema(schema, mode=mode, **options).values
    return {value.pointer: {values[other].pointer for other in value.sees} for value in values if value.text is None}


def test_all_wait_for_the_first() -> None:
    schema = object_of({"a": FLAG, "b": object_of({"c": FLAG, "d": FLAG}), "e": FLAG}, ["b"])
    assert seen(schema, "lead") == {"/a": set(), "/b/c": {"/a"}, "/b/d": {"/a"}, "/e": {"/a"}}


def test_the_first_may_be_an_object_whose_values_are_decoded_at_once() -> None:
    schema = object_of({"a": object_of({"b": FLAG, "c": FLAG}), "d": FLAG})
    assert seen(schema, "lead") == {"/a/b": set(), "/a/c": set(), "/d": {"/a/b", "/a/c"}}


def test_what_the_schema_fixes_does_not_lead() -> None:
    schema = object_of({"kind": {"const": "x"}, "a": FLAG, "b": FLAG})
    assert seen(schema, "lead") == {"/a": set(), "/b": {"/a"}}


def test_an_object_with_one_field_is_looked_through() -> None:
    inner = object_of({"a": FLAG, "b": FLAG, "c": object_of({"d": FLAG, "e": FLAG})})
    assert seen(object_of({"result": inner}), "lead") == {
        "/result/a": set(), "/result/b": {"/result/a"}, "/result/c/d": {"/result/a"}, "/result/c/e": {"/result/a"},
    }  # fmt: skip


def test_optional_fields_wait_for_the_required_and_for_the_optional_before_them() -> None:
    schema = object_of({"a": FLAG, "b": FLAG, "c": FLAG, "d": FLAG}, ["b", "d"])
    assert seen(schema, "leftover") == {"/a": {"/b", "/d"}, "/b": set(), "/c": {"/a", "/b", "/d"}, "/d": set()}
    nothing = object_of({"a": FLAG, "b": FLAG})
    assert seen(nothing, "leftover") == seen(nothing, "parallel")


def test_what_was_said_goes_before_a_rule() -> None:
    schema = object_of({"a": {**FLAG, "x-after": ["c"]}, "b": FLAG, "c": FLAG, "d": {**FLAG, "x-after": []}}, [])
    assert seen(schema, "lead") == {"/a": {"/b", "/c"}, "/b": set(), "/c": {"/b"}, "/d": set()}
    assert seen(schema, "leftover") == {"/a": {"/b", "/c"}, "/b": set(), "/c": {"/b"}, "/d": set()}
    assert seen(schema, "leftover", after={"c": ["b"]})["/c"] == {"/b"}


@pytest.mark.parametrize("mode", ["lead", "leftover"])
def test_rules_close_no_circle(mode: str) -> None:
    """Whatever was said, if it is none by itself."""
    rng = random.Random(7)
    tried = 0
    for _ in range(300):
        names = ["a", "b", "c", "d/x", "d/y", "e"]
        properties = {"a": FLAG, "b": FLAG, "c": FLAG, "d": object_of({"x": FLAG, "y": FLAG}, ["x"]), "e": FLAG}
        schema = object_of(properties, rng.sample(list(properties), rng.randrange(6)))
        places = [f"/{name}" for name in (*names, "d")]
        after = {rng.choice(places): rng.sample(places, rng.randrange(1, 3)) for _ in range(rng.randrange(4))}
        try:
            said = seen(schema, "parallel", after=after)
        except SchemaError:
            continue
        found = seen(schema, mode, after=after)
        assert all(said[place] <= found[place] for place in said)
        tried += 1
    assert tried > 100


def test_arrays_have_fewer_modes() -> None:
    with pytest.raises(UsageError, match="unknown arrays 'lead'"):
        compile_schema(object_of({"a": FLAG}), arrays="lead")


def test_what_the_schema_says_by_itself_looks_at_nothing_and_is_seen():
    plan = compile_schema(object_of({"a": FLAG, "b": {"const": 1}, "c": FLAG}), mode="sequential")
    assert [value.sees for value in plan.values] == [(), (), (0, 1)]
    assert [value.base for value in plan.values] == [None, None, 0]
