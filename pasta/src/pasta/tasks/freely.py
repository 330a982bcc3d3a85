"""Functions as people ask for them, in no form; and an answer as they expect it: each function under its name.

A model that was taught one form would fork in that form alone. So examples are made of some wordings (`TAUGHT`), and
the task `freely` measures with others (`ASKED`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pasta.lang import Node, Promise, Response, Text, estimate
from pasta.tasks.problem import Problem

Wording = Callable[[Sequence[Problem]], str]
Count = Callable[[str], int]  # the tokens of a text

LEAD = re.compile(r"write a (?:python )?function (?:to|that|which) ", re.IGNORECASE)
BETWEEN = "\n\n"


def ask(problems: Sequence[Problem], wording: int) -> str:
    """The prompt of the task `freely`: the wordings take turns."""
    return ASKED[wording % len(ASKED)](problems)


def answer(problems: Sequence[Problem], bodies: Sequence[str], count: Count) -> Response:
    """Each function in a block of its own, whose topic is its name; one alone is no block."""
    if len(bodies) == 1:
        return Response((Text(bodies[0]),))
    nodes: list[Node] = []
    for problem, body in zip(problems, bodies, strict=True):
        inside = (Text(f"{BETWEEN if nodes else ''}**{problem.name}**\n{body}"),)
        nodes.append(Promise(problem.name, estimate(inside, count), inside))
    return Response(tuple(nodes))


# -- what is said of a function ------------------------------------------------------------------------------


def deed(problem: Problem) -> str:
    """What it is to do: "find the square root", of "Write a function to find the square root."."""
    text = problem.text.rstrip(" .")
    return LEAD.sub("", text, count=1) if LEAD.match(text) else f"do this: {text}"


def example(problem: Problem) -> str:
    return problem.tests[0].strip().removeprefix("assert ").strip()


def listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + (", and " if len(parts) > 2 else " and ") + parts[-1] if parts[1:] else parts[0]


def one(problems: Sequence[Problem], single: str, several: str) -> str:
    return single if len(problems) == 1 else several


# -- wordings that are taught ----------------------------------------------------------------------------------


def numbered(problems: Sequence[Problem]) -> str:
    asked = one(problems, "Write this function in Python:", "Write Python functions for the following:")
    return "\n".join([asked, *(f"{number}. {each.name}: {each.text}" for number, each in enumerate(problems, start=1))])


def in_sentence(problems: Sequence[Problem]) -> str:
    parts = [f"{each.name}, to {deed(each)}" for each in problems]
    return f"Write {one(problems, 'a function', f'{len(problems)} functions')} in Python: {'; '.join(parts)}."


def with_checks(problems: Sequence[Problem]) -> str:
    parts = [f"{each.name} should {deed(each)}. It must hold that {example(each)}." for each in problems]
    return BETWEEN.join([one(problems, "Implement this in Python.", "Implement these functions in Python."), *parts])


def after_each_other(problems: Sequence[Problem]) -> str:
    return "\n\nAlso: ".join(f"{each.text} Call it {each.name}." for each in problems)


# -- wordings that are measured with ---------------------------------------------------------------------------


def as_bullets(problems: Sequence[Problem]) -> str:
    lines = [f"- `{each.name}`: {deed(each)}, so that `{example(each)}`" for each in problems]
    return "\n".join(["Can you give me Python code for this?", "", *lines])


def as_wish(problems: Sequence[Problem]) -> str:
    parts = [f"{each.name} to {deed(each)} (say, {example(each)})" for each in problems]
    return f"I am writing a small library in Python and still need {listed(parts)}. Could you write that for me?"


def as_stubs(problems: Sequence[Problem]) -> str:
    stubs = [f"def {each.name}(...):\n    # {deed(each)}\n    # {example(each)}\n    ..." for each in problems]
    return BETWEEN.join(["Fill in the code:", *stubs])


TAUGHT: tuple[Wording, ...] = (numbered, in_sentence, with_checks, after_each_other)
ASKED: tuple[Wording, ...] = (as_bullets, as_wish, as_stubs)
