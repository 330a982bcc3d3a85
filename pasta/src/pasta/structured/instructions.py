"""How a model is told what its answer has to look like: a schema, or tools, in words before the conversation.

They come first, so that requests with the same schema share the keys and values of all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "Answer with JSON that follows this schema:\n{schema}"
TOOLS = (
    "You can call one of these functions:\n{tools}\n"
    'To call one, answer with nothing but JSON, {{"name": its name, "arguments": its arguments}}. '
    "Where none of them helps, answer in words."
)


def show_schema(messages: Sequence[Mapping[str, Any]], schema: Any) -> list[dict[str, Any]]:
    """The conversation, with the schema in its system message."""
    return _tell(messages, SCHEMA.format(schema=_write(schema)))


def show_tools(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The conversation, with functions in its system message: for templates that have no place for them."""
    return _tell(messages, TOOLS.format(tools="\n".join(_write(tool) for tool in tools)))


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The system message's text before the first question's: some templates refuse a system message."""
    first, *others = ({**message} for message in messages)
    if first["role"] != "system" or not others or others[0]["role"] != "user":
        return [first, *others]
    return [{**others[0], "content": f"{first['content']}\n\n{others[0]['content']}"}, *others[1:]]


def _tell(messages: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    given = [{**message} for message in messages]
    if given and given[0]["role"] == "system":
        before = given[0]["content"]
        return [{**given[0], "content": f"{before}\n\n{text}" if before else text}, *given[1:]]
    return [{"role": "system", "content": text}, *given]


def _write(value: Any) -> str:
    return json.dumps(_untitled(value), ensure_ascii=False)


def _untitled(schema: Any, names: bool = False) -> Any:
    """A schema without the titles that pydantic derives from the names, which say nothing new."""
    match schema:
        case Mapping():
            return {
                key: _untitled(value, key in ("properties", "$defs") and not names)
                for key, value in schema.items()
                if names or key != "title" or not isinstance(value, str)
            }
        case list():
            return [_untitled(value) for value in schema]
    return schema
