"""Values decoded at the same time, then looked at again: each where those before it stand as they were said.

A value that the second look leaves as it was is what decoding one after another gives, if all before it are. Repeated
until nothing changes, the whole is what greedy decoding gives sequentially (but for texts that have several spellings
in tokens).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pasta.eval.extraction.answer import Answer
from pasta.eval.extraction.item import Item

ROUNDS = {"twice": 1, "settled": 1000}  # by mode: the most rounds after the first answer

Decode = Callable[[Sequence[Item]], list[Answer]]  # one after another, each value seeing those before it


@dataclass(slots=True)
class Draft:
    item: Item
    answer: Answer
    stale: list[int]  # the fields that have not been decoded since one before them changed


def revise(items: Sequence[Item], answers: Sequence[Answer], rounds: int, decode: Decode) -> list[Answer]:
    """The answers, looked at again. Those that a limit cut stay as they are."""
    drafts = [
        Draft(
            item,
            replace(answer, checked_steps=answer.steps),
            list(range(1, len(item.schema["properties"]))) if answer.value is not None else [],
        )
        for item, answer in zip(items, answers, strict=True)
    ]
    for _ in range(rounds):
        asked = [(draft, field) for draft in drafts for field in draft.stale]
        if not asked:
            break
        said = decode([up_to(draft.item, draft.answer.value or {}, field) for draft, field in asked])
        for draft in drafts:
            own = {field: each for (other, field), each in zip(asked, said, strict=True) if other is draft}
            if own:
                look(draft, own)
    return [draft.answer for draft in drafts]


def up_to(item: Item, value: Mapping[str, Any], field: int) -> Item:
    """The item with the fields before this one given, and without those after it."""
    properties = item.schema["properties"]
    names = list(properties)
    before = {name: {"const": value.get(name)} for name in names[:field]}
    required = [*before, *(name for name in (names[field],) if name in item.schema.get("required", ()))]
    schema = {**item.schema, "properties": {**before, names[field]: properties[names[field]]}, "required": required}
    return replace(item, schema=schema, after={})


def look(draft: Draft, said: Mapping[int, Answer]) -> None:
    """Takes what a round said of an answer's fields; those behind the first that changed are stale again."""
    assert draft.answer.value is not None
    names = list(draft.item.schema["properties"])
    value = dict(draft.answer.value)
    changed = []
    for field, answer in said.items():
        name = names[field]
        if answer.value is not None and answer.value.get(name) != value.get(name):
            changed.append(field)
            value.pop(name, None)
            if name in answer.value:
                value[name] = answer.value[name]
    draft.stale = list(range(min(changed) + 1, len(names))) if changed else []
    assert draft.answer.checked_steps is not None
    draft.answer = replace(
        draft.answer,
        checked_steps=draft.answer.checked_steps + max((said[field].steps for field in changed), default=1),
        value={name: value[name] for name in names if name in value},
        steps=draft.answer.steps + max(each.steps for each in said.values()),
        decoded_tokens=draft.answer.decoded_tokens + sum(each.decoded_tokens for each in said.values()),
        forced_tokens=draft.answer.forced_tokens + sum(each.forced_tokens for each in said.values()),
        critical_path=draft.answer.critical_path + max(each.critical_path for each in said.values()),
    )
