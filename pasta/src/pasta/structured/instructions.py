"""How a model is told what its answer has to look like: a schema, or tools, in words before the conversation.

They come first, so that requests with the same schema share the keys and values of all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pasta.core.vocabulary import Vocabulary

Messages = Sequence[Mapping[str, Any]]

DEFINITIONS = ("$defs", "definitions")
NOTES = {"title", "description", "default", "examples", "$schema", "x-after"}
# Of an object that is no more than its fields, and of a value that its type says in a word.
OBJECT = {"type", "properties", "required", "additionalProperties", *DEFINITIONS} | NOTES
SIMPLE = (
    set("type enum const format minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum".split()) | NOTES
)
FIELDS = "Answer with JSON that has these fields:\n{fields}"
SCHEMA = "Answer with JSON that follows this schema:\n{schema}"
TOOLS = (
    "You can call one of these functions:\n{tools}\n"
    'To call one, answer with nothing but JSON, {{"name": its name, "arguments": its arguments}}. '
    "Where none of them helps, answer in words."
)


def show_schema(messages: Messages, schema: Any) -> list[dict[str, Any]]:
    """The conversation, with the schema in its system message.

    An object is told field by field: its types are enforced anyway, and small models follow a list of names better than
    a schema, which is also three times as long. What is more than fields is told as the schema says it.
    """
    fields = list_fields(schema)
    told = SCHEMA.format(schema=_write(schema)) if fields is None else FIELDS.format(fields="\n".join(fields))
    return _tell(messages, told)


def show_tools(messages: Messages, tools: Messages) -> list[dict[str, Any]]:
    """The conversation, with functions in its system message: for templates that have no place for them."""
    return _tell(messages, TOOLS.format(tools="\n".join(_write(tool) for tool in tools)))


def fitting(vocabulary: Vocabulary, given: Messages, shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is said in a system message before `given`; in the question, where the template takes no such message."""
    own = given[0]["role"] == "system"
    return shown if own or vocabulary.takes(shown) else without_system(shown)


def without_system(messages: Messages) -> list[dict[str, Any]]:
    """The system message's text before the first question's: some templates refuse a system message."""
    first, *others = ({**message} for message in messages)
    if first["role"] != "system" or not others or others[0]["role"] != "user":
        return [first, *others]
    return [{**others[0], "content": f"{first['content']}\n\n{others[0]['content']}"}, *others[1:]]


def list_fields(schema: Any) -> list[str] | None:
    """A line for each field of an object: its name, what it may be, its description. None: there is more to say.

    Or there would be more lines than schema, where it refers to the same again and again: servers bound its length
    alone. What is no schema is not refused here: whoever enforces it does that.
    """
    lines: list[str] = []
    left = len(json.dumps(schema))
    for line in _lines(schema):
        left -= len(line or "")
        if line is None or left < 0:
            return None
        lines.append(line)
    return lines


def _lines(schema: Any) -> Iterator[str | None]:
    """The lines of an object; None, and nothing more, where a line does not say it all."""
    properties = None if not isinstance(schema, Mapping) or set(schema) - OBJECT else schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        yield None
        return
    for name, own in properties.items():
        target = _follow(own, schema)
        kind = None if target is None else _kind(target)
        if target is not None and kind is not None:
            described = target.get("description")
            yield f"- {name} ({kind})" + (f": {described}" if described else "")
            continue
        for line in _lines(None if target is None else {**target, **_definitions(schema)}):
            yield line and f"- {name}.{line.removeprefix('- ')}"


def _follow(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a reference stands for; None where it is none of the root's definitions, or leads on."""
    if not isinstance(schema, Mapping):
        return None
    reference = schema.get("$ref")
    if reference is None:
        return schema
    place, _, name = str(reference).rpartition("/")
    definitions = root.get(place.removeprefix("#/")) if place.removeprefix("#/") in DEFINITIONS else None
    target = definitions.get(name) if isinstance(definitions, Mapping) else None
    return target if isinstance(target, Mapping) and "$ref" not in json.dumps(target) else None


def _definitions(root: Mapping[str, Any]) -> dict[str, Any]:
    return {key: root[key] for key in DEFINITIONS if key in root}


def _kind(schema: Mapping[str, Any]) -> str | None:
    """What a value may be, in words; None where words do not do."""
    if set(schema) - SIMPLE:
        return None
    if "enum" in schema or "const" in schema:
        options = schema["enum"] if "enum" in schema else [schema["const"]]
        if not isinstance(options, list) or not options:
            return None
        return " or ".join(json.dumps(option, ensure_ascii=False) for option in options)
    kind = schema.get("type")
    return kind if isinstance(kind, str) and kind not in ("object", "array") else None


def _tell(messages: Messages, text: str) -> list[dict[str, Any]]:
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
