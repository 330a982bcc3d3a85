"""Whether a schema is one at all: what each keyword must be, so that nobody else need ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pasta.structured.errors import SchemaError
from pasta.structured.plain import LEAST, MOST
from pasta.structured.schema import BY_NAME, DEFINITIONS, LISTS, SINGLE, escape, numbers_in

NUMBERS = frozenset({"minimum", "maximum"})
TEXTS = frozenset({"$ref", "pattern", "format"})
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def check_form(root: Any) -> None:
    """Refuses what is no schema, at its place. `root` is JSON, and within bounds."""
    waiting = [(root, "")]
    while waiting:
        part, pointer = waiting.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            raise SchemaError(f"it is {part!r:.60}, expected an object, true or false", pointer)
        for keyword, value in part.items():
            expected, is_right = _rule(keyword)
            if not is_right(value):
                raise SchemaError(f"{keyword} is {value!r:.60}, expected {expected}", pointer, keyword)
            waiting += [(each, f"{pointer}/{place}") for each, place in _schemas_in(keyword, value)]


def _rule(keyword: str) -> tuple[str, Callable[[Any], bool]]:
    """What a keyword's value should be: in words, and as a test."""
    if keyword in BY_NAME or keyword in DEFINITIONS:
        return "an object of schemas", lambda value: isinstance(value, Mapping)
    if keyword in LISTS:
        return "a list of schemas", lambda value: isinstance(value, list)
    if keyword == "required":
        return "a list of names", _is_list_of_texts
    if keyword == "enum":
        return "a list of values that JSON has", lambda value: isinstance(value, list) and _is_finite(value)
    if keyword == "const":
        return "a value that JSON has", _is_finite
    if keyword == "type":
        return f"one of {', '.join(TYPES)}, or a list of them", _names_types
    if keyword in TEXTS:
        return "a string", lambda value: isinstance(value, str)
    if keyword in LEAST:
        return "a whole number from 0", _is_count
    if keyword in MOST:
        return "a whole number from 0", lambda value: _is_count(value) or value == float("inf")
    if keyword == "multipleOf":
        return "a number above 0", lambda value: _is_number(value) and _is_finite(value) and value > 0
    if keyword in NUMBERS:
        return "a number", lambda value: _is_number(value) and _is_finite(value)
    return "", lambda value: True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _is_finite(value: Any) -> bool:
    return all(abs(number) < float("inf") for number in numbers_in(value))


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _names_types(value: Any) -> bool:
    return all(each in TYPES for each in (value if isinstance(value, list) else [value]))


def _schemas_in(keyword: str, value: Any) -> Iterator[tuple[Any, str]]:
    """The schemas of a keyword's value, each with its place."""
    if keyword in BY_NAME or keyword in DEFINITIONS:
        for name, each in value.items():
            if not (keyword == "dependencies" and isinstance(each, list)):  # which names keys, in older schemas
                yield each, f"{keyword}/{escape(name)}"
    elif keyword in LISTS or (keyword == "items" and isinstance(value, list)):
        for index, each in enumerate(value):
            yield each, f"{keyword}/{index}"
    elif keyword in SINGLE:
        yield value, keyword
