"""Random schemas: every answer is valid, whatever the model says, and the same whoever else is there."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.decoding.api import run
from pasta.structured import StructuredResult, compile_schema, make_structured_request
from pasta.structured.scanner import Scanner
from support import PilotedEngine, tiny_engine

NAMES = ["a", "b", "key", 'with "quotes"', "tilde~/slash", "ünïcode", "日本"]
CONSTANTS = st.one_of(st.none(), st.booleans(), st.integers(-999, 999), st.text(max_size=4))


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
        st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 6)),
        st.builds(lambda n: {"type": "string", "pattern": f"^[a-z]{{1,{n}}}$"}, st.integers(1, 4)),
        st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
                  st.integers(-50, 50), st.integers(0, 300)),
        st.builds(lambda low: {"type": "number", "minimum": low, "maximum": low + 2}, st.integers(-3, 3)),
        st.builds(lambda values: {"enum": values}, st.lists(CONSTANTS, min_size=1, max_size=4)),
        st.builds(lambda value: {"const": value}, CONSTANTS),
        st.sampled_from([{"type": "string", "format": name} for name in ("date", "time", "uuid", "ipv4")]),
    )  # fmt: skip


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def draw_object(draw: st.DrawFn) -> dict[str, Any]:
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        properties = {name: draw(inner) for name in names}
        for place, name in enumerate(names[1:], start=1):
            if draw(st.booleans()) and draw(st.booleans()):
                waits = draw(st.lists(st.sampled_from(names[:place]), min_size=1, max_size=2, unique=True))
                properties[name] = {**properties[name], "x-after": waits}
        required = draw(st.lists(st.sampled_from(names), unique=True))
        return {"type": "object", "properties": properties, "required": required}

    return draw_object()


def others(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        objects(inner),
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 2, "maxItems": 2}, inner),
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 2}, inner),
        st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
    )  # fmt: skip


MODES = st.sampled_from(["parallel", "sequential"])
SCHEMAS = st.recursive(scalars(), others, max_leaves=8)


@cache
def engine() -> PilotedEngine:
    return tiny_engine("llama", tags=False)


@settings(max_examples=40, deadline=None)
@given(schema=SCHEMAS, mode=MODES, arrays=MODES, seed=st.integers(0, 3))
def test_every_answer_is_valid(schema: dict[str, Any], mode: str, arrays: str, seed: int) -> None:
    requests = [
        make_structured_request(
            engine(),
            "Say it.",
            schema,
            mode=mode,
            arrays=arrays,
            max_tokens=4000,
            temperature=temperature,
            seed=seed,
            max_threads=width,
        )
        for temperature, width in ((0.0, 16), (1.0, 16), (1.0, 2))
    ]
    results = run(engine(), requests, watched=True)
    for result in results:
        assert isinstance(result, StructuredResult) and result.complete, result.missing
        jsonschema.validate(result.value, schema)
        assert "".join(output.text for output in result.outputs) == result.text
    assert results[1].text == results[2].text  # how many run at once is a question of time
    assert engine().pool.free_slots == engine().pool.slots


@settings(max_examples=40, deadline=None)
@given(schema=SCHEMAS, budget=st.integers(1, 12))
def test_a_budget_leaves_a_beginning(schema: dict[str, Any], budget: int) -> None:
    whole, cut = run(
        engine(), [make_structured_request(engine(), "Say it.", schema, max_tokens=most) for most in (4000, budget)]
    )
    assert isinstance(whole, StructuredResult) and isinstance(cut, StructuredResult)
    assert cut.decoded_tokens <= budget
    assert whole.text.startswith(cut.text)
    assert cut.complete == (cut.finish_reason == "stop") == (cut.value is not None or whole.value is None)
    assert {field.pointer: field.text for field in cut.fields if field.complete}.items() <= {
        field.pointer: field.text for field in whole.fields
    }.items()


@settings(max_examples=100, deadline=None)
@given(schema=SCHEMAS)
def test_a_plan_sees_no_more_than_it_may(schema: dict[str, Any]) -> None:
    plan = compile_schema(schema)
    decoded = {value: place for place, value in enumerate(plan.order)}
    assert sorted(plan.order) == [value.index for value in plan.values] == list(range(len(plan.values)))
    for value in plan.values:
        assert all(decoded[other] < decoded[value.index] for other in (*value.sees, *value.gates))
        assert value.base is None or value.base in value.sees


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(value=JSON, cuts=st.lists(st.integers(1, 5)))
def test_the_end_of_a_value_is_found_however_it_is_cut(value: Any, cuts: list[int]) -> None:
    own = json.dumps(value, ensure_ascii=False).encode()
    text, scanner, read = b" " + own + b', "x": 1}', Scanner(), 0
    for size in [*cuts, *[3] * len(text)]:
        end = scanner.push(text[read : read + size])
        if end is not None:
            assert text[: read + end] == b" " + own
            return
        read += size
    raise AssertionError("no end was found")
