"""A structured request among others: places lost and found again, limits, callers that leave, hostile schemas."""

from __future__ import annotations

import threading
import time
from typing import Any

import jsonschema
import pytest

from pasta.core.params import SamplingParams
from pasta.decoding.api import Stream, generate, run
from pasta.decoding.runner import runner_of
from pasta.errors import PastaError, UsageError
from pasta.structured import SchemaError, StructuredResult, compile_schema, make_program, make_structured_request
from pasta.structured.combinations import check_combinations
from pasta.structured.schema import Document
from support import PilotedEngine, Stepper, tiny_engine

WORD = {"type": "string", "minLength": 4, "maxLength": 8}
CARD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": WORD,
        "b": {"type": "object", "properties": {"c": WORD, "d": {**WORD, "x-after": ["c"]}}},
        "e": {"enum": ["one", "two"]},
        "f": {**WORD, "x-after": ["a"]},
    },
    "required": ["a", "b", "e", "f"],
}


def request_of(engine: PilotedEngine, **options: Any) -> Any:
    return make_structured_request(engine, "A card.", CARD, **{"max_tokens": 500, "temperature": 1.0, **options})


def decode(engine: PilotedEngine, *requests: Any) -> list[StructuredResult]:
    results = run(engine, requests)
    assert engine.pool.free_slots == engine.pool.slots
    return [result for result in results if isinstance(result, StructuredResult)]


def test_a_request_that_loses_its_place_says_the_same() -> None:
    engine = tiny_engine("llama", tags=False)
    [whole] = decode(engine, request_of(engine, seed=3))
    stepper = Stepper(engine)
    state = stepper.submit(request_of(engine, seed=3))
    steps = 0
    while not state.finished:
        stepper.step()
        steps += 1
        if steps % 3 == 0 and not state.finished:
            stepper._preempt(state)
    assert stepper.preemptions > 3
    assert state.result().text == whole.text
    assert engine.pool.free_slots == engine.pool.slots


def test_a_full_pool_keeps_some_waiting_and_changes_nothing() -> None:
    wide, narrow = tiny_engine("llama", tags=False), tiny_engine("llama", tags=False, slots=320)
    seeds = range(6)
    together = decode(wide, *(request_of(wide, seed=seed) for seed in seeds))
    cramped = decode(narrow, *(request_of(narrow, seed=seed) for seed in seeds))
    assert [result.text for result in cramped] == [result.text for result in together]
    assert all(result.complete for result in cramped)


def test_a_pool_that_is_too_small_cuts_and_says_so() -> None:
    engine = tiny_engine("llama", tags=False, slots=96)
    schema = {"type": "object", "properties": {"a": {**WORD, "minLength": 200, "maxLength": 300}}, "required": ["a"]}
    [result] = decode(engine, make_structured_request(engine, "A card.", schema, max_tokens=500))
    assert result.finish_reason == "length" and result.missing and result.value is None


def test_turns_change_when_and_not_what() -> None:
    engine = tiny_engine("llama", tags=False)
    [whole] = decode(engine, request_of(engine, seed=5))
    for width in (1, 2):
        [narrow] = decode(engine, request_of(engine, seed=5, max_threads=width))
        assert narrow.text == whole.text and (narrow.steps > whole.steps or width > 1)
    stepper = Stepper(engine)
    state = stepper.submit(request_of(engine, seed=5))
    steps = 0
    while not state.finished:
        state.interpreter.allot(1 + steps % 3)
        stepper.step()
        steps += 1
    assert state.result().text == whole.text


def test_the_context_ends_a_value_and_says_so() -> None:
    engine = tiny_engine("llama", tags=False, context=60)
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "string", "minLength": 99}}}
    schema["required"] = ["a", "b"]  # type: ignore[assignment]
    [result] = decode(engine, make_structured_request(engine, "A card.", schema, max_tokens=500))
    assert result.finish_reason == "length" and result.missing == ("/b",)
    assert result.fields[0].complete


