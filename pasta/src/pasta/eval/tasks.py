"""Tasks with right answers, to see whether decoding in parallel costs accuracy.

`constraints`: prompts of our own in the manner of IFEval, each with conditions that a program can check.
`arithmetic`: word problems of our own, made from templates. (GSM8K's own file works as `--prompts gsm8k=FILE`: rows
with an `answer` that ends in `#### NUMBER` are scored in the same way.)
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from pasta.errors import UsageError
from pasta.tasks.numbers import last_number
from pasta.tasks.question import Question
from pasta.text.lists import items, numbered_lines
from pasta.text.sentences import paragraphs, sentences

Check = Callable[..., bool]


def built_in(name: str) -> list[Question]:
    if name == "arithmetic":
        return arithmetic()
    rows = json.loads(resources.files("pasta.eval").joinpath("constraints.json").read_text("utf-8"))
    return [Question(str(index), row["prompt"], row) for index, row in enumerate(rows)]


def score(question: Question, text: str) -> float | None:
    """The share of a question's conditions that an answer meets; None where it has none to check."""
    if "checks" in question.row:
        held = [holds(check, text) for check in question.row["checks"]]
        return sum(held) / len(held)
    right = right_number(question.row)
    return None if right is None else float(last_number(text) == right)


# -- numbers -----------------------------------------------------------------------------------------------


def right_number(row: Mapping[str, Any]) -> float | None:
    answer = row.get("answer")
    if isinstance(answer, int | float):
        return float(answer)
    if isinstance(answer, str) and "####" in answer:
        return last_number(answer.rpartition("####")[2])
    return None


TEMPLATES: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    ("{name} has {a} apples and buys {b} more. How many apples does {name} have now?", lambda a, b, c: a + b),
    ("{name} had {d} coins and gave {b} of them away. How many coins are left?", lambda a, b, c: a + b + c - b),
    ("A box holds {c} pens. How many pens are in {b} boxes?", lambda a, b, c: b * c),
    ("{name} reads {c} pages a day. How many pages does {name} read in {b} days?", lambda a, b, c: b * c),
    ("{name} has {a} red balls and {b} blue balls, and loses {c} of them. How many balls are left?",
     lambda a, b, c: a + b - c),
    ("A ticket costs {c} dollars. {name} buys {b} tickets and a drink for {a} dollars. How many dollars is that?",
     lambda a, b, c: b * c + a),
)  # fmt: skip
NAMES = ("Anna", "Ben", "Chloe", "David", "Emma", "Frank", "Grace", "Henry", "Iris", "Jack")
EACH = 10  # problems of a template


def arithmetic() -> list[Question]:
    """Word problems of one or two steps with small numbers, the same in every run."""
    draw = random.Random(7)
    questions: list[Question] = []
    for text, solve in TEMPLATES:
        for _ in range(EACH):
            a, b, c = draw.randint(8, 30), draw.randint(3, 9), draw.randint(2, 6)
            asked = text.format(name=draw.choice(NAMES), a=a, b=b, c=c, d=a + b + c)
            prompt = f"{asked} End your answer with the number."
            questions.append(Question(str(len(questions)), prompt, {"answer": solve(a, b, c)}))
    return questions


# -- conditions ----------------------------------------------------------------------------------------------


def holds(check: Mapping[str, Any], text: str) -> bool:
    options = dict(check)
    kind = options.pop("kind")
    if kind not in CHECKS:
        raise UsageError(f"unknown check {kind!r}", hint=f"use one of {', '.join(CHECKS)}")
    return CHECKS[kind](text.strip(), **options)


def _words(text: str, least: int = 0, most: int = 10**9) -> bool:
    return least <= len(text.split()) <= most


def _sentences(text: str, most: int) -> bool:
    return 1 <= len(sentences(text)) <= most


def _contains(text: str, words: list[str], times: int = 1) -> bool:
    return all(len(re.findall(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)) >= times for word in words)


def _excludes(text: str, words: list[str]) -> bool:
    return not any(re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in words)


def _letters(text: str) -> str:
    return "".join(character for character in text if character.isalpha())


def _json(text: str, keys: list[str]) -> bool:
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text, re.DOTALL)
    try:
        value = json.loads(fenced.group(1) if fenced else text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and all(key in value for key in keys)


def _paragraphs(text: str, count: int) -> bool:
    return len(paragraphs(text)) == count


CHECKS: dict[str, Check] = {
    "bullets": lambda text, count: sum(item.number is None for item in items(text)) == count,
    "numbered": lambda text, count: len(numbered_lines(text)) == count,
    "words": _words,
    "sentences": _sentences,
    "contains": _contains,
    "excludes": _excludes,
    "no_commas": lambda text: "," not in text,
    "lower_case": lambda text: bool(_letters(text)) and _letters(text) == _letters(text).lower(),
    "upper_case": lambda text: bool(_letters(text)) and _letters(text) == _letters(text).upper(),
    "ends_with": lambda text, phrase: text.rstrip('"*').endswith(phrase),
    "starts_with": lambda text, phrase: text.lstrip('"*').startswith(phrase),
    "json": _json,
    "paragraphs": _paragraphs,
    "quoted": lambda text: len(text) > 1 and text[0] in '"“' and text[-1] in '"”',
    "angular_title": lambda text: bool(re.search(r"<<[^<>\n]+>>", text)),
    "placeholders": lambda text, least: len(re.findall(r"\[[^\[\]\n]+\]", text)) >= least,
}
