"""Alternatives that multiply: what `allOf` puts together is compiled for each combination of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pasta.structured.errors import SchemaError
from pasta.structured.schema import BY_NAME, SINGLE, Schema, parts

MAX_COMBINATIONS = 1_000  # of 560 schemas in use the most has 100
MANY = 10**9  # are not told apart
ALTERNATIVES = ("anyOf", "oneOf")


def check_combinations(root: Schema, resolve: Callable[[str], Schema]) -> None:
    """Refuses a schema with too many combinations in one place. A circle of references counts once."""
    ways: dict[int, int] = {}
    for start in parts(root):
        waiting = [(start, False)]
        while waiting:
            part, is_known = waiting.pop()
            if not isinstance(part, Mapping) or (id(part) in ways and not is_known):
                continue
            if is_known:
                ways[id(part)] = _ways(part, resolve, lambda each: ways.get(id(each), 1))
            else:
                ways[id(part)] = 1
                waiting += [(part, True), *((each, False) for each in _inside(part, resolve))]


def _ways(part: Mapping[str, Any], resolve: Callable[[str], Schema], of: Callable[[Any], int]) -> int:
    """In how many ways a part can be met, as far as they multiply, by those of what is inside."""
    factors = [sum(map(of, part[key])) for key in ALTERNATIVES if isinstance(part.get(key), list) and part[key]]
    factors += [of(each) for each in part["allOf"]] if isinstance(part.get("allOf"), list) else []
    factors += [of(each) for each in _target(part, resolve)]
    found = min(math.prod(factors), MANY)
    if found > MAX_COMBINATIONS and sum(factor > 1 for factor in factors) > 1:
        keyword = "allOf" if "allOf" in part else "anyOf"
        why = f"its alternatives combine in more than {MAX_COMBINATIONS} ways"
        raise SchemaError(why, keyword=keyword, hint="give allOf fewer parts with anyOf in them")
    return max([found, *map(of, _deeper(part))])


def _inside(part: Mapping[str, Any], resolve: Callable[[str], Schema]) -> Iterator[Any]:
    for key in (*ALTERNATIVES, "allOf"):
        yield from part[key] if isinstance(part.get(key), list) else ()
    yield from _target(part, resolve)
    yield from _deeper(part)


def _target(part: Mapping[str, Any], resolve: Callable[[str], Schema]) -> Iterator[Schema]:
    """What a reference stands for; one that leads nowhere is told of where it is followed."""
    if isinstance(part.get("$ref"), str):
        try:
            yield resolve(part["$ref"])
        except SchemaError:
            return


def _deeper(part: Mapping[str, Any]) -> Iterator[Any]:
    """Schemas of properties and elements: those of one name are put together as well."""
    for key, value in part.items():
        if key in BY_NAME and isinstance(value, Mapping):
            yield from value.values()
        elif key == "prefixItems" and isinstance(value, list):
            yield from value
        elif key in SINGLE:
            yield value