def test_a_value_with_a_limit_of_its_own_leaves_the_others() -> None:
    engine = tiny_engine("llama", tags=False)
    [result] = decode(engine, request_of(engine, max_thread_tokens=3))
    assert result.finish_reason == "length"
    assert "/a" in result.missing and "/f" in result.missing  # which waits for it
    assert [field.pointer for field in result.fields if field.complete and field.text][-1] == "/e"


NOTES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "size": {"type": "integer", "minimum": 100},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["title", "tags", "size", "place"],
}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("limit", [3, 8])
def test_a_value_that_reaches_its_own_limit_is_closed_where_the_schema_lets_it_end(mode: str, limit: int) -> None:
    engine = tiny_engine("llama", tags=False)
    closed = 0
    for seed in range(6):
        options: dict[str, Any] = {"mode": mode, "max_tokens": 400, "temperature": 1.0, "seed": seed}
        request = make_structured_request(engine, "A note.", NOTES, max_thread_tokens=limit, **options)
        [result] = decode(engine, request)
        assert all(field.tokens <= limit for field in result.fields)
        if result.complete:
            jsonschema.validate(result.value, NOTES)
            assert result.finish_reason == "stop"
        else:
            assert result.finish_reason == "length"
        assert result.to_dict()["closed"] == result.closed
        closed += len(result.closed)
        assert "/size" not in result.closed  # half a number is another number
    assert closed


def test_a_stream_that_is_left_frees_what_it_held() -> None:
    engine = tiny_engine("llama", tags=False)
    with Stream(engine, request_of(engine)) as stream:
        next(stream)
    assert engine.pool.free_slots == engine.pool.slots
    [state] = runner_of(engine).submit([request_of(engine)])
    runner_of(engine).cancel([state])
    assert state.done.wait(300)
    assert engine.pool.free_slots == engine.pool.slots


def test_callers_of_all_kinds_share_the_steps() -> None:
    engine = tiny_engine("llama")
    alone = {seed: decode(engine, request_of(engine, seed=seed))[0].text for seed in range(4)}
    said: dict[int, str] = {}
    plain = generate(engine, "Hello", max_tokens=30).text

    def ask(seed: int) -> None:
        [result] = run(engine, [request_of(engine, seed=seed)])
        said[seed] = result.text

    callers = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    assert generate(engine, "Hello", max_tokens=30).text == plain
    for caller in callers:
        caller.join()
    assert said == alone


def test_masks_go_with_penalties_and_biases() -> None:
    engine = tiny_engine("llama")
    [quote] = engine.vocabulary.encode('"')
    params = SamplingParams(
        temperature=0.8, top_p=0.9, top_k=50, repetition_penalty=1.4, logit_bias=((quote, 30.0),), max_tokens=500
    )
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "minLength": 3}}}
    schema["required"] = ["a", "b"]  # type: ignore[assignment]
    [result] = decode(engine, make_structured_request(engine, "A card.", schema, params))
    jsonschema.validate(result.value, schema)
    assert result.value["a"] == "" and len(result.value["b"]) >= 3  # the bias ends what may end


def test_an_answer_without_choices_takes_no_step() -> None:
    engine = tiny_engine("llama", tags=False)
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": ["x"]}}, "required": ["a", "b"]}
    [result] = decode(engine, make_structured_request(engine, "A card.", schema))
    assert result.value == {"a": 1, "b": "x"} and result.steps == 0 and result.decoded_tokens == 0
    [result] = decode(engine, make_structured_request(engine, "A card.", {"const": [1, 2]}))
    assert result.value == [1, 2]


# -- what cannot be meant, or would take for ever ----------------------------------------------------------------


