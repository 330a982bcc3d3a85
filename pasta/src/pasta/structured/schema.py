"""A schema as a document: its bounds, its references, and parts of it that are complete in themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from pasta.errors import UsageError
from pasta.structured.errors import SchemaError

Schema = Mapping[str, Any] | bool

AFTER = "x-after"
NOTES = frozenset(
    {"title", "description", "default", "example", "examples", "$comment", "deprecated", "readOnly", "writeOnly", AFTER}
)
DEFINITIONS = frozenset({"$defs", "definitions"})
IDENTITY = frozenset({"$schema", "$id", "id", "$anchor", "$vocabulary"})
BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})  # schemas by names
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset(
    {"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
     "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip

# Formats that JSON Schema defines; others are notes for people.
FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
     "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex"}
)  # fmt: skip

# What a schema may ask: beyond these, compiling it takes seconds and more.
MAX_SIZE = 20_000  # parts
MAX_DEPTH = 64
MAX_PROPERTIES = 1_000  # of one object
MAX_ENUM = 5_000
MAX_ALL_OF = 8
MAX_PATTERN = 1_000  # characters
MAX_LEAST = 1_000  # elements or properties that there must be
MAX_MULTIPLE = 10_000  # of the smallest decimal place

FAR = 1 << 63  # from 0; grammars know no numbers beyond, and read those before it as floats of 64 bits


def as_schema(schema: Any) -> Schema:
    """The JSON schema of a pydantic model; a schema as it is."""
    if hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    if isinstance(schema, Mapping | bool):
        return schema
    raise UsageError(
        f"a schema is {type(schema).__name__}, expected a JSON schema or a pydantic model",
        hint="pass a dict, or a class that inherits from pydantic.BaseModel",
    )


def escape(name: str) -> str:
    """A name as part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def names_of(pointer: str) -> list[str]:
    """The names that a JSON pointer leads through."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


class Document:
    """A whole schema."""

    def __init__(self, root: Schema):
        self.root = root
        check_bounds(root)

    def resolve(self, reference: str) -> Schema:
        """What a reference within the document stands for."""
        if not reference.startswith("#"):
            raise SchemaError(f"$ref {reference!r} lies outside the schema", keyword="$ref", hint="put it under $defs")
        node: Any = self.root
        if reference[1:2] not in ("", "/"):
            return self._anchored(reference)
        for part in reference[1:].split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                raise SchemaError(f"$ref {reference!r} names nothing in the schema", keyword="$ref")
        if not isinstance(node, Mapping | bool):
            raise SchemaError(f"$ref {reference!r} is no schema", keyword="$ref")
        return node

    def _anchored(self, reference: str) -> Schema:
        if reference not in self._anchors:
            raise SchemaError(f"$ref {reference!r} names nothing in the schema", keyword="$ref")
        return self._anchors[reference]

    @cached_property
    def _anchors(self) -> dict[str, Schema]:
        found: dict[str, Schema] = {}
        for part in parts(self.root):
            if isinstance(part, Mapping):
                names = (f"#{part.get('$anchor')}", part.get("$id"), part.get("id"))
                found |= {name: part for name in names if isinstance(name, str) and name not in found}
        return found

    def follow(self, schema: Schema) -> tuple[Schema, tuple[str, ...]]:
        """What a reference that stands alone, or an `allOf` of one, stands for; and the references on the way."""
        seen: list[str] = []
        while isinstance(schema, Mapping):
            said = set(schema) - NOTES - DEFINITIONS - IDENTITY
            if said == {"$ref"} and isinstance(schema["$ref"], str):
                if schema["$ref"] in seen:
                    raise SchemaError(f"$ref {schema['$ref']!r} leads back to itself", keyword="$ref")
                seen.append(schema["$ref"])
                schema = self.resolve(schema["$ref"])
            elif said == {"allOf"} and isinstance(schema["allOf"], list) and len(schema["allOf"]) == 1:
                [schema] = schema["allOf"]
            else:
                break
        return schema, tuple(seen)

    def complete(self, schema: Schema) -> Schema:
        """The schema with all that it refers to, and without what only people read."""
        names: dict[str, str] = {}
        waiting: list[str] = []

        def name(reference: str) -> str:
            if reference not in names:
                names[reference] = f"#/$defs/{len(names)}"
                waiting.append(reference)
            return names[reference]

        out = _rewritten(schema, name)
        defined: dict[str, Schema] = {}
        while waiting:
            reference = waiting.pop()
            defined[names[reference].rpartition("/")[2]] = _rewritten(self.resolve(reference), name)
        if not isinstance(out, Mapping):
            return out
        draft = {"$schema": self.root["$schema"]} if isinstance(self.root, Mapping) and "$schema" in self.root else {}
        return {**draft, **out, **({"$defs": defined} if defined else {})}


def parts(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas in it."""
    waiting: list[Schema] = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Mapping):
            for key, value in part.items():
                if key in BY_NAME | DEFINITIONS and isinstance(value, Mapping):
                    waiting += [each for each in value.values() if isinstance(each, Mapping | bool)]
                elif key in LISTS | SINGLE:
                    several = value if isinstance(value, list) else [value]
                    waiting += [each for each in several if isinstance(each, Mapping | bool)]


