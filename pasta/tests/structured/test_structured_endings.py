"""What a limit leaves unfinished is completed by the shortest text that is valid, and only where that was asked for."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest

from pasta.decoding.api import run
from pasta.errors import UsageError
from pasta.structured import StructuredResult, make_structured_request
from pasta.structured.endings import plain_ending, shortest_ending
from pasta.structured.extract import extract, extract_stream
from pasta.structured.matcher import STYLE
from pasta.structured.samples import sample
from support import Stepper, tiny_engine

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"born": {"type": "string", "format": "date"}, "kind": {"enum": ["red", "green"]}},
    "required": ["born", "kind"],
    "additionalProperties": False,
}
LINKED: dict[str, Any] = {
    "$ref": "#/$defs/link",
    "$defs": {
        "link": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]}},
            "required": ["v", "next"],
        }
    },
}
STRINGS = {"type": "array", "items": {"type": "string"}}
MAIL = {"type": "string", "pattern": r"^[a-z]+@[a-z]+\.com$"}


def is_valid(value: Any, schema: Any) -> bool:
    checker = jsonschema.Draft202012Validator
    return bool(checker(schema, format_checker=checker.FORMAT_CHECKER).is_valid(value))


@pytest.mark.parametrize(
    ("said", "schema", "shortest", "plain"),
    [
        ('"ab', {"type": "string"}, '"', '"'),
        ('"ab\\', {"type": "string"}, '""', '""'),  # a backslash takes the first quote with it
        ('["a", "b', STRINGS, '"]', '"]'),
        ('[["a"', {"type": "array", "items": {"type": "array"}}, "]]", "]]"),
        ("[", STRINGS, "]", "]"),
        ('{"k": "v', {"type": "object"}, '"}', '"}'),
        ("[true", {"type": "array"}, "]", "]"),
        ('["12', {"type": "array"}, '"]', '"]'),
        # A number that may go on is another one then.
        ("12", {"type": "integer"}, "", None),
        ("[1, 12", {"type": "array", "items": {"type": "integer"}}, "]", None),
        ("-", {"type": "integer"}, "0", None),
        ("3.", {"type": "number"}, "0", None),
        ("2e", {"type": "number"}, "0", None),
        ("1", {"type": "integer", "minimum": 100, "multipleOf": 7}, "05", None),
        ("0.", {"type": "number", "minimum": 0.5, "maximum": 0.75}, "5", None),
        # What more must come is made up.
        ('["a", ', STRINGS, '""]', None),
        ('["a"', {"type": "array", "minItems": 2, "items": {"type": "boolean"}, "prefixItems": [{}]}, ", true]", None),
        ('"ab', {"type": "string", "minLength": 4}, '11"', None),
        ('"ab', MAIL, '@a.com"', None),
        ('"gr', {"enum": ["red", "green", "grey"]}, 'ey"', None),
        ("t", {"type": "boolean"}, "rue", None),
        ('"20', {"type": "string", "format": "date-time"}, '11-11-11T11:11:11Z"', None),
        ('"4', {"type": "string", "format": "uuid"}, '1111111-1111-1111-1111-111111111111"', None),
        ('"x', {"type": "string", "format": "email"}, '@1"', None),
        ('"x', {"type": "string", "pattern": "^x.{4,}[!?]$"}, 'aaaa!"', None),
        ('"11-', {"type": "string", "pattern": "^[0-9]+-[0-9]+-[0-9]+$"}, '1-1"', None),
        ('"a:b:', {"type": "string", "pattern": "^[a-z-]+:[a-z.-]+:([a-z-]+)?:[a-z-]+:[0-9]+$"}, ':a:1"', None),
        ('"resp', {"type": "string", "pattern": "response"}, 'onse"', None),  # anywhere in the text
        ('".lettersletters', {"type": "string", "pattern": r"^[a-z.]+\.[a-z.]{2,6}$"}, '.aa"', None),
        ('{"bo', PERSON, 'rn": "1111-11-11", "kind": "red"}', None),
        ('{"v": 1, "next": {"v"', LINKED, ': 1, "next": null}}', None),
        ('{"x-a": t', {"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}}, "rue}", None),
    ],
)
def test_what_ends_a_value(said: str, schema: Any, shortest: str, plain: str | None) -> None:
    ending = shortest_ending(schema, said.encode(), STYLE)
    assert ending == shortest.encode()
    assert is_valid(json.loads(said + shortest), schema)
    assert plain_ending(schema, said.encode(), STYLE) == (None if plain is None else plain.encode())


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "^a+b*c?$",
        "[^a-z]x",
        r"^\d{3}-(?:ab|c)\w\s$",
        "^(https?://)?[^\\s/]+\\.com",
        "x|yy",
        "^.{2,5}?!",
        "[^\\w]",
        "[]a]{2,}+[^]a]",
        r"(?P<n>ab|)c(?=d)d|xxx",
        r"\b\x41\u0042\.[\]x]z*?",
        "{x}a{,3}b",
    ],
)
def test_a_sample_matches_its_pattern(pattern: str) -> None:
    text = sample(pattern)
    assert text is not None and re.search(pattern, text)
    assert sample("(") is None
    assert sample(r"(a)\1") is None


def test_a_character_that_is_cut_in_two_is_completed() -> None:
    written = '"€'.encode()[:-1]
    ending = shortest_ending({"type": "string"}, written, STYLE)
    assert ending is not None and isinstance(json.loads((written + ending).decode()), str)
    assert plain_ending({"type": "string"}, written, STYLE) is None


def test_many_elements_and_long_texts_are_found_in_few_tries() -> None:
    for schema in ({"type": "array", "items": PERSON, "minItems": 40}, {"type": "string", "minLength": 900}):
        ending = shortest_ending(schema, b"", STYLE)
        assert ending is not None and is_valid(json.loads(ending), schema)


def test_where_no_value_is_possible_nothing_is_found() -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}}
    assert shortest_ending(endless, b"[[", STYLE) is None
    assert shortest_ending({"type": "string"}, b"[", STYLE) is None  # nothing that the schema allows


PEOPLE = [{"born": "2024-05-06", "kind": "red"}, {"born": "1999-12-31", "kind": "green"}]
VALUES = [
    (PEOPLE, {"type": "array", "items": PERSON, "minItems": 2}),
    ({"v": -12, "next": {"v": 5, "next": None}}, LINKED),
    ("abc@example.com", MAIL),
    ({"a": [1.5e-3, 'x\ny"ü', None, {"b": False}]}, {"type": "object"}),
    ("2024-02-29T23:59:59.5+01:00", {"type": "string", "format": "date-time"}),
    ("9f0e8d7c-1111-4222-8333-444455556666", {"type": "string", "format": "uuid"}),
    (-1234, {"type": "integer", "multipleOf": 2}),
]


@pytest.mark.parametrize(("value", "schema"), VALUES)
def test_a_value_is_completed_from_any_byte(value: Any, schema: Any) -> None:
    written = json.dumps(value, ensure_ascii=False).encode()
    for length in range(len(written) + 1):
        ending = shortest_ending(schema, written[:length], STYLE)
        assert ending is not None, written[:length]
        assert is_valid(json.loads((written[:length] + ending).decode()), schema), (written[:length], ending)


# -- in an answer ------------------------------------------------------------------------------------------------

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 30},
        "price": {"type": "number"},
        "mail": MAIL,
        "people": {"type": "array", "items": PERSON, "minItems": 2},
        "note": {"type": "string"},
        "size": {"type": "integer", "minimum": 100, "x-after": ["kind"]},
        "kind": {"enum": ["alpha", "beta"], "x-after": ["note"]},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "maybe": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
    "required": ["text", "price", "mail", "people", "size", "kind", "place"],
}


def ask(engine: Any, **options: Any) -> StructuredResult:
    request = make_structured_request(engine, "An order.", ORDER, at_limit="close", temperature=1.0, **options)
    [result] = run(engine, [request])
    assert isinstance(result, StructuredResult) and engine.pool.free_slots == engine.pool.slots
    assert result.complete and result.finish_reason == "stop" and is_valid(result.value, ORDER), result.text
    assert json.loads(result.text) == result.value
    return result


LIMITS = [{"max_tokens": 1}, {"max_tokens": 25}, {"max_thread_tokens": 3}, {"max_threads": 2, "max_tokens": 9}]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("limits", LIMITS)
def test_an_answer_is_whole_whatever_its_limits(mode: str, limits: dict[str, int]) -> None:
    engine = tiny_engine("llama", tags=False)
    for seed in range(4):
        result = ask(engine, mode=mode, seed=seed, **{"max_tokens": 400, **limits})
        assert sum(field.tokens for field in result.fields) <= limits.get("max_tokens", 400)
        assert all(field.tokens <= limits.get("max_thread_tokens", 400) for field in result.fields)
        assert result.closed and {field.pointer for field in result.fields if field.closed} == set(result.closed)


def test_other_values_stay_as_they_are() -> None:
    """What was done before the limit is kept, wherever it is read."""
    engine = tiny_engine("llama", tags=False)
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 500}, "b": {"type": "boolean"}}}
    schema = {**schema, "required": ["a", "b"]}
    [result] = run(engine, [make_structured_request(engine, "?", schema, at_limit="close", max_tokens=40)])
    assert isinstance(result, StructuredResult) and result.closed == ("/a",) and is_valid(result.value, schema)


def test_the_context_and_a_small_pool_close_too() -> None:
    assert ask(tiny_engine("llama", tags=False, context=50), max_tokens=400).closed
    assert ask(tiny_engine("llama", tags=False, slots=96), max_tokens=400).closed


def test_one_value_that_is_the_whole_answer_is_closed() -> None:
    engine = tiny_engine("llama", tags=False)
    for schema in ({"type": "array", "items": PERSON, "minItems": 3}, MAIL, {"type": "number"}, LINKED):
        for seed in range(3):
            options: dict[str, Any] = {"temperature": 1.0, "seed": seed, "max_tokens": 5}
            assert is_valid(extract(engine, "?", schema, at_limit="close", **options), schema)


def test_a_request_that_loses_its_place_is_closed_all_the_same() -> None:
    engine = tiny_engine("llama", tags=False)
    whole = ask(engine, seed=3, max_tokens=60)
    stepper = Stepper(engine)
    options: dict[str, Any] = {"temperature": 1.0, "seed": 3, "max_tokens": 60}
    state = stepper.submit(make_structured_request(engine, "An order.", ORDER, at_limit="close", **options))
    while not state.finished:
        stepper.step()
        if random.Random(state.record.steps).random() < 0.3 and not state.finished:
            stepper._preempt(state)
    assert state.result().text == whole.text


def test_a_stream_marks_what_was_closed() -> None:
    engine = tiny_engine("llama", tags=False)
    with extract_stream(engine, "An order.", ORDER, at_limit="close", max_tokens=12) as answer:
        fields = {field.pointer: field for field in answer}
        assert {pointer for pointer, field in fields.items() if field.closed} == set(answer.result.closed)
        assert is_valid(answer.value, ORDER)


NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "number"},
        "integer": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
        "least": {"const": 10**30},
        "text": {"type": "string", "pattern": "^[0-9]{40}$"},
    },
    "required": ["number", "integer", "list", "least", "text"],
}


def test_a_number_has_no_more_digits_than_a_program_can_hold() -> None:
    """Unless the schema asks for them: a model that only ever wants digits is held to it by the mask."""
    engine = tiny_engine("llama", tags=False)
    vocabulary = engine.vocabulary
    digits = [token for token in range(vocabulary.size) if vocabulary.octets[token].isdigit()]
    bias = [(token, 50.0) for token in digits]
    for seed in range(4):
        options: dict[str, Any] = {"temperature": 1.0, "seed": seed, "max_tokens": 900, "logit_bias": bias}
        [result] = run(engine, [make_structured_request(engine, "?", NUMBERS, **options)])
        assert isinstance(result, StructuredResult) and result.complete and is_valid(result.value, NUMBERS)
        number, integer, *listed, least, text = (str(field.text) for field in result.fields)
        longest = 24 + max(len(vocabulary.octets[token]) for token in digits)
        assert max(len(number), len(integer)) >= 24 and len(number) <= longest and len(integer) <= longest
        assert all(len(str(each)) <= longest for each in result.value["list"]) and listed
        assert len(least) >= 31 and len(text) == 42


def test_at_limit_is_one_of_two() -> None:
    with pytest.raises(UsageError, match=r"unknown at_limit 'shut' .use one of cut, close"):
        extract(tiny_engine("llama", tags=False), "?", MAIL, at_limit="shut")
