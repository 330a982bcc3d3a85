"""Which fields of an item wait for which, by rules that know the schema and no right answer.

Each rule is a mode of the evaluation, beside those of `extract`: values are decoded at the same time, but for those
that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pasta.eval.extraction.item import Item

Waits = dict[str, list[str]]


def given(item: Item) -> Waits:
    """What the set says by itself."""
    return {name: list(others) for name, others in item.after.items()}


def optional(item: Item) -> Waits:
    """A field that may be left out waits for those that may not: whether it is there depends on what was said."""
    fields, required = _fields(item), [name for name in _fields(item) if name in item.schema.get("required", ())]
    return {name: required for name in fields if name not in required} if required else {}


def doubling(item: Item) -> Waits:
    """In waves of 1, 1, 2, 4, …: each as many as there are before it, which it sees."""
    fields = list(_fields(item))
    return {fields[n]: fields[: 2 ** (n.bit_length() - 1)] for n in range(1, len(fields))}


def alike(item: Item) -> Waits:
    """A field waits for the ones before it of the same schema: two numbers are easily taken for each other."""
    fields = _fields(item)
    names = list(fields)
    waits = {name: [other for other in names[:n] if fields[other] == fields[name]] for n, name in enumerate(names)}
    return {name: others for name, others in waits.items() if others}


RULES: dict[str, Callable[[Item], Waits]] = {
    "after": given,
    "optional": optional,
    "doubling": doubling,
    "alike": alike,
}


def _fields(item: Item) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = item.schema["properties"]
    return fields
