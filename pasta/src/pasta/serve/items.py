"""What the `input` of `/v1/responses` holds: messages, calls of tools, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from pasta.serve.messages import (
    MAX_MESSAGES,
    MAX_PARTS,
    Function,
    Lenient,
    Name,
    Text,
    ToolCall,
    check_call,
    check_part,
    join,
    kind_of,
    text_or_list,
)


class ItemPart(Lenient):
    type: Literal["input_text", "output_text", "text"]
    text: Text


TextOrParts = Annotated[
    Annotated[Text, Tag("as text")]
    | Annotated[
        list[Annotated[ItemPart, BeforeValidator(check_part)]],
        Field(fail_fast=True, max_length=MAX_PARTS),
        Tag("as list"),
    ],
    Discriminator(text_or_list),
]


class SaidItem(Lenient):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: TextOrParts

    def plain(self) -> dict[str, Any]:
        return {"role": "system" if self.role == "developer" else self.role, "content": join(self.content)}


class CallItem(Lenient):
    type: Literal["function_call"]
    call_id: Name
    name: Name
    arguments: Text

    def plain(self) -> dict[str, Any]:
        call = ToolCall(id=self.call_id, function=Function(name=self.name, arguments=self.arguments))
        return {"role": "assistant", "content": "", "tool_calls": [call.plain()]}


class ResultItem(Lenient):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: Name
    output: TextOrParts

    def plain(self) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self.call_id, "content": join(self.output)}


KINDS = {"message": "as message", "function_call": "as call", "function_call_output": "as result"}


def kind_of_item(value: Any) -> str:
    return KINDS.get(kind_of(value) or "message", "as message")


def check_item(value: Any) -> Any:
    """Names a kind that is not known here: that it is no message says less."""
    kind = kind_of(value)
    if kind is not None and kind not in KINDS:
        told = {"kind": kind}
        why = "items of type {kind} are not supported here: expected message, function_call or function_call_output"
        raise PydanticCustomError("item", why, told)
    if kind in (None, "message") and isinstance(value, dict) and value.get("name") is not None:
        raise PydanticCustomError("item", "name is not supported here: say it in the content")
    return value


Item = Annotated[
    Annotated[
        Annotated[SaidItem, Tag("as message")]
        | Annotated[CallItem, Tag("as call")]
        | Annotated[ResultItem, Tag("as result")],
        Discriminator(kind_of_item),
    ],
    BeforeValidator(check_item),
]


def check_results(items: list[SaidItem | CallItem | ResultItem]) -> list[SaidItem | CallItem | ResultItem]:
    calls: dict[str, None] = {}  # their ids, in order
    for index, item in enumerate(items):
        if isinstance(item, CallItem):
            calls[item.call_id] = None
        elif isinstance(item, ResultItem):
            check_call(index, "call_id", item.call_id, calls)
    return items


Items = Annotated[
    list[Item], Field(fail_fast=True, min_length=1, max_length=MAX_MESSAGES), AfterValidator(check_results)
]


def conversation(items: Sequence[SaidItem | CallItem | ResultItem]) -> list[dict[str, Any]]:
    """The messages for a chat template. What an assistant says, and the calls right behind it, are one message."""
    told: list[dict[str, Any]] = []
    for item in items:
        message = item.plain()
        if isinstance(item, CallItem) and told and told[-1]["role"] == "assistant":
            told[-1].setdefault("tool_calls", []).extend(message["tool_calls"])
        else:
            told.append(message)
    return told


def size_of_item(item: SaidItem | CallItem | ResultItem) -> int:
    """Its characters, as far as they go into a prompt."""
    match item:
        case SaidItem():
            return len(join(item.content))
        case CallItem():
            return len(item.arguments)
        case ResultItem():
            return len(join(item.output))
