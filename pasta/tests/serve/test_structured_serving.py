"""Answers with a schema and calls of tools, as OpenAI's client asks for them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field
from serve_support import ASK, CHAT, serving, text_of

import pasta
from pasta.core.vocabulary import Vocabulary
from real_tokenizers import real_tokenizer
from support import PilotedEngine, tiny_engine

openai = pytest.importorskip("openai")
MODEL = "tiny-llama"
Short = Annotated[str, Field(min_length=4, max_length=6)]


class Event(BaseModel):
    name: Short
    day: Literal["mon", "tue"]
    guests: Annotated[int, Field(ge=0, le=99)]


SCHEMA = Event.model_json_schema()
FORMAT = {"type": "json_schema", "json_schema": {"name": "event", "schema": SCHEMA, "strict": True}}


def format_of(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def tool(name: str, parameters: Any = SCHEMA) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"To {name}", "parameters": parameters}}


TOOLS = [tool("add"), tool("drop", {"type": "object", "properties": {"day": {"enum": ["mon", "tue"]}}})]
#: Shows tools, and writes calls, in a way of its own.
CALLING = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    '{% for c in m.tool_calls or [] %}@call:{"name": "{{ c.function.name }}", "with": '
    "{{ c.function.arguments | tojson }}}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


# -- schemas ---------------------------------------------------------------------------------------------------


def test_parse_gives_an_object(client):
    answer = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Event, max_tokens=100)
    event = answer.choices[0].message.parsed
    assert isinstance(event, Event)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.threads == 4 and answer.usage.steps < answer.usage.completion_tokens
    assert answer.usage.content_tokens == answer.usage.completion_tokens + answer.usage.forced_tokens
    assert answer.usage.forced_tokens > 0, "the quotes that begin strings"
    assert answer.usage.prompt_tokens > 100, "the model is told the fields"


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 5}], ids=["greedy", "sampled"])
def test_an_answer_and_its_stream_are_the_same(tiny, options):
    body = {"response_format": FORMAT, "max_tokens": 100, **options}
    whole = tiny.chat(**body).json()["choices"][0]["message"]["content"]
    jsonschema.validate(json.loads(whole), SCHEMA)
    chunks = tiny.chunks(**body, pasta={"events": True})
    assert text_of(chunks) == whole
    events = [event for chunk in chunks for event in chunk.get("pasta", {}).get("events", [])]
    assert [event["topic"] for event in events if event["type"] == "fork"] == ["/name", "/day", "/guests"]
    value = json.loads(whole)
    written = {i: "".join(e["text"] for e in events if e["type"] == "delta" and e["thread"] == i) for i in (1, 2, 3)}
    assert [json.loads(text) for text in written.values()] == list(value.values())


def test_the_same_object_as_in_python(tiny):
    content = tiny.chat(response_format=FORMAT, max_tokens=100).json()["choices"][0]["message"]["content"]
    assert json.loads(content) == pasta.extract(tiny.engine, "Why?", SCHEMA, max_tokens=100)
    for mode in ("lead", "sequential"):
        other = tiny.chat(response_format=FORMAT, max_tokens=100, pasta={"mode": mode}).json()
        expected = pasta.extract(tiny.engine, "Why?", SCHEMA, max_tokens=100, mode=mode)
        assert json.loads(other["choices"][0]["message"]["content"]) == expected
    hidden = tiny.chat(response_format=FORMAT, max_tokens=100, pasta={"show_schema": False}).json()
    assert json.loads(hidden["choices"][0]["message"]["content"]) == pasta.extract(
        tiny.engine, "Why?", SCHEMA, max_tokens=100, show=False
    )


def test_the_stream_helper_of_the_client(client):
    with client.chat.completions.stream(
        model=MODEL, messages=ASK, response_format=Event, max_completion_tokens=100
    ) as stream:
        kinds = {event.type for event in stream}
    final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Event)
    assert {"chunk", "content.delta", "content.done"} <= kinds


def test_a_limit_is_told_as_the_client_expects(client):
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Event, max_tokens=3)


def test_a_limit_closes_where_that_is_asked_for(client):
    asked = {"model": MODEL, "max_tokens": 3, "extra_body": {"pasta": {"at_limit": "close"}}}
    answer = client.chat.completions.parse(**asked, messages=ASK, response_format=Event).choices[0]
    assert isinstance(answer.message.parsed, Event) and answer.finish_reason == "stop"
    assert answer.pasta["closed"] and set(answer.pasta["closed"]) <= {"/name", "/day", "/guests"}


def test_any_object(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK, response_format={"type": "json_object"}, max_tokens=60, temperature=1.5, n=3, seed=1
    )
    assert len(answer.choices) == 3
    for choice in answer.choices:
        assert choice.message.content.startswith("{")
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.message.content), dict)


def test_of_any_object_the_model_is_told_nothing(tiny):
    plain = tiny.chat(max_tokens=1).json()["usage"]["prompt_tokens"]
    schema = {"type": "object"}
    for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x"}}, format_of(schema)):
        assert tiny.chat(response_format=form, max_tokens=1).json()["usage"]["prompt_tokens"] == plain


def test_responses(client):
    answer = client.responses.parse(model=MODEL, input="Why?", text_format=Event, max_output_tokens=100)
    assert isinstance(answer.output_parsed, Event)
    assert answer.text.format.type == "json_schema" and answer.text.format.name == "Event"
    told = client.responses.create(
        model=MODEL, input="Why?", text={"format": {"type": "json_object"}}, max_output_tokens=5, stream=True
    )
    deltas = "".join(event.delta for event in told if event.type == "response.output_text.delta")
    assert deltas.startswith("{")


# -- tools -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [True, False], ids=["several are allowed", "one is allowed"])
def test_a_named_tool(client, several):
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK, tools=TOOLS, max_tokens=100, parallel_tool_calls=several,
        tool_choice={"type": "function", "function": {"name": "add"}},
    )  # fmt: skip
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert call.function.name == "add" and call.type == "function" and call.id.startswith("call_")
    Event.model_validate_json(call.function.arguments)
    assert answer.usage.threads == 4


def test_what_leaves_the_model_no_choice_is_answered_also_after_others(tiny):
    assert tiny.chat(max_tokens=3).status_code == 200  # turns were given for the last time
    fixed = {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"], "additionalProperties": False}
    answer = tiny.chat(response_format=format_of(fixed)).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"a": 5}
    bare = {"type": "function", "function": {"name": "now"}}
    none = {"type": "object", "properties": {}}
    unsaid = (tool("now", {}), tool("now", {"type": "object"}))
    for each in (bare, *unsaid, tool("now", none), tool("now", {**none, "required": [], "title": "Now"})):
        answer = tiny.chat(tools=[each], tool_choice="required").json()
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}


def test_a_tool_that_says_that_it_takes_any_arguments_is_given_some(tiny):
    free = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}, "minProperties": 1}
    answer = tiny.chat(tools=[tool("put", free)], tool_choice="required", max_tokens=60).json()
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] not in ("", "{}")


@pytest.mark.parametrize("seed", range(4))
def test_a_required_tool_is_one_of_them(client, seed):
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK, tools=TOOLS, tool_choice="required", max_tokens=100, temperature=1.0, seed=seed, n=2
    )
    for choice in answer.choices:
        (call,) = choice.message.tool_calls
        (schema,) = (t["function"]["parameters"] for t in TOOLS if t["function"]["name"] == call.function.name)
        jsonschema.validate(json.loads(call.function.arguments), schema)
    assert answer.choices[0].message.tool_calls[0].id != answer.choices[1].message.tool_calls[0].id


def test_a_call_and_its_stream_are_the_same(client):
    ask = {"model": MODEL, "messages": ASK, "tools": TOOLS, "tool_choice": "required", "max_tokens": 100}
    (call,) = client.chat.completions.create(**ask).choices[0].message.tool_calls
    with client.chat.completions.stream(**{k: v for k, v in ask.items() if k != "tools"}, tools=_strict()) as stream:
        kinds = [event.type for event in stream]
    final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls" and "tool_calls.function.arguments.delta" in kinds
    assert final.message.tool_calls[0].function.name in ("add", "drop")
    deltas = [
        delta
        for chunk in client.chat.completions.create(**ask, stream=True)
        for delta in chunk.choices[0].delta.tool_calls or ()
    ]
    assert deltas[0].function.name == call.function.name and deltas[0].id
    assert all(delta.index == 0 and delta.id is None and delta.function.name is None for delta in deltas[1:])
    assert "".join(delta.function.arguments for delta in deltas) == call.function.arguments


def _strict() -> list[dict[str, Any]]:
    return [{**one, "function": {**one["function"], "strict": False}} for one in TOOLS]


def test_optional_arguments_wait_for_the_others_unless_asked(tiny):
    loose = {"type": "object", "properties": {f"a{n}": {"type": "boolean"} for n in range(8)}}

    def call(**extension: str) -> str:
        ask = {"tools": [tool("add", loose)], "tool_choice": "required", "temperature": 1.0, "seed": 3}
        answer = tiny.chat(**ask, max_tokens=100, pasta=extension).json()
        return answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]

    assert call() == call(mode="leftover") != call(mode="parallel")


def test_a_call_that_is_cut_is_announced_all_the_same(tiny):
    chunks = tiny.chunks(tools=TOOLS[:1], tool_choice="required", max_tokens=1)
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "add" and chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_no_tool_is_called_where_none_may(tiny):
    """The tools are told, and the text is what the model makes of them."""
    answer = tiny.chat(tools=TOOLS, tool_choice="none", max_tokens=10).json()
    assert answer["choices"][0]["message"]["content"] and "tool_calls" not in answer["choices"][0]["message"]
    assert answer["usage"]["prompt_tokens"] > 300


@pytest.mark.parametrize("template", [None, CALLING], ids=["without", "with"])
def test_auto_follows_how_the_answer_begins(template):
    """Where the model begins as calls are written, it calls; else it is a text, the same as without tools to call."""
    engine = tiny_engine(slots=16384)
    if template is not None:
        engine.vocabulary.tokenizer.chat_template = template
    with serving(engine) as running:
        body = {"tools": TOOLS, "max_tokens": 100}
        text, answer = (running.chat(**body, tool_choice=how).json()["choices"][0] for how in ("none", "auto"))
        assert text == answer and text["message"]["content"]
        assert text_of(running.chunks(**body)) == text["message"]["content"]
        calls = ['{"name": "', '```json\n{\n "name":', '\n{ "name" : ']
        texts = ['{"answer": ', "```python\nname = 3", "``` {", "name", "{}"]
        for begins in [*calls, *texts, *(["@call:", "@"] if template else [])]:
            play(engine, begins)
            answer = running.chat(tools=TOOLS[:1], max_tokens=100).json()["choices"][0]
            called = answer["finish_reason"] == "tool_calls"
            assert called == (begins in calls or begins[0] == "@"), begins
            if called:
                Event.model_validate_json(answer["message"]["tool_calls"][0]["function"]["arguments"])
            else:
                assert answer["message"]["content"].startswith(begins)


def play(engine: PilotedEngine, begins: str) -> None:
    """The model begins its answers so, and goes on as it likes."""
    tokens = dict(enumerate(engine.vocabulary.encode(begins)))
    engine.pilot = lambda path, index: tokens.get(index) if not path else None


def test_a_call_is_written_as_the_template_writes_it():
    engine = tiny_engine(slots=16384)
    engine.vocabulary.tokenizer.chat_template = CALLING
    prompts: list[str] = []
    opened = engine.open

    def record(prompt: Any, *more: Any) -> Any:
        prompts.append(engine.vocabulary.decode(prompt))
        return opened(prompt, *more)

    engine.open = record  # type: ignore[method-assign]
    with serving(engine) as running:
        call = running.chat(tools=TOOLS, tool_choice="required", max_tokens=100).json()["choices"][0]["message"]
    name = call["tool_calls"][0]["function"]["name"]
    # The space before a value belongs to the token that the model writes next.
    assert prompts[0].endswith('assistant\n@call:{"name":')
    assert prompts[1].endswith(f'assistant\n@call:{{"name": "{name}", "with":')
    assert "To drop" in prompts[0]


@pytest.mark.slow
@pytest.mark.network
def test_qwen_calls_as_it_was_taught():
    vocabulary = Vocabulary(real_tokenizer("qwen"))
    before, between = vocabulary.opening_of_a_call(ASK, TOOLS)
    assert (before, between) == ('<tool_call>\n{"name": ', ', "arguments": ')
    first = vocabulary.encode_opening(before)[0]
    assert vocabulary.tokenizer.convert_ids_to_tokens(first) == "<tool_call>"


def test_a_schema_beside_tools():
    """An answer in JSON begins as a call does, unless the template writes calls in another way."""
    engine = tiny_engine(slots=16384)
    with serving(engine) as running:
        body = {"tools": TOOLS, "response_format": FORMAT, "max_tokens": 100}
        refusal = running.chat(**body)
        assert refusal.status_code == 400 and refusal.json()["error"]["param"] == "response_format"
        assert running.chat(**body, tool_choice="required").status_code == 200
        engine.vocabulary.tokenizer.chat_template = CALLING
    with serving(engine) as running:
        Event.model_validate_json(running.chat(**body).json()["choices"][0]["message"]["content"])


def test_histories_with_calls_go_on():
    engine = tiny_engine(slots=16384)
    engine.vocabulary.tokenizer.chat_template = CALLING
    with serving(engine) as running, openai.OpenAI(base_url=f"{running.url}/v1", api_key="x") as client:
        ask: dict[str, Any] = {"model": MODEL, "tools": TOOLS, "max_tokens": 60, "tool_choice": "required"}
        message = client.chat.completions.create(messages=ASK, **ask).choices[0].message
        again = [*ASK, message, {"role": "user", "content": "Again."}]
        assert client.chat.completions.create(messages=again, **ask).choices[0].message.tool_calls


# -- what clients may send -------------------------------------------------------------------------------------

DEEP: dict[str, Any] = {"type": "string"}
for _ in range(12):
    DEEP = {"type": "object", "properties": {"a": DEEP}, "required": ["a"]}
DEEPER = {"type": "object", "properties": {"a": DEEP}}
for _ in range(8):
    DEEPER = {"type": "object", "properties": {"a": DEEPER}}


@pytest.mark.parametrize(
    ("schema", "saying"),
    [
        ({"type": "strng"}, "strng"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]}, "/a"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}, "required": ["a"]}, "/a"),
        ({"type": "object", "properties": {"a": {"x-after": ["b"], "type": "null"}}}, "/b is no field"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "schema"),
        ({"not": {}}, "not"),
        ({"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}, "/a"),
        (DEEPER, "32 levels"),
        ({"enum": ["x" * 200_000]}, "bytes long"),
        ({"enum": [float("nan")]}, "not JSON compliant"),
        ({"description": "\ud800"}, "surrogates"),
    ],
    ids=["type", "pattern", "ref", "after", "lengths", "not", "enum", "deep", "long", "nan", "surrogate"],
)
def test_bad_schemas_are_named(tiny, schema, saying):
    for fields in (
        {"response_format": format_of(schema)},
        {"tools": [tool("f", schema)]},
    ):
        body = json.dumps({"messages": ASK, "max_tokens": 5, **fields})
        response = tiny.http.post(CHAT, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert saying in error["message"]
        if "levels" not in saying:
            place = "tools[0].function.parameters" if "tools" in fields else "response_format.json_schema.schema"
            assert error["param"].startswith(place), error


def test_hostile_schemas_hold_nobody_up(tiny):
    """While large schemas are compiled, others are answered: many times as many as there are pauses between them."""
    for attempt in range(5):  # on a busy machine the others may be slow; where they are held up, they never get there
        wide = {f"{attempt}_{index}": {"type": "string", "pattern": "(a|b)*c{1,9}"} for index in range(2000)}
        hostile = [
            {"type": "object", "properties": wide, "required": [*wide]},
            {"type": "array", "items": {"type": "string"}, "minItems": 10**6 + attempt},
            {"type": "string", "pattern": "(((a{1,99}){1,99}){1,99}){1,99}" + "b" * attempt},
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}}},
        ]
        formats = [{"type": "json_schema", "json_schema": {"name": "x", "schema": schema}} for schema in hostile]
        with ThreadPoolExecutor(len(hostile)) as pool:
            asked = [pool.submit(tiny.chat, max_tokens=5, response_format=each) for each in formats]
            others = 0
            while not all(one.done() for one in asked):
                assert tiny.http.get("/health").status_code == 200
                others += 1
            answers = [one.result() for one in asked]
        if others > 3 * len(hostile):
            break
    assert others > 3 * len(hostile)
    for answer in answers:
        assert answer.status_code in (200, 400), answer.text
