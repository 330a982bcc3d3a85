"""What an answer may have to look like: a JSON object of a given shape, or a call of one of several tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from pasta.serve.messages import Body, Lenient, Name, Text, kind_of

MAX_TOOLS = 128
MAX_NAME = 64
MAX_SCHEMA = 1 << 17  # characters
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
#: What gives an object no keys beside its properties.
NAMED = {"type", "properties", "required", "title", "description", "$schema"}

FunctionName = Annotated[str, Field(pattern=rf"^[a-zA-Z0-9_-]{{1,{MAX_NAME}}}$")]


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Only what JSON can say: no half characters, no NaN. Whether it is a schema, the plan's maker finds out."""
    try:
        size = len(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise PydanticCustomError("schema", "Input should be valid JSON: {why}", {"why": str(error)[:80]}) from None
    if size > MAX_SCHEMA:
        told = {"size": size, "most": MAX_SCHEMA}
        raise PydanticCustomError("schema", "the schema is {size} bytes long, expected at most {most}", told)
    return schema


Schema = Annotated[dict[str, Any], AfterValidator(check_schema)]


def unsupported(name: str, why: str = "{name} is not supported here") -> PydanticCustomError:
    return PydanticCustomError("unsupported_parameter", why, {"name": name})


class JsonSchema(Body):
    """`json_schema` of a `response_format`. Types are enforced whether it is `strict` or not."""

    name: FunctionName
    description: Text | None = None
    schema_: Annotated[Schema | None, Field(alias="schema")] = None  # None: any object
    strict: bool | None = None


class AsText(Lenient):
    type: Literal["text"]

    @property
    def schema_of(self) -> None:
        return None


class AsObject(Lenient):
    type: Literal["json_object"]

    @property
    def schema_of(self) -> Mapping[str, Any]:
        return ANY_OBJECT


class AsSchema(Lenient):
    type: Literal["json_schema"]
    json_schema: JsonSchema

    @property
    def schema_of(self) -> Mapping[str, Any]:
        return ANY_OBJECT if self.json_schema.schema_ is None else self.json_schema.schema_


class AsFlatSchema(JsonSchema):
    """The same in the words of `/v1/responses`."""

    type: Literal["json_schema"]

    @property
    def schema_of(self) -> Mapping[str, Any]:
        return ANY_OBJECT if self.schema_ is None else self.schema_


KINDS = {"text": "as text", "json_object": "as object", "json_schema": "as schema"}


def kind_of_format(value: Any) -> str:
    """By its type; what has none of ours is complained about as a text."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return KINDS.get(kind, "as text") if isinstance(kind, str) else "as text"


def check_format(value: Any) -> Any:
    """Names a type that is not known here: that it is not 'text' says less."""
    kind = kind_of(value)
    if kind is not None and kind not in KINDS:
        told = {"kind": kind}
        raise PydanticCustomError("format", "its type is {kind}, expected text, json_object or json_schema", told)
    return value


Plain = Annotated[AsText, Tag("as text")] | Annotated[AsObject, Tag("as object")]
ResponseFormat = Annotated[
    Annotated[Plain | Annotated[AsSchema, Tag("as schema")], Discriminator(kind_of_format)],
    BeforeValidator(check_format),
]
FlatFormat = Annotated[
    Annotated[Plain | Annotated[AsFlatSchema, Tag("as schema")], Discriminator(kind_of_format)],
    BeforeValidator(check_format),
]


# -- tools -----------------------------------------------------------------------------------------------------


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
        if named.get("properties") == {} and not named.get("required") and named.keys() <= NAMED:
            return {**named, "additionalProperties": False}
        return named


def check_function(value: Any) -> Any:
    kind = kind_of(value)
    if kind not in (None, "function"):
        told = {"kind": kind}
        raise PydanticCustomError("tool", "tools of type {kind} are not supported here: expected function", told)
    return value


class PlainTool(Lenient):
    type: Literal["function"]
    function: FunctionTool


Tool = Annotated[PlainTool, BeforeValidator(check_function)]
Tools = Annotated[list[Tool], Field(fail_fast=True, max_length=MAX_TOOLS)]


class NamedFunction(Lenient):
    name: Name


class NamedTool(Lenient):
    type: Literal["function"]
    function: NamedFunction


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("as text")] | Annotated[NamedTool, Tag("as name")],
    Discriminator(lambda value: "as name" if isinstance(value, Mapping) else "as text"),
]


class Calling(Body):
    """The part of a body that is about tools: which there are, and whether one of them has to be called."""

    tools: Tools | None = None
    tool_choice: ToolChoice | None = None

    @model_validator(mode="after")
    def check_choice(self) -> Calling:
        names = [tool.function.name for tool in self.tools or ()]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise unsupported("tools", f"{{name}}[{index}] has the name of another")
        if not names and self.tool_choice not in (None, "none", "auto"):
            raise unsupported("tool_choice", "{name} needs tools to choose from")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            told = {"name": "tool_choice", "asked": json.dumps(self.tool_choice.function.name[:80])}
            why = f"{{name}} names {{asked}}, which is not among the tools: {', '.join(names)[:200]}"
            raise PydanticCustomError("unsupported_parameter", why, told)
        return self

    @property
    def callable(self) -> list[FunctionTool]:
        """The tools that may be called: all, the one that is named, or none."""
        chosen = self.tool_choice
        tools = [tool.function for tool in self.tools or ()]
        if isinstance(chosen, NamedTool):
            return [tool for tool in tools if tool.name == chosen.function.name]
        return [] if chosen == "none" else tools

    @property
    def must_call(self) -> bool:
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool)
