"""`chat_template_kwargs`, as clients of vLLM send it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from serve_support import ASK, CHAT, Running, serving

from support import CHATML, tiny_engine

THINKING = CHATML.replace("assistant\n{% endif %}", "assistant\n{{ '' if enable_thinking else '<off>' }}{% endif %}")
ON = {"enable_thinking": True}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    engine = tiny_engine()
    engine.vocabulary.tokenizer.chat_template = THINKING
    with serving(engine) as running:
        yield running


def test_every_way_to_ask_takes_it(running: Running) -> None:
    def prompt(path: str, place: tuple[str, ...], **fields: object) -> object:
        value = running.http.post(path, json={**fields}).raise_for_status().json()
        for name in place:
            value = value[name]
        return value

    for path, place, fields in (
        (CHAT, ("usage", "prompt_tokens"), {"messages": ASK, "max_tokens": 1}),
        ("/v1/responses", ("usage", "input_tokens"), {"input": "Why?", "max_output_tokens": 1}),
        ("/tokenize", ("count",), {"messages": ASK}),
    ):
        off, on = prompt(path, place, **fields), prompt(path, place, **fields, chat_template_kwargs=ON)
        assert off == on + len("<off>"), path
        assert prompt(path, place, **fields, chat_template_kwargs=None) == off


def test_the_operators_are_taken_where_a_request_sets_none_of_that_name() -> None:
    engine = tiny_engine()
    engine.vocabulary.tokenizer.chat_template = "{{ [size, mood] }}"
    with serving(engine, chat_template_kwargs={"size": 3, "mood": "gay"}) as running:
        for own, told in ((None, "[3, 'gay']"), ({"size": None, "other": 1}, "[None, 'gay']")):
            ids = running.http.post("/tokenize", json={"messages": ASK, "chat_template_kwargs": own}).json()["tokens"]
            assert engine.vocabulary.decode(ids) == told
            asked = [
                (CHAT, {"messages": ASK, "max_tokens": 1}, "prompt_tokens"),
                ("/v1/responses", {"input": "Why?", "max_output_tokens": 1}, "input_tokens"),
            ]
            for path, body, field in asked:
                answer = running.http.post(path, json={**body, "chat_template_kwargs": own})
                assert answer.json()["usage"][field] == len(ids)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "chat_template_kwargs is 5, but it should be an object"),
        ({"messages": []}, "chat_template_kwargs: messages cannot be set: the template has it from elsewhere"),
        ({"chat_template": "{{ 1 }}"}, "chat_template_kwargs: chat_template cannot be set"),
        ({"a": [[[]]]}, "chat_template_kwargs: expected a text, a number, true, false or null for a"),
        ({"a": "x" * 100_000}, "chat_template_kwargs: expected at most 1000 characters for a, not 100000"),
        ({"a": "\ud800"}, "chat_template_kwargs: expected Unicode for a"),
        ({"a": float("inf")}, "chat_template_kwargs: expected a finite number for a"),
        ({"{a}": 1}, "chat_template_kwargs: '{a}' cannot be the name of a variable"),
        ({"bos_token": "x"}, "chat_template_kwargs: bos_token cannot be a special token of one's own"),
    ],
)
def test_what_cannot_be_set_is_refused_in_words(running: Running, given: object, told: str) -> None:
    body = json.dumps({"messages": ASK, "chat_template_kwargs": given}).encode()  # also what UTF-8 cannot say
    refusal = running.http.post(CHAT, content=body, headers=JSON)
    assert refusal.status_code == 400 and refusal.json()["error"]["message"].startswith(told), refusal.text
    deep = running.http.post(CHAT, content=b'{"chat_template_kwargs": {"a": ' + 99_999 * b"[", headers=JSON)
    assert deep.status_code == 400 and "nested deeper" in deep.text
