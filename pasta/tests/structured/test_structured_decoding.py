"""Values decoded in threads: what they say is valid, and nothing stays behind."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from pasta.core.params import SamplingParams
from pasta.decoding.api import Stream, run
from pasta.decoding.events import Ended, Finished, Forked, TextWritten
from pasta.structured import SchemaError, StructuredResult, make_structured_request
from support import PilotedEngine, tiny_engine

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "height": {"type": "number", "minimum": 0, "maximum": 3},
        "colour": {"enum": ["red", "green", "grey"]},
        "kind": {"const": "person"},
        "home": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 6},
                "far": {"type": "boolean", "x-after": ["city"]},
            },
            "required": ["city", "far"],
        },
        "nickname": {"type": "string", "maxLength": 4},
    },
    "required": ["name", "age", "height", "colour", "kind", "home"],
}


@pytest.fixture(scope="module", params=[False, True], ids=["untuned", "with tags"])
def engine(request: pytest.FixtureRequest) -> PilotedEngine:
    return tiny_engine("llama", tags=request.param)


def decode(engine: PilotedEngine, schema: Any, mode: str = "parallel", **options: Any) -> StructuredResult:
    options = {"max_tokens": 2000, **options}
    [result] = run(engine, [make_structured_request(engine, "Who?", schema, mode=mode, **options)])
    assert isinstance(result, StructuredResult)
    assert engine.pool.free_slots == engine.pool.slots
    return result


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_object_is_valid(engine: PilotedEngine, mode: str, temperature: float) -> None:
    result = decode(engine, PERSON, mode, temperature=temperature)
    jsonschema.validate(result.value, PERSON)
    assert json.loads(result.text) == result.value
    assert result.finish_reason == "stop" and not result.missing
    assert [field.pointer for field in result.fields if "/home" in field.pointer] == ["/home/city", "/home/far"]


def test_values_are_decoded_at_once(engine: PilotedEngine) -> None:
    parallel, sequential = (decode(engine, PERSON, mode) for mode in ("parallel", "sequential"))
    assert parallel.steps <= parallel.critical_path + 1 < parallel.decoded_tokens
    assert sequential.critical_path == sequential.decoded_tokens
    # The first value sees the same in both ways.
    assert parallel.fields[0].text == sequential.fields[0].text


def test_a_stream_tells_the_text_and_every_value(engine: PilotedEngine) -> None:
    request = make_structured_request(engine, "Who?", PERSON, max_tokens=2000)
    stream = Stream(engine, request)
    outputs = list(stream)
    result = stream.result
    assert isinstance(result, StructuredResult)
    assert "".join(output.text for output in outputs) == result.text
    events = [event for output in outputs for event in output.events]
    pointers = {event.child: event.topic for event in events if isinstance(event, Forked)}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, TextWritten):
            texts[event.thread] = texts.get(event.thread, "") + event.text
    for field in result.fields:
        if field.thread is not None:
            assert pointers[field.thread] == field.pointer
            assert texts[field.thread] == (field.text or "null")
    assert {event.thread for event in events if isinstance(event, Ended)} == {0, *pointers}
    assert isinstance(events[-1], Finished)


def test_a_value_that_may_be_left_out_is_told_once_it_is_certain_to_be_there(engine: PilotedEngine) -> None:
    schema = {"type": "object", "properties": {"note": {"type": "string", "minLength": 5, "maxLength": 20}}}
    for prompt in "abcdefgh":
        stream = Stream(engine, make_structured_request(engine, prompt, schema, max_tokens=200))
        told = [output.text for output in stream]
        assert "".join(told) == stream.result.text
        if stream.result.text != "{}":
            assert len([text for text in told if text]) > 5, "as it is decoded, not at its end"
            return
    raise AssertionError("none of the answers has a note")


def test_a_budget_cuts_and_names_what_is_missing(engine: PilotedEngine) -> None:
    whole = decode(engine, PERSON)
    cut = decode(engine, PERSON, max_tokens=whole.fields[0].tokens + 1)
    assert cut.finish_reason == "length" and cut.value is None
    assert cut.missing == tuple(field.pointer for field in whole.fields[1:])
    assert cut.fields[0] == whole.fields[0]
    assert whole.text.startswith(cut.text)
    assert cut.decoded_tokens <= whole.fields[0].tokens + 1
    for result in (cut, whole):  # what was cut off is no content
        assert result.content_tokens == result.decoded_tokens + result.forced_tokens


def test_requests_share_steps_with_others(engine: PilotedEngine) -> None:
    alone = decode(engine, PERSON, temperature=1.0, seed=7)
    requests = [
        make_structured_request(engine, "Who?", PERSON, SamplingParams(temperature=1.0, seed=seed, max_tokens=2000))
        for seed in (5, 6, 7, 8)
    ]
    together = run(engine, requests)
    assert together[2].text == alone.text
    assert len({result.text for result in together}) > 1


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "not": {"const": "x"}}}, "required": ["a"]}, "/a"),
        ({"type": "object", "properties": {"a": {"type": "string", "x-after": ["b"]}}, "required": ["a"]}, "/b"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null", "x-after": ["b"]}, "b": {"type": "null", "x-after": ["a"]}},
            },
            "/a -> /b -> /a",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?=x).*$"}}, "required": ["a"]},
            r"/a: the pattern '\^\(\?=x\).*' cannot be enforced: look-around.*not supported \(say it in other words",
        ),
        ({"type": "strng"}, "type is 'strng', expected one of string, number"),
        ({"type": "number", "maximum": 1.7976931348623157e308}, "maximum cannot be enforced so far from 0 .leave them"),
        ({"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 3}, "minimum is 9007199254740993, and cannot be"),
        ({"type": "integer", "maximum": -1e20, "minimum": -1e21}, "minimum is -1e.21, and cannot be enforced so far"),
        ({"enum": ["a", {"id": 2**53 + 1}]}, "enum has 9007199254740993, and whole numbers of .*make it a string"),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "const": -(2**63)}}},
            "/a: const has -9223372036854775808",
        ),
        ({"type": "object", "minProperties": 2}, "minProperties asks for 2 keys"),
        (
            {"type": "object", "patternProperties": {"^a": True}, "required": ["b"], "minProperties": 3},
            "asks for 2 keys",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(engine: PilotedEngine, schema: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        make_structured_request(engine, "Who?", schema)


def test_large_numbers_that_can_be_held_are(engine: PilotedEngine) -> None:
    known = {"const": 2**53 + 1}  # put, not decoded
    unsigned = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    schema = {
        "type": "object",
        "properties": {"id": known, "size": unsigned, "step": {"enum": [2**62]}},
        "required": ["id", "size", "step"],
    }
    [result] = run(engine, [make_structured_request(engine, "Who?", schema, at_limit="close", max_tokens=60)])
    assert isinstance(result, StructuredResult)
    jsonschema.validate(result.value, schema)


@pytest.mark.parametrize("seed", range(6))
def test_a_map_has_the_one_key_that_it_must_have(engine: PilotedEngine, seed: int) -> None:
    """Beside those that are required: of two, both might be the same."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": {"type": "boolean"},
        "minProperties": 2,
        "maxProperties": 3,
    }
    request = make_structured_request(
        engine, "Who?", schema, temperature=1.0, seed=seed, max_tokens=60, at_limit="close"
    )
    [result] = run(engine, [request])
    assert isinstance(result, StructuredResult)
    jsonschema.validate(result.value, schema)
