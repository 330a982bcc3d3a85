"""What OpenAI's API says beyond plain text: logprobs, biases, tools in histories, and `/v1/responses`."""

import json
import math

import pytest
from serve_support import ASK, CHAT, FORKING, TEXT, serving

from pasta.decoding.api import generate
from pasta.serve.logprobs import in_order
from support import byte_tokenizer, tiny_engine

openai = pytest.importorskip("openai")
MODEL = "tiny-llama"


# -- logprobs -------------------------------------------------------------------------------------------------


def test_logprobs_of_a_chat(tiny, client):
    answer = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=12, logprobs=True, top_logprobs=3)
    (choice,) = answer.choices
    (thread,) = generate(tiny.engine, "Why?", max_tokens=12, logprobs=3).threads
    told = choice.logprobs.content
    assert [entry.logprob for entry in told] == pytest.approx([one.logprob for one in thread.logprobs])
    assert all(len(entry.top_logprobs) == 3 for entry in told)
    assert told[0].top_logprobs[0].logprob == pytest.approx(max(value for _, value in thread.logprobs[0].top))
    assert all(bytes(entry.bytes).decode(errors="replace") == entry.token for entry in told)


def test_bytes_of_tokens_make_up_characters_that_take_several(tiny, client):
    ids = tiny.engine.vocabulary.encode_text("é", bos=False)
    assert len(ids) == 2, "the tokens of the tiny model are bytes"
    bias = {str(token): 100 for token in ids}
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=30, temperature=1, seed=3, logit_bias=bias, logprobs=True, top_logprobs=2
    )
    (choice,) = answer.choices
    assert "é" in choice.message.content
    told = b"".join(bytes(entry.bytes) for entry in choice.logprobs.content)
    assert told.decode(errors="replace") == choice.message.content
    assert all(entry.top_logprobs[0].bytes for entry in choice.logprobs.content)


def test_logprobs_of_threads_are_in_reading_order(forking):
    fields = {**FORKING, "logprobs": True}
    (choice,) = forking.chat(**fields).json()["choices"]
    result = generate(forking.engine, "Why?", temperature=1.0, seed=2, max_tokens=200, parallelism=5.0, logprobs=0)
    assert len(result.threads) == 6
    tokens = [token for token, _ in in_order(result, forking.engine.vocabulary)]
    assert forking.engine.vocabulary.decode(tokens) == result.text == choice["message"]["content"]
    told = choice["logprobs"]["content"]
    assert len(told) == len(tokens)
    assert all(-math.inf < entry["logprob"] <= 0 for entry in told)
    chunks = forking.chunks(**fields)
    assert chunks[-1]["choices"][0]["logprobs"] == choice["logprobs"]


def test_logprobs_of_a_completion(tiny, client):
    answer = client.completions.create(model=MODEL, prompt="Once", max_tokens=8, logprobs=2)
    told = answer.choices[0].logprobs
    assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs) == len(told.text_offset) == 8
    assert told.text_offset[0] == 0
    stopped = tiny.http.post(
        TEXT, json={"prompt": "Once", "max_tokens": 8, "logprobs": 0, "stop": "".join(told.tokens[3:5])}
    )
    assert len(stopped.json()["choices"][0]["logprobs"]["tokens"]) <= 4
    assert tiny.chat(max_tokens=1).json()["choices"][0]["logprobs"] is None


# -- biases and numbers ---------------------------------------------------------------------------------------


def test_a_bias_decides(tiny, client):
    plain = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=5).choices[0].message.content
    (token,) = byte_tokenizer().encode("z")
    always = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=5, logit_bias={str(token): 100})
    assert always.choices[0].message.content == "zzzzz" != plain
    ids = generate(tiny.engine, "Why?", max_tokens=5).threads[0].token_ids
    never = {str(token): -100 for token in ids}
    other = generate(tiny.engine, "Why?", max_tokens=5, logit_bias=[(token, -100) for token in ids])
    assert not set(other.threads[0].token_ids) & set(ids)
    assert tiny.chat(max_tokens=5, logit_bias=never).json()["choices"][0]["message"]["content"] == other.text


def test_biases_stay_with_their_request(tiny):
    """In one batch, each row has its own."""
    expected = [generate(tiny.engine, "Why?", max_tokens=6, logit_bias=bias).text for bias in ([(122, 100)], [])]
    assert expected[0] != expected[1]
    many = [tiny.chat(max_tokens=6, n=2, logit_bias=bias).json()["choices"] for bias in ({"122": 100}, {})]
    assert [[choice["message"]["content"] for choice in choices] for choices in many] == [[e] * 2 for e in expected]


