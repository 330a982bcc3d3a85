"""Modes between parallel and sequential: which fields of an object wait for which, where nobody said it.

A field that somebody said something of, or of a part of it, is left as it was said, and no other waits for it by a
rule: so rules close no circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

Fields = Sequence[tuple[str, bool]]  # of an object, by pointer: whether the field must be there
Waits = Iterator[tuple[str, tuple[str, ...]]]  # a field, and those that it waits for


def lead(fields: Fields, said: Set[str]) -> Waits:
    """All wait for the first, which sets the form of their answers."""
    first = next((place for place, _ in fields if _free(place, said)), None)
    for place, _ in fields:
        if first is not None and place != first and place not in said:
            yield place, (first,)


def leftover(fields: Fields, said: Set[str]) -> Waits:
    """Whether an optional one is there depends on the others: it waits for the required and the optional before it."""
    before = [place for place, required in fields if required and _free(place, said)]
    for place, required in fields:
        if not required and place not in said:
            yield place, tuple(before)
        if not required and _free(place, said):
            before.append(place)


WAYS: Mapping[str, Callable[[Fields, Set[str]], Waits]] = {"lead": lead, "leftover": leftover}


def _free(place: str, said: Set[str]) -> bool:
    return not any(each == place or each.startswith(f"{place}/") for each in said)
