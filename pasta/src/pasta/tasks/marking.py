"""Which parts of an answer are right: final numbers, and functions by their tests."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pasta.tasks.honesty import LOOK, honest
from pasta.tasks.numbers import final_number, stated_numbers
from pasta.tasks.problem import renamed
from pasta.tasks.sandbox import Limits, runs_all
from pasta.text.digits import read_digits

FENCE = re.compile(r"^[ \t]*(?:```[^\n`]*|~~~[^\n]*)\n(.*?)(?:^[ \t]*(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
# The heading of a part; what follows its number in a line that is a heading for sure, and no sentence about the part.
HEADING = r"^\W{{0,8}}{noun}\s+(\d+)\b([*_ \t]*(?:$|[:.)]))?"
NEAR = 1e-4  # GSM8K's answers are whole numbers; an answer may have been rounded on the way


@dataclass(frozen=True, slots=True)
class Marks:
    """`parts`: for each problem, whether it is right. `end`: what needed all of them; None where nothing did."""

    parts: tuple[bool, ...]
    end: bool | None = None

    @property
    def share(self) -> float:
        """Of the parts, the end among them."""
        every = [*self.parts, *([] if self.end is None else [self.end])]
        return sum(every) / len(every)

    def to_dict(self) -> dict[str, Any]:
        return {"parts": [int(part) for part in self.parts], "end": None if self.end is None else int(self.end)}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Marks:
        return cls(tuple(map(bool, row["parts"])), None if row["end"] is None else bool(row["end"]))


def is_task(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("parts"), Sequence) and "task" in row


def runs_code(row: Mapping[str, Any]) -> bool:
    """Whether marking runs what was answered."""
    return any("tests" in part for part in (*row["parts"], row.get("end") or {}))


def mark_all(rows: Sequence[Mapping[str, Any]], texts: Sequence[str], limits: Limits | None = None) -> list[Marks]:
    """Answers to tasks, marked together: programs of all of them run beside each other."""
    asked = [programs_of(row, text) if runs_code(row) else [] for row, text in zip(rows, texts, strict=True)]
    ran = iter(runs_all([program for programs in asked for program in programs], limits))
    marks = []
    for row, text, programs in zip(rows, texts, asked, strict=True):
        right = [next(ran) for _ in programs] if programs else right_numbers(row, text)
        has_end = row.get("end") is not None
        marks.append(Marks(tuple(right[:-1] if has_end else right), right[-1] if has_end else None))
    return marks


def mark(row: Mapping[str, Any], text: str, limits: Limits | None = None) -> Marks:
    return mark_all([row], [text], limits)[0]


# -- numbers -------------------------------------------------------------------------------------------------


def right_numbers(row: Mapping[str, Any], text: str) -> list[bool]:
    """Under each heading the number that is stated last; without headings, the stated numbers in their order."""
    wanted = [part["answer"] for part in row["parts"]]
    end = row.get("end")
    found = [final_number(text)] if row["task"] == "plain" else numbers_of(row, text)
    if end is not None:
        under = under_heading(text, end["heading"])
        found.append(final_number(under) if under is not None else None)
        wanted.append(end["answer"])
    return [number is not None and abs(number - right) <= NEAR for number, right in zip(found, wanted, strict=True)]


def numbers_of(row: Mapping[str, Any], text: str) -> list[float | None]:
    sections = sections_of(text, row)
    count = len(row["parts"])
    if sections:
        return [final_number(sections[n]) if n in sections else None for n in range(1, count + 1)]
    stated: list[float | None] = [*stated_numbers(text)[:count]]
    return stated + [None] * (count - len(stated))


def sections_of(text: str, row: Mapping[str, Any]) -> dict[int, str]:
    """What stands under `Problem N`, by N; of a number that comes again, the first.

    A line that only speaks of a part before ("Problem 1 gives 12.") is no heading, nor is "Total:" in a part's steps:
    what needs all of them comes after all of them. Nor is a comment in a function's code, or a heading said twice.
    """
    known: set[int] = set()
    heads: list[tuple[int, int, int]] = []  # where it begins and ends, and its part; of one that comes again, 0
    for head in headings(HEADING.format(noun=row["noun"]), text, row):
        number = read_digits(head[1])
        if heads and heads[-1][2] == number and not re.search(r"\w", text[heads[-1][1] : head.start()]):
            continue
        if number not in known or head[2] is not None:
            heads.append((head.start(), head.end(1), 0 if number in known else number))
            known.add(number)
    sections = {}
    for (_, begin, number), (stop, _, following) in pairwise([*heads, (len(text), len(text), 0)]):
        if number:
            sections[number] = text[begin:stop] if following else without_end(text[begin:stop], row)
    return sections


def without_end(section: str, row: Mapping[str, Any]) -> str:
    """The last part without what needs all of them, under a line of its own."""
    end = row.get("end")
    heads = headings(rf"^\W{{0,8}}{end['heading']}\W*$", section, row) if end else []
    return section[: heads[-1].start()] if heads else section


def headings(pattern: str, text: str, row: Mapping[str, Any]) -> list[re.Match[str]]:
    """Lines like this, but for those in the code of functions: a comment there, or a call of `main`."""
    blocks = FENCE.finditer(text) if runs_code(row) else ()  # else what can be read as Python may be a sum
    codes = [block.span(1) for block in blocks if is_python(textwrap.dedent(block[1]))]
    found = re.finditer(pattern, text, re.MULTILINE | re.IGNORECASE)
    return [head for head in found if not any(begin <= head.start() < stop for begin, stop in codes)]


def under_heading(text: str, heading: str) -> str | None:
    """What stands under the last heading of that name."""
    pattern = rf"^\W{{0,8}}{heading}\b\W*?$|^\W{{0,8}}{heading}\W*:"
    heads = list(re.finditer(pattern, text, re.MULTILINE | re.IGNORECASE))
    return text[heads[-1].end() :] if heads else None


# -- functions -----------------------------------------------------------------------------------------------


def programs_of(row: Mapping[str, Any], text: str) -> list[str]:
    """For each part, and for the end: the answer's code with that part's tests behind it."""
    whole = blocks_of(text)
    sections = sections_of(text, row)
    programs = []
    for number, part in enumerate(row["parts"], start=1):
        blocks, name, tests = whole, part["name"], list(part["tests"])
        if part.get("free"):
            blocks = whole if row["task"] == "plain" else blocks_of(sections.get(number, ""))
            name = last_function("\n\n".join(blocks))
            tests = [renamed(test, part["name"], name) for test in tests] if name else ["assert 0"]
        programs.append(program_of(blocks, name, [part.get("setup", ""), *map(honest, tests)]))
    end = row.get("end")
    if end is not None:
        programs.append(program_of(whole, "main", [honest(test) for test in end["tests"]]))
    return programs


def program_of(blocks: Sequence[str], name: str, tests: Sequence[str]) -> str:
    """The tests behind the last block that defines what they call.

    The other blocks run before it, for what it may need of them; one that fails, or loops, fails nobody else's tests.
    """
    own = max((at for at, block in enumerate(blocks) if defines(block, name)), default=len(blocks) - 1)
    others = [f"run_beside({block!r})" for at, block in enumerate(blocks) if at != own]
    last = [f"exec({block!r})" for block in blocks[own : own + 1]]
    return "\n\n".join([*([BESIDE] if others else []), *others, *last, LOOK, *tests])


# Half a second of the processor for each other block: what only defines functions takes next to none of it. The alarm
# comes again, for code that catches whatever is raised.
BESIDE = """
def run_beside(code):
    import signal

    def too_late(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGVTALRM, too_late)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.5, 0.05)
    try:
        exec(code, globals())
    except BaseException:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
"""


def code_of(text: str) -> str:
    """The blocks of code that can be read as Python; where there is no block, the text itself."""
    return "\n\n".join(blocks_of(text))


def blocks_of(text: str) -> list[str]:
    """The blocks of code that can be read as Python, as deep in a list as they are; where there is none, the text."""
    blocks = [textwrap.dedent(block) for block in FENCE.findall(text)] or [text]
    return [block for block in blocks if is_python(block)]


def defines(code: str, name: str) -> bool:
    """Whether code that can be read gives something that name, at the top."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            given = [node.name]
        else:
            given = [each.id for each in getattr(node, "targets", []) if isinstance(each, ast.Name)]
        if name in given:
            return True
    return False


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def last_function(code: str) -> str:
    """The name of the last function that is defined at the top: helpers come before it."""
    names = [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)] if is_python(code) else []
    return names[-1] if names else ""