def _rewritten(schema: Schema, name: Callable[[str], str]) -> Schema:
    """A copy with its references renamed, notes and definitions left out."""

    def any_of(value: Any) -> Any:
        if isinstance(value, list):
            return [any_of(each) for each in value]
        return _rewritten(value, name) if isinstance(value, Mapping) else value

    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NOTES or key in DEFINITIONS or key in IDENTITY or (key == "format" and value not in FORMATS):
            continue
        if key == "$ref" and isinstance(value, str):
            out[key] = name(value)
        elif key == "oneOf" and "enum" not in schema and (constants := _constants(value)) is not None:
            out["enum"] = constants
        elif key in BY_NAME and isinstance(value, Mapping):
            out[key] = {each: any_of(own) for each, own in value.items()}
        elif key in LISTS or key in SINGLE:
            out[key] = any_of(value)
        else:
            out[key] = value
    return out


def _constants(branches: Any) -> list[Any] | None:
    """The values of branches that are one constant each, all different: how an enum with a note for each is written."""
    if not isinstance(branches, list) or not all(isinstance(each, Mapping) for each in branches):
        return None
    if any(set(each) - NOTES != {"const"} for each in branches):
        return None
    values = [each["const"] for each in branches]
    simple = all(isinstance(value, str | int | None) for value in values)
    return values if simple and len({(type(value), value) for value in values}) == len(values) else None


def check_bounds(root: Any) -> None:
    """Refuses a schema that would take long to compile."""
    size = 0
    waiting: list[tuple[Any, str, int]] = [(root, "", 0)]
    while waiting:
        part, pointer, depth = waiting.pop()
        size += 1
        if depth > MAX_DEPTH:
            raise SchemaError(f"it is nested more than {MAX_DEPTH} deep", pointer[:200])
        if isinstance(part, Mapping):
            if (other := next((key for key in part if not isinstance(key, str)), None)) is not None:
                raise SchemaError(f"the key {other!r:.60} is no text, and JSON has no other keys", pointer)
            _check_keywords(part, pointer)
            waiting += [(value, f"{pointer}/{escape(str(key))}", depth + 1) for key, value in part.items()]
        elif isinstance(part, list):
            waiting += [(value, f"{pointer}/{index}", depth + 1) for index, value in enumerate(part)]
        elif not isinstance(part, str | int | float | None):
            raise SchemaError(f"{type(part).__name__} is no JSON", pointer)
        if size + len(waiting) > MAX_SIZE:
            raise SchemaError(f"it has more than {MAX_SIZE} parts")


def _check_keywords(part: Mapping[str, Any], pointer: str) -> None:
    for keyword, most in (("properties", MAX_PROPERTIES), ("enum", MAX_ENUM), ("allOf", MAX_ALL_OF)):
        value = part.get(keyword)
        if isinstance(value, Mapping | list) and len(value) > most:
            raise SchemaError(f"{keyword} has {len(value)} entries, {most} at most", pointer, keyword)
    for keyword in ("minItems", "minProperties", "minContains"):
        least = part.get(keyword)
        if isinstance(least, int | float) and least > MAX_LEAST:
            raise SchemaError(f"{keyword} is {least}, {MAX_LEAST} at most", pointer, keyword)
    _check_free_keys(part, pointer)
    pattern = part.get("pattern")
    if isinstance(pattern, str) and len(pattern) > MAX_PATTERN:
        raise SchemaError(f"pattern has {len(pattern)} characters, {MAX_PATTERN} at most", pointer, "pattern")
    step = part.get("multipleOf")
    if isinstance(step, int | float) and not isinstance(step, bool):
        digits = json.dumps(step).replace(".", "").replace("-", "").partition("e")[0].strip("0")
        if int(digits or "0") > MAX_MULTIPLE:
            raise SchemaError(f"multipleOf is {step}, with more digits than can be enforced", pointer, "multipleOf")


def check_numbers(schema: Schema) -> None:
    """Refuses constants and bounds of which a grammar would make other numbers."""
    for part in parts(schema):
        if not isinstance(part, Mapping):
            continue
        for keyword in ("const", "enum"):
            for number in numbers_in(part.get(keyword)):
                if not _is_exact(number):
                    why = f"{keyword} has {number}, and whole numbers of so many digits cannot be enforced"
                    raise SchemaError(why, keyword=keyword, hint="make it a string")
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            bound = part.get(keyword)
            if not isinstance(bound, int | float) or (keyword.endswith("aximum") and bound >= FAR - 1):
                continue  # nothing that is decoded comes so far
            if not _is_exact(bound):
                why = f"{keyword} is {bound}, and cannot be enforced so far from 0"
                raise SchemaError(why, keyword=keyword, hint="leave it out, and check it afterwards")


def numbers_in(value: Any) -> Iterator[int | float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, list | Mapping):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from numbers_in(each)


def _is_exact(number: int | float) -> bool:
    return -FAR < number < FAR and float(number) == number


def _check_free_keys(part: Mapping[str, Any], pointer: str) -> None:
    """A grammar knows no key that the schema does not name: the same one twice would count as two."""
    least, required = part.get("minProperties"), part.get("required")
    if isinstance(least, int | float) and (
        "patternProperties" in part or part.get("additionalProperties") is not False
    ):
        free = least - len(set(map(str, required)) if isinstance(required, list) else ())
        if free > 1:
            raise SchemaError(
                f"minProperties asks for {free} keys that required does not name, and those may come twice",
                pointer, "minProperties", "name them, or leave it out and check it afterwards",
            )  # fmt: skip
