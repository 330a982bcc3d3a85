"""`pasta.extract`: objects of a type, batches, fields as they are done, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

import pasta
from pasta.structured.extract import Incomplete, Invalid
from pasta.structured.instructions import list_fields, show_schema, show_tools, without_system
from support import tiny_engine

Short = Annotated[str, Field(min_length=4, max_length=6)]


class Place(BaseModel):
    city: Short
    zip_code: Annotated[int, Field(ge=0, le=99)]


class Person(BaseModel):
    name: Short
    mood: Literal["good", "bad"]
    kind: Literal["person"] = "person"
    home: Place


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2, 3]}, "c": {"type": "boolean"}},
    "required": ["a", "b"],
}

ENDLESS: dict = {}
ENDLESS["properties"] = {"a": ENDLESS}


@pytest.fixture(scope="module")
def engine():
    return tiny_engine(slots=16384)


def test_an_object_of_a_type(engine):
    person = pasta.extract(engine, "Ada lives in London.", Person, max_tokens=200)
    assert isinstance(person, Person) and person.mood in ("good", "bad") and len(person.home.city) <= 6


def test_a_plain_schema_gives_what_json_gives(engine):
    value = pasta.extract(engine, "Yes or no?", SCHEMA)
    assert isinstance(value["a"], bool) and value["b"] in (1, 2, 3)


def test_types_that_are_no_models(engine):
    assert pasta.extract(engine, "Which?", Literal["x", "y"]) in ("x", "y")


def test_a_batch_is_its_prompts_one_by_one(engine):
    prompts = ["Ada lives in London.", "Bob.", "Nobody at all."]
    together = pasta.extract(engine, prompts, Person, max_tokens=200)
    assert together == [pasta.extract(engine, prompt, Person, max_tokens=200) for prompt in prompts]


def test_tasks_share_the_steps(engine):
    async def ask() -> list[Any]:
        prompts = ["Ada lives in London.", "Bob.", "Nobody at all."]
        cancelled = asyncio.ensure_future(pasta.aextract(engine, "Never.", Person, max_tokens=200))
        await asyncio.sleep(0)
        cancelled.cancel()
        return await asyncio.gather(*(pasta.aextract(engine, prompt, Person, max_tokens=200) for prompt in prompts))

    first, *_ = asyncio.run(ask())
    assert first == pasta.extract(engine, "Ada lives in London.", Person, max_tokens=200)


@pytest.mark.parametrize("options", [{"n": 2}, {"logprobs": 1}, {"stop": "x"}, {"max_tokenz": 3}], ids=str)
def test_what_an_object_cannot_have_is_named(engine, options):
    with pytest.raises(pasta.PastaError, match=next(iter(options))):
        pasta.extract(engine, "How?", Person, **options)


def test_fields_come_as_they_are_done(engine):
    answer = pasta.extract_stream(engine, "Ada lives in London.", Person, max_tokens=200)
    fields = {field.pointer: field for field in answer}
    assert set(fields) == {"/name", "/mood", "/kind", "/home/city", "/home/zip_code"}
    assert answer.value == pasta.extract(engine, "Ada lives in London.", Person, max_tokens=200)
    assert {pointer: field.value for pointer, field in fields.items()} == {
        field.pointer: field.value for field in answer.result.fields
    }
    assert answer.result.steps < answer.result.decoded_tokens and len(answer.result.threads) > 3
    assert json.loads(answer.result.text) == answer.value.model_dump(exclude_unset=True)


def test_an_object_that_may_be_missing(engine):
    class Guest(BaseModel):
        name: Short
        home: Place | None = None
        work: Place | None = None

    for seed in range(6):
        answer = pasta.extract_stream(engine, "Ada.", Guest, max_tokens=200, temperature=1.0, seed=seed)
        told = {field.pointer: (field.text, field.value) for field in answer}
        assert told == {field.pointer: (field.text, field.value) for field in answer.result.fields}
        assert isinstance(answer.value, Guest)


def test_optional_fields_that_are_left_out_are_none(engine):
    answer = pasta.extract_stream(engine, "Yes or no?", SCHEMA)
    told = {field.pointer: field.text for field in answer}
    assert (told["/c"] is None) == ("c" not in answer.value)


def test_a_stream_may_be_left(engine):
    with pasta.extract_stream(engine, "Ada lives in London.", Person, max_tokens=200) as answer:
        next(iter(answer.steps))
    assert engine.pool.free_slots == engine.pool.slots


def test_modes_and_dependence(engine):
    text = "Ada lives in London."
    alone, waiting, sequential = (
        pasta.extract_stream(engine, text, Person, max_tokens=200, **how).result
        for how in ({}, {"after": {"home": ["name"]}}, {"mode": "sequential"})
    )
    named = pasta.extract_stream(engine, text, Person, max_tokens=200, after={"home": "name"}).result
    assert named.critical_path == waiting.critical_path
    assert alone.critical_path < waiting.critical_path < sequential.critical_path
    with pytest.raises(pasta.PastaError, match="unknown mode 'fast'"):
        pasta.extract(engine, text, Person, mode="fast")
    with pytest.raises(pasta.PastaError, match="/age is no field"):
        pasta.extract(engine, text, Person, after={"mood": ["age"]})


@pytest.mark.parametrize(
    "after", [5, "home", [("home", "name")], {"home": 5}, {"home": [5]}, {5: ["name"]}, {"home": None}]
)
def test_who_waits_for_whom_is_said_by_names(engine, after):
    with pytest.raises(pasta.PastaError, match=r"after (is|has) .*, expected"):
        pasta.extract(engine, "Ada.", Person, after=after)


def test_a_stream_is_of_one_object(engine):
    with pytest.raises(pasta.PastaError, match="extract_stream takes one prompt, and this is a list of 2"):
        pasta.extract_stream(engine, ["Ada.", "Bob."], Person)


def test_what_never_ends_is_told_as_such(engine):
    endless = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]}
    with pytest.raises(pasta.PastaError, match=r"has no end .what always holds another of its own kind never ends"):
        pasta.extract(engine, "A tree.", endless)


def test_a_limit_that_cuts_is_an_error(engine):
    with pytest.raises(Incomplete, match=r"/home.* missing .raise max_tokens") as cut:
        pasta.extract(engine, "Ada lives in London.", Person, max_tokens=5)
    assert cut.value.result.finish_reason == "length"


def test_checks_that_no_schema_says(engine):
    class Odd(BaseModel):
        mood: Literal["good", "bad"]

        @field_validator("mood")
        @classmethod
        def never(cls, value: str) -> str:
            raise ValueError("not in the mood")

    with pytest.raises(Invalid, match="not in the mood"):
        pasta.extract(engine, "How?", Odd)


@pytest.mark.parametrize("schema", [3, "person.json", '{"type": "integer"}'])
def test_what_is_no_schema_is_named(engine, schema):
    with pytest.raises(pasta.PastaError, match=r"3|person\.json|integer.*json\.loads"):
        pasta.extract(engine, "How?", schema)


@pytest.mark.parametrize("schema", [{"const": b"a"}, ENDLESS])
def test_what_is_no_json_is_refused_before_it_is_told(engine, schema):
    with pytest.raises(pasta.PastaError, match="the schema at /"):
        pasta.extract(engine, "How?", schema)


def test_what_is_no_prompt_is_named(engine):
    with pytest.raises(pasta.PastaError, match="the prompt is 5"):
        pasta.extract(engine, 5, {"type": "integer"})


def test_the_model_is_told_the_schema(engine):
    shown = pasta.extract_stream(engine, "How?", Person, max_tokens=200).result.prompt_ids
    text = engine.vocabulary.decode(shown)
    assert "- home.zip_code (integer)<" in text and text.index("zip_code") < text.index("How?")
    assert '- mood ("good" or "bad")' in text
    hidden = pasta.extract_stream(engine, "How?", Person, show=False, max_tokens=200).result.prompt_ids
    assert "zip_code" not in engine.vocabulary.decode(hidden)
    raw = pasta.extract_stream(engine, "How?", Person, raw=True, max_tokens=200).result.prompt_ids
    assert engine.vocabulary.decode(raw).endswith("How?")


def test_a_template_without_a_system_message():
    engine = tiny_engine(slots=4096)
    template = engine.vocabulary.tokenizer.chat_template
    refuse = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    engine.vocabulary.tokenizer.chat_template = refuse + template
    ids = pasta.extract_stream(engine, "How?", SCHEMA).result.prompt_ids
    text = engine.vocabulary.decode(ids)
    assert "has these fields" in text and text.index("fields") < text.index("How?")


def test_instructions():
    ask = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    told = show_schema(ask, {"title": "T", "properties": {"title": {"type": "string", "description": "as printed"}}})
    assert told[0]["content"] == "Be brief.\n\nAnswer with JSON that has these fields:\n- title (string): as printed"
    told = show_schema(ask, {"title": "T", "properties": {"title": {"type": "array", "title": "Title"}}})
    assert told[0]["content"].endswith('follows this schema:\n{"properties": {"title": {"type": "array"}}}')
    assert ask[0]["content"] == "Be brief."
    assert '{"name": "f"}\n' in show_tools(ask[1:], [{"name": "f"}])[0]["content"]
    assert without_system(ask) == [{"role": "user", "content": "Be brief.\n\nHi"}]
    assert without_system(ask[1:]) == ask[1:]


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"enum": [1]},
        {"properties": {}},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": "array"}}},
        {"properties": {"a": {"type": ["string", "null"]}}},
        {"properties": {"a": {"type": "string", "pattern": "x"}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}]}}},
        {"properties": {"a": {"$ref": "#/elsewhere/b"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"properties": {"c": {"$ref": "#/$defs/b"}}}}},
        {"properties": {"a": {"type": "string"}}, "minProperties": 1},
    ],
    ids=str,
)
def test_what_is_more_than_fields_is_told_as_the_schema_says_it(schema):
    assert list_fields(schema) is None


def test_the_package_alone_imports_no_torch():
    code = "import sys, pasta.lang, pasta; assert 'torch' not in sys.modules and 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
