"""The tools that an answer may call, in the words of `/v1/chat/completions` and in those of `/v1/responses`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from pasta.serve.formats import FunctionName, Schema, unsupported
from pasta.serve.messages import Body, Lenient, Name, Text, kind_of

MAX_TOOLS = 128
#: What gives an object no keys beside its properties.
NAMED = {"type", "properties", "required", "title", "description", "$schema"}


def check_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Clients call their functions with what an object holds by name."""
    kind = schema.get("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        told = {"kind": json.dumps(kind)[:80]}
        raise PydanticCustomError("schema", "the schema's type is {kind}, but arguments are an object", told)
    return schema


class FunctionTool(Body):
    """`function` of a tool. Its arguments are enforced whether it is `strict` or not."""

    name: FunctionName
    description: Text | None = None
    parameters: Annotated[Schema, AfterValidator(check_parameters)] | None = None
    strict: bool | None = None

    @property
    def schema_of(self) -> Mapping[str, Any]:
        """Of the arguments, an object; where none is named, and nothing said of others, there are none."""
        named = {"properties": {}} if self.parameters is None else self.parameters
        if "$ref" not in named:  # which says of what type it is
            named = {**named, "type": "object"}
        if not named.get("properties") and not named.get("required") and named.keys() <= NAMED:
            return {**named, "additionalProperties": False}
        return named


def check_function(value: Any) -> Any:
    kind = kind_of(value)
    if kind not in (None, "function"):
        told = {"kind": kind}
        raise PydanticCustomError("tool", "tools of type {kind} are not supported here: expected function", told)
    return value


def check_named(value: Any) -> Any:
    """Names a choice of another kind, such as `allowed_tools`: that it has no name says less."""
    kind = kind_of(value)
    if kind not in (None, "function"):
        why = "a choice of type {kind} is not supported here: expected none, auto, required or a function"
        raise PydanticCustomError("tool_choice", why, {"kind": kind})
    return value


class PlainTool(Lenient):
    """A tool of `/v1/chat/completions`."""

    type: Literal["function"]
    function: FunctionTool


class FlatTool(FunctionTool):
    """A tool of `/v1/responses`."""

    type: Literal["function"]


PlainTools = Annotated[
    list[Annotated[PlainTool, BeforeValidator(check_function)]], Field(fail_fast=True, max_length=MAX_TOOLS)
]
FlatTools = Annotated[
    list[Annotated[FlatTool, BeforeValidator(check_function)]], Field(fail_fast=True, max_length=MAX_TOOLS)
]


class NamedFunction(Lenient):
    name: Name


class NamedTool(Lenient):
    type: Literal["function"]
    function: NamedFunction


class FlatNamedTool(NamedFunction):
    type: Literal["function"]


Word = Annotated[Literal["none", "auto", "required"], Tag("as text")]
WHICH = Discriminator(lambda value: "as name" if isinstance(value, Mapping) else "as text")


class Calling(Body):
    """The part of a body that is about tools: which there are, and whether one of them has to be called."""

    @property
    def functions(self) -> Sequence[FunctionTool]:
        """All tools."""
        raise NotImplementedError

    @property
    def choice(self) -> str | NamedFunction | None:
        """`tool_choice`: the function that has to be called, or a word."""
        raise NotImplementedError

    @model_validator(mode="after")
    def check_choice(self) -> Calling:
        names = [function.name for function in self.functions]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise unsupported("tools", f"{{name}}[{index}] has the name of another")
        if not names and self.choice not in (None, "none", "auto"):
            raise unsupported("tool_choice", "{name} needs tools to choose from")
        if isinstance(self.choice, NamedFunction) and self.choice.name not in names:
            told = {"name": "tool_choice", "asked": json.dumps(self.choice.name[:80])}
            why = f"{{name}} names {{asked}}, which is not among the tools: {', '.join(names)[:200]}"
            raise PydanticCustomError("unsupported_parameter", why, told)
        return self

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The tools as chat templates know them."""
        return [
            {"type": "function", "function": function.model_dump(exclude={"type"}, exclude_none=True)}
            for function in self.functions
        ]

    @property
    def callable(self) -> list[FunctionTool]:
        """The tools that may be called: all, the one that is named, or none."""
        if isinstance(self.choice, NamedFunction):
            return [function for function in self.functions if function.name == self.choice.name]
        return [] if self.choice == "none" else list(self.functions)

    @property
    def must_call(self) -> bool:
        return self.choice == "required" or isinstance(self.choice, NamedFunction)


class ChatCalling(Calling):
    tools: PlainTools | None = None
    tool_choice: Annotated[Word | Annotated[NamedTool, BeforeValidator(check_named), Tag("as name")], WHICH] | None = (
        None
    )

    @property
    def functions(self) -> Sequence[FunctionTool]:
        return [tool.function for tool in self.tools or ()]

    @property
    def choice(self) -> str | NamedFunction | None:
        return self.tool_choice.function if isinstance(self.tool_choice, NamedTool) else self.tool_choice


class FlatCalling(Calling):
    tools: FlatTools | None = None
    tool_choice: (
        Annotated[Word | Annotated[FlatNamedTool, BeforeValidator(check_named), Tag("as name")], WHICH] | None
    ) = None

    @property
    def functions(self) -> Sequence[FunctionTool]:
        return self.tools or ()

    @property
    def choice(self) -> str | NamedFunction | None:
        return self.tool_choice