def nested(depth: int, around: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = {"items": schema} if around == "array" else {"properties": {"a": schema}, "required": ["a"]}
        schema = {"type": around, **inner}
    return schema


LOOP = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def branches(of: int, deeper: str = "") -> dict[str, Any]:
    several = {"anyOf": [{"properties": {f"{of}-{n}": {"type": "string"}}} for n in range(8)]}
    return {"properties": {deeper: several}} if deeper else several


TOWER = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 4} for n in range(8)} | {"8": {"type": "string"}}
HOSTILE: dict[str, tuple[Any, str]] = {
    "combinations": ({"allOf": [branches(n) for n in range(4)]}, "alternatives combine in more than 1000 ways"),
    "combinations below": ({"allOf": [branches(n, "a") for n in range(4)]}, "alternatives combine in more than 1000"),
    "combinations by reference": (
        {"properties": {"a": {"allOf": [{"$ref": "#/$defs/0"}, branches(0)]}}, "$defs": TOWER},
        "combine in more than",
    ),
    "deep arrays": (nested(500, "array"), "deep"),
    "deep objects": (nested(5000, "object"), "deep"),
    "many properties": ({"type": "object", "properties": {f"p{i}": {} for i in range(3000)}}, "properties has 3000"),
    "many parts": ({"anyOf": [{"type": "object", "properties": {"a": {}}}] * 30_000}, "20000 parts"),
    "a huge enum": ({"enum": list(range(10_000))}, "enum has 10000"),
    "a long pattern": ({"type": "string", "pattern": "a" * 5000}, "pattern has 5000"),
    "many intersections": ({"allOf": [{"pattern": f"[a-z]{{{n}}}"} for n in range(40)]}, "allOf has 40"),
    "multiples": ({"type": "integer", "multipleOf": 1_000_003}, "multipleOf"),
    "no end of elements": ({"type": "array", "minItems": 10**9}, "minItems is 1000000000"),
    "a loop of references": (LOOP, "leads back to itself"),
    "a reference elsewhere": ({"$ref": "https://example.com/schema.json"}, "outside the schema"),
    "no JSON": ({"enum": [{1, 2}]}, "set is no JSON"),
}


def test_alternatives_that_do_not_multiply_are_no_combinations() -> None:
    apart = {"type": "object", "properties": {str(n): branches(n) for n in range(8)}}
    circle = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 8}}, "allOf": [{"$ref": "#/$defs/a"}]}
    named = {"allOf": [{"$ref": "#few"}, branches(1), branches(2)], "$defs": {"b": {"$anchor": "few", **branches(0)}}}
    for schema in (apart, circle, named, {"enum": list(range(2000))}):
        check_combinations(schema, Document(schema).resolve)
    with pytest.raises(SchemaError, match="combine"):
        several = {**named, "allOf": [*named["allOf"], {"anyOf": [{"minLength": 1}, {"maxLength": 3}]}]}
        check_combinations(several, Document(several).resolve)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused_in_one_line(name: str) -> None:
    schema, says = HOSTILE[name]
    began = time.thread_time()  # not the clock on the wall: other programs may run
    with pytest.raises(SchemaError, match=says) as caught:
        make_program(tiny_engine("llama", tags=False).vocabulary, schema)
    assert "\n" not in str(caught.value) and time.thread_time() - began < 10


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "null"}, "minItems": 1000},
        {"type": "string", "minLength": 10**6},
        {"type": "string", "pattern": "^(a|aa|a?)*b$"},
        {"type": "string", "pattern": "^(([a-z]{1,100}){1,100}){1,100}$"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}},
    ],
    ids=["minItems", "minLength", "pattern", "nested pattern", "self"],
)
def test_what_has_no_end_is_cut_or_refused(schema: Any) -> None:
    engine = tiny_engine("llama", tags=False)
    try:
        [result] = decode(engine, make_structured_request(engine, "A card.", schema, max_tokens=20))
    except PastaError as error:
        assert "\n" not in str(error) and engine.pool.free_slots == engine.pool.slots
        return
    assert result.decoded_tokens <= 20 and (result.complete or result.finish_reason == "length")


