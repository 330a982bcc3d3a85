"""The prompts of an evaluation, from any of the forms that benchmarks come in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.data.fields import prompt_of
from pasta.data.rows import open_text, read_rows
from pasta.errors import UsageError
from pasta.eval.question import Question
from pasta.eval.tasks import built_in

BUILT_IN = ("constraints", "arithmetic")


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Prompts under a name: `NAME=FILE`, a file by itself, or a set that ships with PASTA."""

    name: str
    source: str

    @classmethod
    def parse(cls, text: str) -> QuestionSet:
        if text in BUILT_IN:
            return cls(text, text)
        name, given, source = text.partition("=")
        if given and name and not any(mark in name for mark in "/\\"):
            return cls(name, source)
        return cls(Path(text).name.split(".")[0], text)

    def read(self, limit: int = 0) -> list[Question]:
        questions = built_in(self.source) if self.source in BUILT_IN else read_questions(self.source)
        return questions[:limit] if limit else questions


def read_questions(source: str) -> list[Question]:
    """AlpacaEval's JSON, MT-bench and Vicuna question files, or any JSON (lines) of prompts."""
    questions = []
    for index, row in enumerate(_rows(source)):
        prompt = prompt_of(row)
        if prompt is None:
            raise UsageError(
                f"{source}: row {index} has no prompt",
                hint="rows need prompt, instruction, question, text, turns or messages",
            )
        if prompt.strip():
            questions.append(Question(str(row.get("question_id", row.get("id", index))), prompt, row))
    if not questions:
        raise UsageError(f"{source} holds no prompt")
    ids = [question.id for question in questions]
    if len(set(ids)) < len(ids):  # ids that do not tell rows apart are none
        questions = [Question(str(index), each.prompt, each.row) for index, each in enumerate(questions)]
    return questions


def _rows(source: str) -> Iterable[Mapping[str, Any]]:
    path = Path(source)
    if path.is_file():
        with open_text(path, "rt") as file:
            listed = file.read(64).lstrip().startswith("[")
        if listed:
            with open_text(path, "rt") as file:
                try:
                    rows = json.load(file)
                except ValueError as error:
                    raise UsageError(f"{source} is not JSON: {error}") from None
            if not all(isinstance(row, dict) for row in rows):
                raise UsageError(f"{source}: expected a list of objects")
            return list(rows)
    return read_rows(source)
