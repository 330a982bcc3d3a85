"""Answers made worse on purpose, in the ways in which a small model that decodes in parallel fails.

GPT-4's preferences say little about such answers: the models that it judged rarely loop, stop in the middle, or
write one block twice. Each function takes an answer and returns it spoiled, or None where that cannot be done.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

SENTENCE = re.compile(r"[^.!?\n]+[.!?]*\s*|\n+")
ITEM = re.compile(r"^(\s*(?:\d+[.)]|[-*•])\s+)(.*)$", re.MULTILINE)
SHORTEST = 80  # characters of an answer that is worth spoiling


def cut(text: str, rng: random.Random) -> str | None:
    """Stops in the middle of a sentence."""
    words = [match.end() for match in re.finditer(r"\w(?=\s)", text)]
    inside = [end for end in words if 0.15 * len(text) < end < 0.75 * len(text)]
    return text[: rng.choice(inside)] if inside else None


def stub(text: str, rng: random.Random) -> str | None:
    """Stops after a few words."""
    words = text.split()
    return " ".join(words[: rng.randint(1, 8)]) if len(words) > 12 else None


def loop(text: str, rng: random.Random) -> str | None:
    """Says one sentence again and again, until there is no room left."""
    sentences = [match for match in SENTENCE.finditer(text) if len(match.group().split()) >= 4]
    if not sentences:
        return None
    caught = rng.choice(sentences)
    times = rng.randint(2, 12)
    again = caught.group() if caught.group()[-1].isspace() else caught.group() + " "
    return (text[: caught.start()] + again * times).rstrip()


def double(text: str, rng: random.Random) -> str | None:
    """Writes a paragraph, or the whole answer, twice."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    if len(parts) < 2:
        return f"{text}\n\n{text}"
    at = rng.randrange(len(parts))
    place = rng.randint(at + 1, len(parts))
    return "\n\n".join([*parts[:place], parts[at], *parts[place:]])


def repeat_items(text: str, rng: random.Random) -> str | None:
    """Fills several items of a list with the words of one: parallel blocks that did not know of each other."""
    items = list(ITEM.finditer(text))
    if len(items) < 3:
        return None
    source = rng.choice(items)
    chosen = {item.start() for item in rng.sample(items, max(2, len(items) // 2))}
    return ITEM.sub(lambda m: m.group(1) + source.group(2) if m.start() in chosen else m.group(), text)


def swap_items(text: str, rng: random.Random) -> str | None:
    """Gives each item of a list the explanation that belongs to another."""
    items = [item for item in ITEM.finditer(text) if ": " in item.group(2)]
    if len(items) < 3:
        return None
    bodies = [item.group(2).partition(": ")[2] for item in items]
    turned = bodies[1:] + bodies[:1]
    new = dict(zip([item.start() for item in items], turned, strict=True))

    def swapped(match: re.Match[str]) -> str:
        if match.start() not in new:
            return match.group()
        return match.group(1) + match.group(2).partition(": ")[0] + ": " + new[match.start()]

    return ITEM.sub(swapped, text)


def shuffle(text: str, rng: random.Random) -> str | None:
    """Puts the sentences into another order."""
    sentences = [match.group() for match in SENTENCE.finditer(text)]
    if sum(len(sentence.split()) >= 3 for sentence in sentences) < 4:
        return None
    mixed = sentences[:]
    rng.shuffle(mixed)
    return "".join(mixed) if mixed != sentences else None


SPOILERS: dict[str, Callable[[str, random.Random], str | None]] = {
    "cut": cut,
    "stub": stub,
    "loop": loop,
    "double": double,
    "repeat_items": repeat_items,
    "swap_items": swap_items,
    "shuffle": shuffle,
}
OFF_TOPIC = "off_topic"  # the answer to another prompt: needs another prompt, so the caller makes it
KINDS = (*SPOILERS, OFF_TOPIC)


def spoil(text: str, rng: random.Random, other: str, kind: str | None = None) -> tuple[str, str] | None:
    """A kind and the spoiled text; `other` is an answer to another prompt. None: no kind fits."""
    if len(text) < SHORTEST:
        return (OFF_TOPIC, other) if kind in (None, OFF_TOPIC) else None
    kinds = [kind] if kind else rng.sample(KINDS, len(KINDS))
    for name in kinds:
        spoiled = other if name == OFF_TOPIC else SPOILERS[name](text, rng)
        if spoiled and spoiled.strip() != text.strip():
            return name, spoiled
    return None