def test_top_k_of_minus_one_is_off(tiny):
    texts = {tiny.chat(max_tokens=9, temperature=1.0, seed=3, top_k=k).text.split('"content"')[1] for k in (0, -1)}
    assert len({text.split('"refusal"')[0] for text in texts}) == 1


def test_heads(tiny):
    for path in ("/", "/health", "/ready", "/v1/models", "/metrics"):
        head, whole = tiny.http.head(path), tiny.http.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert tiny.http.head(CHAT).status_code == 405


# -- histories ------------------------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
HISTORY = [
    {"role": "user", "content": "1 + 1?", "name": "ann"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "2"},
]
TOOLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.name or '' }}{{ m.tool_call_id or '' }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.id }} {{ c.function.name }} {{ c.function.arguments.a }}{% endfor %}"
    "<|im_end|>\n{% endfor %}"
)


def test_tool_calls_in_histories_are_kept():
    engine = tiny_engine()
    engine.vocabulary.tokenizer.chat_template = TOOLS
    with serving(engine) as running:
        tokens = running.http.post("/tokenize", json={"messages": HISTORY}).json()["tokens"]
        text = engine.vocabulary.decode(tokens)
        assert "user ann" in text and "c1 add 1" in text and "tool c1\n2" in text
        assert running.chat(messages=HISTORY, max_tokens=2).status_code == 200
        spelled = [{**HISTORY[1], "tool_calls": [{**CALL, "id": "<sync/>"}]}]
        assert "special token" in running.chat(messages=spelled, max_tokens=2).json()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "{}"),  # as clients say of a function without any
        ("nothing", '"nothing"'),
        (json.dumps({"a": "\ud800"}), json.dumps(json.dumps({"a": "\ud800"}))),
        ("[" * 900 + "]" * 900, json.dumps("[" * 900 + "]" * 900)),
    ],
)
def test_arguments_that_no_prompt_can_hold_are_texts(tiny, arguments, told):
    call = {**CALL, "function": {"name": "add", "arguments": arguments}}
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    answer = tiny.http.post("/tokenize", json={"messages": history})
    assert answer.status_code == 200, answer.text
    text = tiny.engine.vocabulary.decode(answer.json()["tokens"])
    assert f'{{"name": "add", "arguments": {told}}}' in text


def test_what_the_template_leaves_out_is_refused(tiny):
    response = tiny.chat(messages=[{"role": "user", "content": "a"}, HISTORY[0]], max_tokens=1)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages[1].name"


#: As Qwen's: calls and results are shown, what they are called is not.
WITHOUT_IDS = TOOLS.replace("{{ m.tool_call_id or '' }}", "").replace("{{ c.id }} ", "")


