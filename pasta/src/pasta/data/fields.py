"""Where a row keeps its prompt, its conversation and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pasta.data.example import Example

#: Names of the two fields, where a row has no `messages`.
PAIRS = (("prompt", "response"), ("prompt", "completion"), ("instruction", "output"), ("instruction", "response"))


def read_example(index: int, row: Mapping[str, Any]) -> Example | str:
    """The example in a row, or why there is none."""
    messages = row.get("messages")
    if messages is not None:
        if not _is_conversation(messages) or not messages or messages[-1]["role"] != "assistant":
            return "messages do not end with an assistant's text"
        turns = tuple({"role": message["role"], "content": message["content"]} for message in messages)
        return _example(index, turns[:-1], turns[-1]["content"])
    for asked, answered in PAIRS:
        if asked in row and answered in row:
            prompt, answer = row[asked], row[answered]
            if not isinstance(answer, str):
                return f"{answered} is not a text"
            if isinstance(prompt, str):
                return _example(index, ({"role": "user", "content": _with_input(row, asked)},), answer)
            if _is_conversation(prompt):
                return _example(index, tuple(dict(message) for message in prompt), answer)
            return f"{asked} is neither a text nor messages"
    return "no messages, and no prompt and response"


def prompt_of(row: Mapping[str, Any]) -> str | None:
    """The first thing that a row asks: of a conversation with several turns, its first."""
    for name in ("prompt", "instruction", "question", "text"):
        if isinstance(row.get(name), str):
            return _with_input(row, name)
    if isinstance(row.get("turns"), list) and row["turns"] and isinstance(row["turns"][0], str):
        return str(row["turns"][0])
    if isinstance(row.get("messages"), list) and row["messages"]:
        content = row["messages"][0].get("content")
        return content if isinstance(content, str) else None
    return None


def with_answer(row: Mapping[str, Any], annotated: str, text: str) -> dict[str, Any]:
    """The row with its answer replaced by the annotated one, and the plain answer kept in `plain`."""
    out = dict(row)
    if row.get("messages") is not None:
        out["messages"] = [*row["messages"][:-1], {**row["messages"][-1], "content": annotated}]
    else:
        answered = next(answered for asked, answered in PAIRS if asked in row and answered in row)
        out[answered] = annotated
    out["plain"] = text
    return out


def _with_input(row: Mapping[str, Any], name: str) -> str:
    """A prompt; an `instruction` may have an `input` beside it."""
    extra = row.get("input") if name == "instruction" else None
    return f"{row[name]}\n\n{extra}" if isinstance(extra, str) and extra else str(row[name])


def _example(index: int, messages: tuple[dict[str, str], ...], text: str) -> Example | str:
    if not text.strip():
        return "the answer is empty"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "the answer is not valid Unicode"
    return Example(index, messages, text)


def _is_conversation(messages: Any) -> bool:
    return isinstance(messages, list) and all(
        isinstance(message, Mapping) and all(isinstance(message.get(name), str) for name in ("role", "content"))
        for message in messages
    )
