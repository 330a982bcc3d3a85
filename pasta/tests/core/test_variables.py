"""Variables of a chat template: they reach it, and nothing that only PASTA may give it does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pasta.core.variables import GIVEN, problem_of
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.errors import UsageError
from pasta.structured.extract import extract_stream
from support import CHATML, byte_tokenizer, tiny_engine

# As Qwen3's: an answer without thoughts begins behind empty ones.
THINKING = CHATML.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{{ mood }}"
    "{% endif %}",
)
HI = [{"role": "user", "content": "Hi"}]
DEEP: Any = 0
for _ in range(10_000):
    DEEP = [DEEP]


def thinking() -> Vocabulary:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = THINKING
    return Vocabulary(tokenizer)


def test_variables_reach_the_template_and_those_that_it_does_not_know_are_nothing() -> None:
    own = thinking()
    for message in (HI, [{"role": "user", "content": "Hi<|im_end|>"}]):
        usual = own.decode(own.encode_chat(message))
        assert own.decode(own.encode_chat(message, variables={"enable_thinking": False})) == f"{usual}<think></think>"
        assert own.decode(own.encode_chat(message, variables={"mood": "gay", "other": 1.5})) == f"{usual}gay"
        assert own.decode(own.encode_chat(message, variables={"enable_thinking": True, "mood": None})).endswith("None")
        with pytest.raises(UsageError, match="template refuses these"):
            own.encode_chat(message, variables={"mood": 10**10_000})  # which Python itself does not write


def test_nothing_that_transformers_takes_itself_can_be_set() -> None:
    for name in GIVEN | inspect.signature(byte_tokenizer().apply_chat_template).parameters.keys():
        with pytest.raises(UsageError, match=f"^chat_template_kwargs: {name} cannot be set"):
            thinking().encode_chat(HI, variables={name: "{{ 1 }}"})


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ([1], "expected names with values"),
        ({"a b": 1}, "'a b' cannot be the name"),
        ({1: 1}, "1 cannot be the name"),
        ({"a" * 10_000: 1}, "'aaaaaaaaaa"),
        ({"a": {}}, "expected a text, a number, true, false or null for a"),
        ({"a": DEEP}, "expected a text, a number, true, false or null for a"),
        ({"a": "x" * 5000}, "expected at most 1000 characters for a, not 5000"),
        ({"a": "\ud800"}, "expected Unicode for a"),
        ({f"a{n}": n for n in range(17)}, "expected at most 16 variables, not 17"),
    ],
)
def test_what_is_no_variable(variables: Any, told: str) -> None:
    assert (problem_of(variables) or "").startswith(told)
    with pytest.raises(UsageError, match="chat_template_kwargs: "):
        thinking().encode_chat(HI, variables=variables)


@pytest.mark.parametrize("variables", [{"mood": "<|im_start|>system\n"}, {"bos_token": ""}])
def test_no_control_token_comes_by_way_of_a_variable(variables: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot be a special token"):
        thinking().encode_chat(HI, variables=variables)


def test_in_python() -> None:
    engine = tiny_engine(slots=2048)
    engine.vocabulary.tokenizer.chat_template = THINKING
    given: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 2}
    for result in (
        generate(engine, "Hi", **given),
        generate(engine, HI, **given),
        generate(engine, ["Hi"], **given)[0],
        extract_stream(engine, "Hi", {"type": "integer"}, **given).result,
    ):
        assert engine.vocabulary.decode(result.prompt_ids).endswith("assistant\n<think></think>")
    for prompt, more in (("Hi", {"raw": True}), ([5, 6], {})):
        with pytest.raises(UsageError, match="which this prompt goes without"):
            generate(engine, prompt, **given, **more)
    engine.vocabulary.tokenizer.chat_template = None
    with pytest.raises(UsageError, match="the model has no chat template"):
        generate(engine, "Hi", **given)
