"""One problem with a right answer: a number (GSM8K), or a function that passes its tests (MBPP)."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pasta.data.rows import read_rows
from pasta.errors import UsageError
from pasta.tasks.numbers import last_number

FREE_NAME = "<name>"  # stands for the function where its name is the writer's to choose
QUOTED_OR_NAME = re.compile(r"""\'(?:[^\'\\]|\\.)*\'|"(?:[^"\\]|\\.)*"|\b[^\W\d]\w*""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """`answer` is that of a problem that asks for a number; `tests` are those of one that asks for a function."""

    id: str
    text: str
    solution: str  # the data set's own
    answer: float | None = None
    tests: tuple[str, ...] = ()
    setup: str = ""

    @property
    def is_code(self) -> bool:
        return self.answer is None

    @property
    def name(self) -> str:
        """What the tests call the function."""
        return name_of(self.tests[0])

    def tests_of(self, name: str) -> tuple[str, ...]:
        """The tests, where the function is called otherwise."""
        return tuple(renamed(test, self.name, name) for test in self.tests)

    def example(self) -> tuple[str, str]:
        """The arguments of a test and the value that it wants: of the test that says both in the fewest characters."""
        written = []
        for test in self.tests:
            with contextlib.suppress(ValueError):  # a test of another form
                call, value = call_of(test)
                written.append((", ".join(ast.unparse(argument) for argument in call.args), ast.unparse(value)))
        return min(written, key=lambda both: len(both[0]) + len(both[1]))


def read_problems(source: str) -> list[Problem]:
    """GSM8K's rows (`question`, and `final` or an `answer` with ####) or MBPP's (`text`, `code`, `test_list`)."""
    problems = []
    for index, row in enumerate(read_rows(source)):
        problem = read_problem(index, row)
        if problem is None:
            raise UsageError(
                f"{source}: row {index} is no problem with a right answer",
                hint="rows need question and final (as GSM8K's), or text, code and test_list (as MBPP's)",
            )
        problems.append(problem)
    if not problems:
        raise UsageError(f"{source} holds no problem")
    if len({problem.is_code for problem in problems}) > 1:
        raise UsageError(f"{source} mixes numbers and functions", hint="give each a file of its own")
    return problems


def read_problem(index: int, row: Mapping[str, Any]) -> Problem | None:
    if isinstance(row.get("question"), str) and isinstance(row.get("answer"), str):
        steps, _, final = row["answer"].rpartition("####")
        answer = last_number(str(row.get("final", final)))
        if answer is not None:
            return Problem(str(row.get("id", index)), tidy(row["question"]), (steps or row["answer"]).strip(), answer)
    if isinstance(row.get("text"), str) and isinstance(row.get("test_list"), Sequence) and row["test_list"]:
        tests = tuple(map(str, row["test_list"]))
        if name_of(tests[0]):
            code = str(row.get("code", "")).replace("\r\n", "\n").rstrip()
            setup = str(row.get("test_setup_code") or "").replace("\r\n", "\n")
            return Problem(str(row.get("task_id", index)), tidy(row["text"]), code, None, tests, setup)
    return None


def renamed(test: str, name: str, other: str) -> str:
    """A test that calls its function otherwise. What it says in quotes stays: `f(7) == "no f"` wants that of any."""
    return QUOTED_OR_NAME.sub(lambda found: other if found[0] == name else found[0], test)


def tidy(text: str) -> str:
    return " ".join(text.split())


def call_of(test: str) -> tuple[ast.Call, ast.expr]:
    """The call and the value of `assert f(…) == value`; a `ValueError` where a test is of another form."""
    try:
        statement = ast.parse(test.strip()).body[0]
    except SyntaxError as error:
        raise ValueError(str(error)) from None
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        call = statement.test.left
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            return call, statement.test.comparators[0]
    raise ValueError(f"not of the form assert f(…) == value: {test}")


def name_of(test: str) -> str:
    """The function that a test calls; empty where it is of another form."""
    try:
        call, _ = call_of(test)
    except ValueError:
        return ""
    assert isinstance(call.func, ast.Name)
    return call.func.id
