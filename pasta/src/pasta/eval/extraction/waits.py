"""Which fields of an item wait for which, by rules that know the schema and no right answer.

Each rule is a mode of the evaluation, beside those of `extract`: values are decoded at the same time, but for those
that wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pasta.eval.extraction.item import Item

Waits = dict[str, list[str]]
SHORT = 3  # words of a question that says nothing without those before it
REFERRING = frozenset(
    "he she it they him her them his hers its their theirs himself herself itself themselves this that these those "
    "there then else other others another one ones so too also either neither both same such and or but".split()
)


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


def turns(item: Item) -> Waits:
    """What is true of any conversation: each question may need all before it."""
    names = list(_fields(item))
    return {name: names[:n] for n, name in enumerate(names) if n}


def leaning(item: Item) -> Waits:
    """A question that names nothing by itself ("Who?", "Did he?") waits for all before it; the others for nobody."""
    questions = _questions(item)
    return {name: others for name, others in turns(item).items() if leans(questions.get(name, name))}


def leans(question: str) -> bool:
    """Whether a question is short, or speaks of something by a word that stands for another."""
    words = re.findall(r"[a-z']+", question.lower())
    return len(words) <= SHORT or not REFERRING.isdisjoint(words)


RULES: dict[str, Callable[[Item], Waits]] = {
    "after": given,
    "optional": optional,
    "doubling": doubling,
    "alike": alike,
    "turns": turns,
    "leaning": leaning,
}


def _fields(item: Item) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = item.schema["properties"]
    return fields


def _questions(item: Item) -> dict[str, str]:
    """By field, what the prompt asks of it, where it lists questions as `name: question`."""
    _, _, rest = item.prompt.partition("\n\nQuestions:\n")
    lines = rest.partition("\n\n")[0].split("\n")
    return dict(line.split(": ", 1) for line in lines if ": " in line)
