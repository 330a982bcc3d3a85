"""A schema in plainer words: what forbids nothing is left out, and what grammars know by another name is called that.

Libraries write such schemas: zod a `propertyNames` for every map, pydantic one with the names of an enum, others
`uniqueItems: false`, and the largest integer of their language for no limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pasta.structured.schema import BY_NAME, DEFINITIONS, LISTS, MAX_PROPERTIES, NOTES, SINGLE, Document, Schema

LEAST = ("minLength", "minItems", "minProperties", "minContains")
MOST = ("maxLength", "maxItems", "maxProperties", "maxContains")
BESIDE_ZERO = 1e-15  # the least number that a grammar is asked for: a float's own has 324 digits
ENDLESS = 1 << 31  # characters or elements: nothing that is decoded has as many
#: What texts of a format are held to beside it: libraries know no leap second, and digits have no end by themselves.
HELD = {
    "time": "^[0-9:]{6}[0-5]",
    "date-time": "^[^:]*:[0-9]{2}:[0-5]",
    "duration": "^([A-Z]+[0-9]{1,6})+[A-Z]$",
}

Follow = Callable[[Schema], Schema]  # what a reference stands for


class PlainDocument(Document):
    """A whole schema in plainer words. Its references are to places of the one that was written, of the right form."""

    def __init__(self, written: Document):
        self._written = written
        self._found: dict[str, Schema] = {}
        super().__init__(self._plain(written.root))

    def resolve(self, reference: str) -> Schema:
        if reference not in self._found:
            self._found[reference] = self._plain(self._written.resolve(reference))
        return self._found[reference]

    def _plain(self, schema: Schema) -> Schema:
        return plain(schema, lambda part: self._written.follow(part)[0])


def plain(schema: Any, follow: Follow) -> Any:
    """The same schema; `schema` is of the right form."""
    if isinstance(schema, list):
        return [plain(each, follow) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {key: _within(key, value, follow) for key, value in schema.items()}
    for keyword in (*LEAST, *MOST):
        count = out.get(keyword)
        if isinstance(count, float) and count.is_integer():
            out[keyword] = int(count)
        if keyword in MOST and isinstance(count, int | float) and count >= ENDLESS:
            del out[keyword]
    if out.get("uniqueItems") is False:
        del out["uniqueItems"]
    _exclude_bounds(out)
    if out.get("format") in HELD:
        out.setdefault("pattern", HELD[out["format"]])
    if "propertyNames" in out:
        _name_keys(out, follow(out["propertyNames"]))
    return out


def _exclude_bounds(schema: dict[str, Any]) -> None:
    """A whole number that is excluded, where the other bound is less than 1 further from 0: grammars would let it in.

    So above 2 becomes from the least float above 2.
    """
    if schema.get("type") == "integer":
        return
    for name, other, away in (("Minimum", "Maximum", 1), ("Maximum", "Minimum", -1)):
        bound = _number(schema, f"exclusive{name}")
        others = [_number(schema, key) for key in (other.lower(), f"exclusive{other}")]
        if bound is None or bound * away < 0 or not float(bound).is_integer():
            continue
        if any(each is not None and 0 < (each - bound) * away < 1 for each in others):
            del schema[f"exclusive{name}"]
            least = math.nextafter(bound, bound + away) if bound else away * BESIDE_ZERO
            own = _number(schema, name.lower())
            schema[name.lower()] = least if own is None or (least - own) * away > 0 else own


def _number(schema: Mapping[str, Any], keyword: str) -> int | float | None:
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _within(keyword: str, value: Any, follow: Follow) -> Any:
    if keyword in BY_NAME or keyword in DEFINITIONS:
        return {name: plain(each, follow) for name, each in value.items()}
    return plain(value, follow) if keyword in LISTS or keyword in SINGLE else value


def _name_keys(schema: dict[str, Any], names: Schema) -> None:
    """Keys of any name need no word; those of a list, a pattern or a length are properties that may be left out."""
    said = {key: names[key] for key in set(names) - NOTES} if isinstance(names, Mapping) else {}
    if names is False or said.pop("type", "string") != "string":
        return
    if not said:
        del schema["propertyNames"]
        return
    if {"properties", "patternProperties"} & set(schema):
        return
    others = schema.get("additionalProperties", True)
    listed = [said["const"]] if set(said) == {"const"} else said["enum"] if set(said) == {"enum"} else None
    if listed is not None and len(listed) <= MAX_PROPERTIES:
        schema["properties"] = {name: others for name in listed if isinstance(name, str)}
    elif (pattern := _pattern(said)) is not None:
        schema["patternProperties"] = {pattern: others}
    else:
        return
    schema["additionalProperties"] = False
    del schema["propertyNames"]


def _pattern(said: Mapping[str, Any]) -> str | None:
    """One pattern that says the same of a text; None where none is known."""
    if set(said) == {"pattern"}:
        return str(said["pattern"])
    if set(said) <= {"minLength", "maxLength"}:
        least, most = int(said.get("minLength", 0)), int(said.get("maxLength", ENDLESS))
        if least <= most:
            return rf"^[\s\S]{{{least},{most if most < ENDLESS else ''}}}$"
    return None
