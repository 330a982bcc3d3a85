"""The messages that requests hold, checked: texts, their parts, and calls of tools in a history."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pasta.serve.errors import ApiError, shown
from pasta.serve.shape import check_shape

MAX_MESSAGES = 4096
MAX_PARTS = 4096
MAX_CALLS = 128
MAX_SHOWN = 8  # ids of calls in a complaint
MAX_NAME = 1024  # characters of a name, of a user or a model


def check_text(text: str) -> str:
    """JSON can spell half a character (`\\ud800`), which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "Input should be valid Unicode, without lone surrogates") from None
    return text


Text = Annotated[str, AfterValidator(check_text)]
Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(check_text)]


def text_or_list(value: Any) -> str:
    """Which of a union's branches is meant: only its complaint is of use."""
    return "as list" if isinstance(value, list) else "as text"


class Body(BaseModel):
    """Types as they stand: "5" is not a number."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Lenient(Body):
    """Fields that we do not know are none of our business."""

    model_config = ConfigDict(extra="ignore")


class HasText(Protocol):
    @property
    def text(self) -> str: ...


class TextPart(Lenient):
    type: Literal["text"]
    text: Text


def kind_of(value: Any) -> str | None:
    """The `type` of what a client sent, as it can be shown; None where it has none."""
    if not isinstance(value, dict) or "type" not in value:
        return None
    kind = value["type"]
    return kind[:80].encode("utf-8", "replace").decode() if isinstance(kind, str) else shown(kind)


def check_part(value: Any) -> Any:
    """Names a part that is no text: that it is none of the right type says less."""
    kind = kind_of(value)
    if kind not in (None, "text", "input_text", "output_text"):
        told = {"kind": kind}
        raise PydanticCustomError(
            "unsupported_part", "parts of type {kind} are not supported here: expected text", told
        )
    return value


Part = Annotated[TextPart, BeforeValidator(check_part)]
TextOrParts = Annotated[
    Annotated[Text, Tag("as text")]
    | Annotated[list[Part], Field(fail_fast=True, max_length=MAX_PARTS), Tag("as list")],
    Discriminator(text_or_list),
]


class Function(Lenient):
    name: Name
    arguments: Text = ""


class ToolCall(Lenient):
    id: Name
    type: Literal["function"] = "function"
    function: Function

    def plain(self) -> dict[str, Any]:
        """Templates want the arguments themselves. What is no JSON, too deep, or has half a character stays a text."""
        arguments: Any = self.function.arguments
        with contextlib.suppress(ValueError, RecursionError, ApiError):
            check_shape(arguments.encode(), len(arguments))
            read = json.loads(arguments or "{}")
            json.dumps(read, ensure_ascii=False).encode()
            arguments = read
        return {"id": self.id, "type": "function", "function": {"name": self.function.name, "arguments": arguments}}


#: Fields of a message that would be part of the prompt, and what to use in place of them.
UNHEARD = {"function_call": "tool_calls", "refusal": "content", "audio": "content", "prefix": "/v1/completions"}


def check_heard(value: Any) -> Any:
    """Refuses a message that says more than would be read; fields that ask for nothing are passed over."""
    for name, instead in UNHEARD.items() if isinstance(value, dict) else ():
        if value.get(name) not in (None, False):
            told = {"name": name, "instead": instead}
            raise PydanticCustomError("unheard", "{name} is not supported here: use {instead}", told)
    return value


class Message(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: TextOrParts | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True, max_length=MAX_CALLS)] | None = None
    tool_call_id: Name | None = None

    @model_validator(mode="after")
    def check_content(self) -> Message:
        if self.content is None and not self.tool_calls:
            raise PydanticCustomError("missing_content", "a message without tool_calls needs content")
        if self.tool_calls and self.role != "assistant":
            told = {"role": self.role}
            raise PydanticCustomError("calls", "a message of role {role} has tool_calls, but only assistant may", told)
        return self

    @property
    def characters(self) -> int:
        """Of what goes into a prompt, its calls of tools included."""
        calls = sum(len(call.function.arguments) for call in self.tool_calls or ())
        return len(join(self.content)) + calls

    def plain(self) -> dict[str, Any]:
        """For a chat template. What newer clients call the developer is what templates call the system."""
        role = "system" if self.role == "developer" else self.role
        out: dict[str, Any] = {"role": role, "content": join(self.content)}
        if self.tool_calls:
            out["tool_calls"] = [call.plain() for call in self.tool_calls]
        return out | {name: value for name in ("name", "tool_call_id") if (value := getattr(self, name)) is not None}


def join(content: str | Sequence[HasText] | None) -> str:
    return (content or "") if isinstance(content, str | None) else "".join(part.text for part in content)


def check_call(index: int, field: str, name: str | None, calls: Collection[str]) -> None:
    """Refuses a result, at its place in a list, that belongs to none of the calls before it. One without a name may."""
    if name in calls or (name is None and calls):
        return
    told = {"ids": ", ".join(json.dumps(call[:80], ensure_ascii=False) for call in islice(calls, MAX_SHOWN))}
    why = "Input should be the id of an earlier tool call"
    why += ": one of {ids}" if calls else ", of which there is none: send the message that makes the call, too"
    error = PydanticCustomError("no_such_call", why, told)
    raise ValidationError.from_exception_data("results", [{"type": error, "loc": (index, field), "input": name}])


def check_results(messages: list[Message]) -> list[Message]:
    calls: dict[str, None] = {}  # their ids, in order
    for index, message in enumerate(messages):
        if message.role == "tool":
            check_call(index, "tool_call_id", message.tool_call_id, calls)
        elif message.role == "assistant":
            calls |= dict.fromkeys(call.id for call in message.tool_calls or ())
    return messages


Messages = Annotated[
    list[Annotated[Message, BeforeValidator(check_heard)]],
    Field(fail_fast=True, min_length=1, max_length=MAX_MESSAGES),
    AfterValidator(check_results),
]
