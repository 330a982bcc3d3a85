"""From right answers to single problems to one answer to all of them, marked as it was made.

Answers that were written apart do not need each other, so each is a block; what was made of them stands behind a sync;
two problems of which one needs the other are one thread. Nothing has to be guessed, and nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pasta.lang import Node, Promise, Response, Sync, Text, estimate
from pasta.tasks import freely
from pasta.tasks.bundle import Bundle
from pasta.tasks.marking import FENCE, last_function
from pasta.tasks.numbers import spelled

Count = Callable[[str], int]  # the tokens of a text

BETWEEN = "\n\n"
LAST_LINE = re.compile(r"(?:\A|\n)[^\n]*\banswer\W+(?:is\W+)?[^\n]*\Z", re.IGNORECASE)


def body_of(bundle: Bundle, number: int, answer: str) -> str:
    """What stands under the heading of a part: the answer to that problem by itself, with its last line in one form."""
    problem = bundle.problems[number - 1]
    if problem.is_code:
        found = FENCE.findall(answer)
        return f"```python\n{(found[0] if found else answer).strip()}\n```"
    steps = LAST_LINE.sub("", answer.strip()).strip()
    known = ""
    if bundle.is_linked(number):
        known = f"X is {spelled(bundle.problems[number - 2].answer or 0)}."
    return "\n".join(filter(None, (known, steps, f"Answer: {spelled(problem.answer or 0)}")))


def compose(bundle: Bundle, answers: Sequence[str], count: Count) -> Response:
    """The answer to a bundle, of the answers to its problems.

    A topic is the number of its problem: the noun beside it would tell no block from another, and take two steps each.
    For the same reason the line between two parts is in the block that it leads to.
    """
    if bundle.task == "plain":
        return Response((Text(body_of(bundle, 1, answers[0])),))
    bodies = [body_of(bundle, number, answer) for number, answer in enumerate(answers, start=1)]
    if bundle.task == "freely":
        return freely.answer(bundle.problems, bodies, count)
    blocks = [f"{bundle.heading(number)}\n{body}" for number, body in enumerate(bodies, start=1)]
    linked = [blocks.pop()] if bundle.is_linked(len(blocks)) else []
    if linked and len(blocks) == 1:
        return Response((Text(BETWEEN.join([*blocks, *linked])),))
    nodes: list[Node] = []
    for number, block in enumerate(blocks, start=1):
        inside = (Text(f"{BETWEEN}{block}" if nodes else block),)
        nodes.append(Promise(str(number), estimate(inside, count), inside))
    if linked:
        nodes += [Sync(), Text(f"{BETWEEN}{linked[0]}")]
    if bundle.end:
        nodes += [Sync(), Text(f"{BETWEEN}{bundle.end_heading}\n{end_of(bundle, bodies)}")]
    return Response(tuple(nodes))


def end_of(bundle: Bundle, bodies: Sequence[str]) -> str:
    """What needs all parts, made of what they came to."""
    if bundle.end == "main":
        names = [last_function(FENCE.findall(f"{body}\n")[0]) for body in bodies]
        calls = [f"{name}(*{given})" for name, given in zip(names, bundle.arguments, strict=True)]
        return f"```python\ndef main({', '.join(bundle.arguments)}):\n    return [{', '.join(calls)}]\n```"
    numbers = [problem.answer or 0.0 for problem in bundle.problems]
    shown = [spelled(number) for number in numbers]
    if bundle.end == "total":
        return f"{' + '.join(shown)} = {spelled(sum(numbers))}\nAnswer: {spelled(sum(numbers))}"
    return f"The answers are {', '.join(shown[:-1])} and {shown[-1]}.\nAnswer: {spelled(max(numbers))}"
