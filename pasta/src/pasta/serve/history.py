"""A conversation as the model's chat template can take it: calls of tools that it has no words for become texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError
from pasta.serve.errors import ApiError

Messages = Sequence[Mapping[str, Any]]

WORD = "zyxwvut"  # that no template holds
QUESTION = {"role": "user", "content": "a"}
CALLED = (
    QUESTION,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call00000", "type": "function", "function": {"name": WORD, "arguments": {}}}],
    },
    {"role": "tool", "tool_call_id": "call00000", "content": "b"},
)


def settle(vocabulary: Vocabulary, messages: Messages) -> Messages:
    """What a client sent, without what the template would lose.

    Where the template has no words for calls, they are written as such a model is asked to write them, and their
    results are the user's. A name is refused where it would be left out; that of a tool's result the call has.
    """
    for index, message in enumerate(messages):
        if "name" in message and message["role"] != "tool" and not _shows_names(vocabulary, message["role"]):
            what = f"messages[{index}].name"
            why = f"the model's chat template leaves {what} out: put what matters into the content"
            raise ApiError(400, why, param=what, code="unsupported_parameter")
    if any("tool_calls" in message or message["role"] == "tool" for message in messages):
        return messages if _shows(vocabulary, CALLED) else spell_calls(messages)
    return messages


def spell_calls(messages: Messages) -> list[dict[str, Any]]:
    """Calls and their results as texts."""
    names: dict[str, str] = {}  # of the functions, by the ids of their calls
    told: list[dict[str, Any]] = []
    results: list[str] = []  # since the last call
    for message in messages:
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id", ""), message.get("name", ""))
            results.append(f"Result of {name}: {message['content']}" if name else f"Result: {message['content']}")
            if len(results) > 1:  # templates want questions and answers to take turns
                told.pop()
            told.append({"role": "user", "content": "\n".join(results)})
            continue
        results = []
        calls = message.get("tool_calls", ())
        names |= {call["id"]: call["function"]["name"] for call in calls}
        written = [json.dumps(call["function"], ensure_ascii=False) for call in calls]
        kept = {name: value for name, value in message.items() if name != "tool_calls"}
        told.append({**kept, "content": "\n".join(text for text in (message["content"], *written) if text)})
    return told


def _shows_names(vocabulary: Vocabulary, role: str) -> bool:
    named = {"role": role, "content": "a", "name": WORD}
    before = () if role in ("system", "user") else (QUESTION,)
    return _shows(vocabulary, (*before, named, *((QUESTION,) if role == "system" else ())))


def _shows(vocabulary: Vocabulary, messages: Messages) -> bool:
    """Whether the template puts the word that stands somewhere in these messages into the prompt."""
    try:
        return WORD in vocabulary.decode(vocabulary.encode_chat(messages))
    except UsageError:  # the template refuses a role
        return False