def test_one_of_constants_is_an_enum() -> None:
    engine = tiny_engine("llama", tags=False)
    branches: list[Any] = [{"const": "a", "title": "First"}, {"const": "b", "description": "Second"}, {"const": 3}]
    for schema in (
        {"oneOf": branches},
        {"type": "object", "properties": {"x": {"oneOf": branches}}, "required": ["x"]},
    ):
        [result] = decode(engine, make_structured_request(engine, "A card.", schema, temperature=1.0, max_tokens=50))
        assert (result.value["x"] if "properties" in schema else result.value) in ("a", "b", 3)
    with pytest.raises(SchemaError, match="oneOf whose branches may overlap"):
        make_structured_request(engine, "A card.", {"oneOf": [*branches, {"const": "a"}]})


def test_a_value_that_sees_no_other_sees_its_description() -> None:
    engine = tiny_engine("llama", tags=False)
    town = {"type": "string", "maxLength": 4, "description": "where */ it\nis " + "x" * 300}
    home = {"type": "object", "properties": {"town": town}, "required": ["town"], "description": "lives there"}
    name = {"type": "string", "maxLength": 4, "description": "of the \ud800owner"}
    card = {"type": "object", "properties": {"name": name, "home": home}, "required": ["name", "home"]}
    options: dict[str, Any] = {"max_tokens": 80, "temperature": 1.0}

    def contexts(**how: Any) -> list[str]:
        [result] = decode(engine, make_structured_request(engine, "A card.", card, **options, **how))
        assert result.complete and "/*" not in result.text
        texts = [engine.vocabulary.decode(thread.token_ids) for thread in result.threads if thread.topic]
        return [text.partition(': "')[0] for text in texts]

    assert contexts() == ['{/* of the owner */ "name"', '{/* lives there */ "home": {/* where it is */ "town"']
    first, *_ = contexts(mode="sequential")
    assert first == '{"name"'
    _, waits = contexts(after={"/home": ["name"]})
    assert waits.startswith('{"name"') and "/*" not in waits


def test_recursion_is_followed() -> None:
    engine = tiny_engine("llama", tags=False)
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"leaf": {"type": "boolean"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}},
        "required": ["leaf"],
    }
    assert len(compile_schema(tree).values) < 20
    [quote] = engine.vocabulary.encode("}")
    request = make_structured_request(engine, "A card.", tree, max_tokens=2000, logit_bias=[(quote, 20.0)])
    [result] = decode(engine, request)
    jsonschema.validate(result.value, tree)


def test_stop_strings_and_unknown_modes_are_refused() -> None:
    engine = tiny_engine("llama", tags=False)
    with pytest.raises(UsageError, match="ends its answer by itself"):
        request_of(engine, stop="x")
    with pytest.raises(UsageError, match="unknown mode 'both'"):
        compile_schema(CARD, mode="both")
    with pytest.raises(UsageError, match="int"):
        compile_schema(3)


@pytest.mark.parametrize("at_limit", ["cut", "close"])
def test_an_answer_that_has_no_room_to_begin_is_cut(at_limit: str) -> None:
    """A prompt may fit into the pool and leave less than what the schema puts at once."""
    engine = tiny_engine("llama", tags=False, slots=192)
    ends = set()
    for length in range(160, 192):
        [result] = decode(engine, request_of_length(engine, length, at_limit=at_limit))
        whole = result.finish_reason != "length"
        assert result.complete == whole and not (at_limit == "cut" and whole)
        if whole:
            jsonschema.validate(result.value, CARD)
        ends.add(result.steps)
    assert {0, 1} <= ends  # some had no room at all, and some had


def request_of_length(engine: PilotedEngine, length: int, **options: Any) -> Any:
    return make_structured_request(engine, [97] * length, CARD, max_tokens=500, **options)
