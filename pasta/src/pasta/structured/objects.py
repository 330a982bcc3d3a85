"""Which schemas are objects that can be taken apart, and into what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pasta.structured.schema import DEFINITIONS, IDENTITY, NOTES, Document, Schema

QUIET = NOTES | DEFINITIONS | IDENTITY  # keywords that allow and forbid nothing
OBJECT = frozenset({"type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"})


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    schema: Schema
    required: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """An object whose properties say all about it; `nullable`: it may be `null` instead."""

    properties: tuple[Property, ...]
    nullable: bool = False
    references: tuple[str, ...] = ()  # that led to it


def shape_of(schema: Schema, document: Document) -> Shape | None:
    """None: not an object, or one whose properties depend on each other."""
    schema, references = document.follow(schema)
    if not isinstance(schema, Mapping):
        return None
    nullable = False
    if set(schema) - QUIET in ({"anyOf"}, {"oneOf"}):
        either = schema.get("anyOf", schema.get("oneOf"))
        others = [each for each in either if not _is_null(each)] if isinstance(either, list) else []
        if len(others) != 1 or len(either) != 2:
            return None
        nullable = True
        schema, more = document.follow(others[0])
        references += more
    if isinstance(schema, Mapping) and schema.get("type") in (["object", "null"], ["null", "object"]):
        schema, nullable = {**schema, "type": "object"}, True
    merged = _merged(schema, document, set(references))
    if merged is None:
        return None
    properties = _properties(merged)
    return None if properties is None else Shape(properties, nullable, references)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and {key: schema[key] for key in set(schema) - QUIET} == {"type": "null"}


def _merged(schema: Schema, document: Document, seen: set[str]) -> Mapping[str, Any] | None:
    """A plain object in place of one that is put together by `allOf`, where its parts have nothing in common.

    `seen`: references that led here or to another part; none is followed twice.
    """
    if not isinstance(schema, Mapping):
        return None
    said = {key: value for key, value in schema.items() if key not in QUIET}
    if "allOf" not in said:
        return said if set(said) <= OBJECT else None
    out: dict[str, Any] = {"properties": {}, "required": [], "type": "object"}
    for part in [{key: said[key] for key in said if key != "allOf"}, *said["allOf"]]:
        part, references = document.follow(part)
        if seen & set(references):
            return None
        seen.update(references)
        own = _merged(part, document, seen)
        if own is None or set(own) - {"type", "properties", "required"} or own.get("type", "object") != "object":
            return None
        properties = own.get("properties", {})
        if set(properties) & set(out["properties"]):
            return None
        out["properties"].update(properties)
        out["required"] += own.get("required", [])
    return out


def _properties(schema: Mapping[str, Any]) -> tuple[Property, ...] | None:
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(properties, Mapping) or not properties:
        return None
    if not isinstance(required, list) or not all(isinstance(own, Mapping | bool) for own in properties.values()):
        return None
    if any(own is False for own in properties.values()):
        return None
    others = schema.get("additionalProperties", True)
    unnamed = [name for name in dict.fromkeys(required) if name not in properties]
    if unnamed and others is False:
        return None
    least, most = schema.get("minProperties", 0), schema.get("maxProperties", len(properties) + len(unnamed))
    if least > len(set(required)) or most < len(properties) + len(unnamed):
        return None
    named = [Property(name, own, name in required) for name, own in properties.items()]
    return (*named, *(Property(name, others, True) for name in unnamed))
