"""What an answer may have to look like: a text, any JSON object, or one of a given shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from pasta.serve.messages import Body, Lenient, Text, kind_of

MAX_NAME = 64
MAX_SCHEMA = 1 << 17  # characters
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

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
