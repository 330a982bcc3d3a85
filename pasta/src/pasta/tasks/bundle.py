"""Several problems in one prompt, and the one form in which they are to be answered.

    **Problem 1**
    48 / 2 = 24 clips in May, …
    Answer: 72

    **Problem 2**
    …

A block of the answer is a heading and what stands under it. `end` asks for something that needs all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Literal

from pasta.tasks import freely
from pasta.tasks.problem import FREE_NAME, Problem
from pasta.tasks.question import Question

Task = Literal["several", "gather", "chain", "plain", "freely"]
TASKS: tuple[Task, ...] = ("several", "gather", "chain", "plain", "freely")
End = Literal["total", "largest", "main"]
Style = Literal["steps", "brief"]

WRITE_NUMBER = 'end with a line "Answer: " and the number'
WRITE_CODE = "in a ```python block, and nothing else"
LINK = re.compile(r"(?<![\w.,/%-])[1-9]\d{0,5}(?![\w%/-]|[.,]\d)")
STYLES: dict[Style, str] = {"steps": "Show the steps", "brief": "Write the calculations alone, one a line"}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Problems of one kind. In a chain the last one needs the answer of the one before it."""

    task: Task
    problems: tuple[Problem, ...]
    end: End | None = None
    style: Style = "steps"
    link: str = ""  # of a chain: the last problem's text with X in place of a number (`links_of`)
    wording: int = 0  # of functions that are asked for freely

    @property
    def is_code(self) -> bool:
        return self.problems[0].is_code

    @property
    def noun(self) -> str:
        return "Function" if self.is_code else "Problem"

    @property
    def is_free(self) -> bool:
        """Whether the functions' names are the writer's to choose: whoever calls them must have read them."""
        return self.end == "main"

    @property
    def arguments(self) -> str:
        """What `main` calls its arguments: a letter for each function, for the tuple that this one is called with."""
        return ascii_lowercase[: len(self.problems)]

    def is_linked(self, number: int) -> bool:
        """Whether this problem cannot be solved before another."""
        return self.task == "chain" and number == len(self.problems)

    def heading(self, number: int) -> str:
        return f"**{self.noun} {number}**"

    @property
    def end_heading(self) -> str:
        return f"**{str(self.end).capitalize()}**"

    # -- what is asked -----------------------------------------------------------------------------------

    @property
    def prompt(self) -> str:
        if self.task == "plain":
            return plain_prompt(self.problems[0], self.style)
        if self.task == "freely":
            return freely.ask(self.problems, self.wording)
        count = len(self.problems)
        asked = f"Write these {count} Python functions." if self.is_code else f"Solve these {count} problems."
        parts = [asked, *(self._part(number) for number in range(1, count + 1)), self._form()]
        if self.end:
            parts.append(self._ask_end())
        return "\n\n".join(parts)

    def _part(self, number: int) -> str:
        problem = self.problems[number - 1]
        if self.is_linked(number):
            return f"{self.noun} {number} (X is the answer to Problem {number - 1}): {self.link}"
        return f"{self.noun} {number}: {described(problem, FREE_NAME if self.is_free else '')}"

    def _form(self) -> str:
        head = f'Head each one "**{self.noun} N**"'
        if not self.is_code:
            return f"{head}. {STYLES[self.style]}, and {WRITE_NUMBER}."
        free = f" Choose a telling name for each function in place of {FREE_NAME}." if self.is_free else ""
        return f"{head}, and write its code {WRITE_CODE}.{free}"

    def _ask_end(self) -> str:
        under = f'Then, under the heading "{self.end_heading}",'
        if self.end == "total":
            return f"{under} add up the answers, and {WRITE_NUMBER}."
        if self.end == "largest":
            return f"{under} say which of the answers is the largest, and {WRITE_NUMBER}."
        calls = ", ".join(f"Function {number} of *{name}" for number, name in enumerate(self.arguments, start=1))
        told = f"main({', '.join(self.arguments)}) that calls each with the tuple of its arguments"
        return f"{under} write a function {told} and returns the list of {calls}, {WRITE_CODE}."

    # -- what is right -----------------------------------------------------------------------------------

    def question(self, id: str) -> Question:
        row: dict[str, Any] = {
            "task": self.task,
            "noun": self.noun,
            "parts": [self._right(problem) for problem in self.problems],
        }
        if self.end:
            row["end"] = self._right_end()
        if self.task == "several":
            row["apart"] = [plain_prompt(problem, self.style) for problem in self.problems]
        return Question(id, self.prompt, row)

    def _right(self, problem: Problem) -> dict[str, Any]:
        if not problem.is_code:
            return {"id": problem.id, "answer": problem.answer}
        right: dict[str, Any] = {"id": problem.id, "tests": list(problem.tests), "name": problem.name}
        if problem.setup:
            right["setup"] = problem.setup
        return {**right, "free": True} if self.is_free else right

    def _right_end(self) -> dict[str, Any]:
        if self.end == "main":
            examples = [problem.example() for problem in self.problems]
            given = ", ".join(f"({arguments},)" if arguments else "()" for arguments, _ in examples)
            values = ", ".join(value for _, value in examples)
            return {"heading": "Main", "tests": [f"assert main({given}) == [{values}]"]}
        answers = [problem.answer or 0.0 for problem in self.problems]
        return {"heading": str(self.end).capitalize(), "answer": sum(answers) if self.end == "total" else max(answers)}


def plain_prompt(problem: Problem, style: Style = "steps", *, free: bool = False) -> str:
    """One problem by itself."""
    told = described(problem, FREE_NAME if free else "")
    if not problem.is_code:
        return f"{told}\n\n{STYLES[style]}, and {WRITE_NUMBER}."
    name = f" Choose a telling name in place of {FREE_NAME}." if free else ""
    return f"{told}\n\nWrite the code {WRITE_CODE}.{name}"


def described(problem: Problem, name: str = "") -> str:
    if not problem.is_code:
        return problem.text
    test = problem.tests_of(name)[0] if name else problem.tests[0]
    return f"{problem.text} It must pass: {test.strip()}"


def links_of(problem: Problem) -> dict[float, str]:
    """A problem's text with X in place of a number, by that number.

    Only a whole number that stands there once, and that the solution uses: so the answer stays what it was as long as
    X is that number, and X matters.
    """
    links = {}
    for found in LINK.finditer(problem.text):
        digits = found[0]
        anywhere = re.compile(rf"(?<!\d){digits}(?!\d)")
        if int(digits) < 3 or len(anywhere.findall(problem.text)) != 1 or not anywhere.search(problem.solution):
            continue  # "one" and "two" stand between the lines too often
        links[float(digits)] = f"{problem.text[: found.start()]}X{problem.text[found.end() :]}"
    return links
