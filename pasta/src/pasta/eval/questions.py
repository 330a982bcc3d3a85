"""The prompts of an evaluation, from any of the forms that benchmarks come in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pasta.data.fields import ASKED, is_unicode, prompt_of
from pasta.data.rows import read_rows
from pasta.errors import UsageError
from pasta.eval.names import check_name
from pasta.eval.tasks import built_in
from pasta.tasks.question import Question

BUILT_IN = ("constraints", "arithmetic")
TASK = re.compile(r"(?P<task>several|gather|chain|plain|freely):(?P<size>\d+):(?P<parts>\d+):(?P<file>.+)")


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Prompts under a name: `NAME=FILE`, a file by itself, a set that ships with PASTA, or problems put together.

    Problems put together (`pasta.tasks`) are `TASK:SIZE:PARTS:FILE`.
    """

    name: str
    source: str

    @classmethod
    def parse(cls, text: str) -> QuestionSet:
        if text in BUILT_IN:
            return cls(text, text)
        name, given, source = text.partition("=")
        if not given or "/" in name or os.path.exists(text):  # a path may hold the sign
            name, source = stem(text), text
        check_name(f"--prompts {text}", name)
        return cls(name, source)

    @classmethod
    def of_task(cls, name: str | None, task: str, source: str, size: int, parts: int) -> QuestionSet:
        name = name or f"{task}{size or ''}-{stem(source)}"
        check_name("--name", name)
        return cls(name, f"{task}:{size}:{parts}:{source}")

    def check(self, known: Sequence[str]) -> None:
        """Refuses a name that can only be mistaken: it is no file, and data sets of the hub are `owner/name`."""
        if "/" not in self.source and self.source not in BUILT_IN and not os.path.exists(self.source):
            hint = f"give a file, a data set of the hub as owner/name, or one of {', '.join(known)}"
            raise UsageError(f"--prompts {self.source:.80}: there is no such file, nor such a set of prompts", hint)

    @property
    def is_task(self) -> bool:
        return TASK.fullmatch(self.source) is not None

    @property
    def is_scored(self) -> bool:
        """Whether answers can be scored by looking at them; marks of tasks are kept."""
        return not self.is_task

    def read(self, limit: int = 0, say: Callable[[str], None] | None = None) -> list[Question]:
        """Its prompts; `say` tells of those that are left out."""
        if self.source in BUILT_IN:
            questions = built_in(self.source)
        elif self.is_task:
            questions = read_task(self.source)
        else:
            questions = read_questions(self.source, say)
        return questions[:limit] if limit else questions


def stem(path: str) -> str:
    """The name of a file without what says its form: `p` of `data/p.jsonl.xz`."""
    return Path(path).name.strip(".").split(".")[0]


def read_task(source: str) -> list[Question]:
    """Problems put together, in an order of which every beginning is a fair sample."""
    from pasta.tasks.drawing import draw_bundles
    from pasta.tasks.problem import read_problems

    found = TASK.fullmatch(source)
    assert found is not None
    size, parts = int(found["size"]), int(found["parts"])
    bundles = draw_bundles(found["task"], read_problems(found["file"]), size=size, parts=parts)  # type: ignore[arg-type]
    return [bundle.question(str(number)) for number, bundle in enumerate(bundles)]


def read_questions(source: str, say: Callable[[str], None] | None = None) -> list[Question]:
    """AlpacaEval's JSON, MT-bench and Vicuna question files, or any JSON (lines) of prompts."""
    questions, blank = [], 0
    for index, row in enumerate(read_rows(source)):
        prompt = prompt_of(row)
        if prompt is None:
            raise UsageError(f"{source}: row {index} has no prompt", hint=f"rows need {ASKED}")
        if prompt.strip() and is_unicode(prompt):
            questions.append(Question(str(row.get("question_id", row.get("id", index))), prompt, row))
        else:
            blank += 1
    if blank and say is not None:
        say(f"{source}: prompts left out, as they are empty or not valid Unicode: {blank}")
    if not questions:
        raise UsageError(f"{source} holds no prompt")
    ids = [question.id for question in questions]
    if len(set(ids)) < len(ids):  # ids that do not tell rows apart are none
        questions = [Question(str(index), each.prompt, each.row) for index, each in enumerate(questions)]
    return questions