@pytest.mark.parametrize("role", ["refused", "shown"])
def test_a_template_without_words_for_calls_is_given_texts(role):
    """Whatever such a template does with the role of a result."""
    engine = tiny_engine()
    refuse = "{% if m.role == 'tool' %}{{ raise_exception('no such role') }}{% endif %}" if role == "refused" else ""
    engine.vocabulary.tokenizer.chat_template = (
        "{% for m in messages %}" + refuse + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    other = {**CALL, "id": "c2", "function": {"name": "double", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "Well:", "tool_calls": [CALL, other]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "4"},
    ]
    with serving(engine) as running:
        tokens = running.http.post("/tokenize", json={"messages": history}).json()["tokens"]
        assert engine.vocabulary.decode(tokens) == (
            "<|im_start|>user\n1 + 1?<|im_end|>\n"
            '<|im_start|>assistant\nWell:\n{"name": "add", "arguments": {"a": 1}}\n'
            '{"name": "double", "arguments": {}}<|im_end|>\n'
            "<|im_start|>user\nResult of add: 2\nResult of double: 4<|im_end|>\n"
        )
        # With the tools themselves, which stand in a system message before it all.
        function = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
        tools = [{"type": "function", "function": function}]
        for choice in ("auto", "required"):
            answer = running.chat(messages=history, tools=tools, tool_choice=choice, max_tokens=20)
            assert answer.status_code == 200, answer.text


def test_the_id_of_a_result_is_nothing_to_refuse():
    """Templates tell results apart by their order."""
    engine = tiny_engine()
    engine.vocabulary.tokenizer.chat_template = WITHOUT_IDS
    with serving(engine) as running:
        history = [{**HISTORY[0], "name": "ann"}, HISTORY[1], {**HISTORY[2], "name": "add"}]
        tokens = running.http.post("/tokenize", json={"messages": history}).json()["tokens"]
        text = engine.vocabulary.decode(tokens)
        assert "assistant \nadd 1<|im_end|>" in text and "tool add\n2<|im_end|>" in text


def test_a_call_of_many_characters_is_a_long_prompt(tiny):
    """It is refused by its size, before anything is encoded."""
    call = {**CALL, "function": {"name": "add", "arguments": "1" * 2_000_000}}
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    for answer in (tiny.chat(messages=history), tiny.http.post("/tokenize", json={"messages": history})):
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "context_length_exceeded"


# -- responses ------------------------------------------------------------------------------------------------


def test_a_response(tiny, client):
    response = client.responses.create(model=MODEL, input="Why?", max_output_tokens=20)
    result = generate(tiny.engine, "Why?", max_tokens=20)
    assert response.output_text == result.text
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert response.usage.input_tokens == len(result.prompt_ids)
    assert response.usage.output_tokens == result.decoded_tokens
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    stopped = client.responses.create(model=MODEL, input="Why?", extra_body={"stop": result.text[4:6]})
    assert (stopped.status, stopped.output_text) == ("completed", result.text[:4])


def test_a_conversation_of_responses(tiny, client):
    asked = {"instructions": "Be brief.", "max_output_tokens": 5, "metadata": {"trace": "7"}}
    first = client.responses.create(model=MODEL, input="Why?", **asked)
    assert first.metadata == {"trace": "7"}
    history = [{"role": "user", "content": [{"type": "input_text", "text": "Why?"}]}, *first.output]
    again = client.responses.create(
        model=MODEL, input=[*history, {"role": "user", "content": "So?"}], instructions="Be brief.", max_output_tokens=5
    )
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "So?"},
    ]
    assert again.output_text == generate(tiny.engine, messages, max_tokens=5).text


def test_a_stream_of_a_response(forking):
    result = generate(forking.engine, "Why?", temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
    with openai.OpenAI(base_url=f"{forking.url}/v1", api_key="none", max_retries=0) as client:
        extra = {"seed": 2, "pasta": {"parallelism": 5.0, "events": True}}
        with client.responses.stream(
            model=MODEL, input="Why?", temperature=1.0, max_output_tokens=200, extra_body=extra
        ) as stream:
            events = list(stream)
            final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]  # fmt: skip
    assert kinds[-4:] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == result.text == final.output_text
    assert len(result.threads) == 6 == final.usage.threads
    with openai.OpenAI(base_url=f"{forking.url}/v1", api_key="none", max_retries=0) as client:
        raw = list(client.responses.create(model=MODEL, input="Why?", temperature=1.0, stream=True, extra_body=extra))
    told = [each for event in raw for each in (event.model_extra or {}).get("pasta", {}).get("events", [])]
    assert {each["type"] for each in told} >= {"fork", "join", "end"}


def test_logprobs_of_a_response(client):
    include = ["message.output_text.logprobs"]
    response = client.responses.create(model=MODEL, input="Why?", max_output_tokens=5, include=include, top_logprobs=2)
    told = response.output[0].content[0].logprobs
    assert len(told) == 5 and all(len(entry.top_logprobs) == 2 for entry in told)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input[0]"),
        ({"input": [{"role": "user", "content": "a", "name": "bob"}]}, "input[0]"),
        ({"input": "a", "parallel_tool_calls": 3}, "parallel_tool_calls"),
        ({"input": "a", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "a", "tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"input": "a", "text": {"format": {"type": "json_schema"}}}, "text.format.name"),
        ({"input": "a", "text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"input": "a", "background": True}, "background"),
        ({"input": "a", "n": 2}, "n"),
        ({"input": "a", "max_tokens": 2}, "max_tokens"),
        ({"input": "a", "include": ["file_search_call.results"]}, "include[0]"),
        ({"input": "a", "nonsense": 1}, "nonsense"),
    ],
)
def test_what_a_response_cannot_do_is_named(tiny, fields, param):
    response = tiny.http.post("/v1/responses", json=fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
