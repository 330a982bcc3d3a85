"""Answers made worse on purpose, in the ways in which a small model that decodes in parallel fails.

GPT-4's preferences say little about such answers: the models that it judged rarely loop, stop in the middle, or
write one block twice. Each function takes an answer and returns it spoiled, or None where that cannot be done.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from pasta.text.lists import items

SENTENCE = re.compile(r"[^.!?\n]+[.!?]*\s*|\n+")
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
    listed = items(text)
    if len(listed) < 3:
        return None
    source = rng.choice(listed)
    for item in sorted(rng.sample(listed, max(2, len(listed) // 2)), key=lambda item: -item.start):
        text = text[: item.text_start] + source.content + text[item.text_start + len(item.content) :]
    return text


def swap_items(text: str, rng: random.Random) -> str | None:
    """Gives each item of a list the explanation that belongs to another."""
    listed = [item for item in items(text) if ": " in item.content]
    if len(listed) < 3:
        return None
    bodies = [item.content.partition(": ")[2] for item in listed]
    for item, own, new in reversed(list(zip(listed, bodies, bodies[1:] + bodies[:1], strict=True))):
        end = item.text_start + len(item.content)
        text = text[: end - len(own)] + new + text[end:]
    return text


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
