"""The folder of an evaluation: who took part, which prompts, and the rows of every stage.

run.json                         models, prompts, settings, machines
answers/SET/MODEL.jsonl          a row for each answer
timing.jsonl  concurrency.jsonl  seconds of answers decoded one at a time, and in company
marks/SET/MODEL.jsonl            which parts of each answer are right, where there is a right one
judged/JUDGE/SET/MODEL.jsonl     how a judge compares each answer with the reference's
summary.json  report/            all figures, and what people look at
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from pasta.data.lines import Row, read_json, read_lines, write_json
from pasta.errors import PastaError, UsageError
from pasta.eval.contestants import Contestant
from pasta.eval.machine import name_of
from pasta.eval.questions import QuestionSet

KINDS = ("models", "prompts", "settings", "machines")  # of what a record always holds


class RunFolder:
    def __init__(self, path: str | Path):
        self.path = Path(path)

    # -- what is in it -------------------------------------------------------------------------------

    @property
    def record(self) -> dict[str, Any]:
        path = self.path / "run.json"
        record = read_json(path) if path.exists() else {kind: {} for kind in KINDS}
        if not isinstance(record, dict) or not all(isinstance(record.get(kind), dict) for kind in KINDS):
            raise PastaError(f"{path} is no record of an evaluation", "use another folder")
        return record

    def require(self) -> dict[str, Any]:
        record = self.record
        if not (record["models"] and record["prompts"]):
            raise UsageError(f"{self.path} holds no evaluation", hint="begin with: pasta eval answers")
        return record

    def contestants(self) -> list[Contestant]:
        return [Contestant.parse(text) for text in self.record["models"].values()]

    def newcomers(self, contestants: Sequence[Contestant]) -> list[Contestant]:
        return [each for each in contestants if each.name not in self.record["models"]]

    def sets(self) -> list[QuestionSet]:
        return [QuestionSet(name, source) for name, source in self.record["prompts"].items()]

    def answers(self, questions: str, model: str) -> dict[str, Row]:
        """By the question's id."""
        return {row["id"]: row for row in read_lines(self.answers_path(questions, model))}

    def judged(self, judge: str, questions: str, model: str) -> dict[str, Row]:
        return {row["id"]: row for row in read_lines(self.judged_path(judge, questions, model))}

    def marks(self, questions: str, model: str) -> dict[str, Row]:
        return {row["id"]: row for row in read_lines(self.marks_path(questions, model))}

    def timings(self) -> list[Row]:
        return list(read_lines(self.path / "timing.jsonl"))

    # -- where -----------------------------------------------------------------------------------------

    def answers_path(self, questions: str, model: str) -> Path:
        return self.path / "answers" / questions / f"{model}.jsonl"

    def marks_path(self, questions: str, model: str) -> Path:
        return self.path / "marks" / questions / f"{model}.jsonl"

    def judged_path(self, judge: str, questions: str, model: str) -> Path:
        return self.path / "judged" / judge / questions / f"{model}.jsonl"

    # -- what a stage leaves ---------------------------------------------------------------------------

    def remember(
        self, models: list[Contestant], sets: list[QuestionSet], settings: Mapping[str, Any], machine: Mapping[str, Any]
    ) -> None:
        """Notes what takes part, and refuses what would mix answers made in different ways."""
        kept = {"models": {c.name: str(c) for c in models}, "prompts": {s.name: s.source for s in sets}}
        with self._changing() as record:
            for kind, fresh in (*kept.items(), ("settings", settings)):
                for name, value in fresh.items():
                    known = record[kind].setdefault(name, value)
                    if known != value:
                        before, now = ("the default" if each is None else each for each in (known, value))
                        raise UsageError(
                            f"{self.path} was begun with {name} = {before}, now it is {now}",
                            "use another folder or name",
                        )
            record["machines"].setdefault(name_of(machine), dict(machine))

    def check_judge(self, name: str, about: Mapping[str, str]) -> None:
        """Refuses to mix the judgements of two judges under one name."""
        known = self.record.get("judges", {}).get(name, about)
        if known != about:
            raise UsageError(f"{self.path} has judgements of {known} under {name}", "give this judge a --name")

    def remember_judge(self, name: str, about: Mapping[str, str]) -> None:
        with self._changing() as record:
            self.check_judge(name, about)  # again: another process may have taken the name meanwhile
            record.setdefault("judges", {})[name] = dict(about)

    def remember_command(self, words: Sequence[str]) -> None:
        """Notes how a stage was called, so that figures can name their command; of a path, its last part."""
        words = ["DIR" if word == str(self.path) else short(word) for word in words]
        with self._changing() as record:
            commands = record.setdefault("commands", [])
            if " ".join(words) not in commands:
                commands.append(" ".join(words))

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The record, to be changed by one process at a time: several may fill a folder beside each other."""
        self.path.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path / ".lock"):
            record = self.record
            yield record
            write_json(self.path / "run.json", record)


def short(word: str) -> str:
    """Without the folders of a path: they say nothing on another machine."""
    return re.sub(r"[^\s=@:]*/(?=[^/\s])", "", word)
