"""The rounds of preference optimisation, and where the files of each lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.data.fields import prompt_of
from pasta.data.lines import read_json, read_lines, write_json
from pasta.data.rows import read_rows
from pasta.errors import UsageError
from pasta.train.pairs import name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_loss import Policy


@dataclass(frozen=True, slots=True)
class Round:
    """One round: who is sampled and improved, and for which weights."""

    folder: Path
    model: str
    weights: tuple[float, ...]
    number: int = 1

    def samples(self) -> Iterator[dict[str, Any]]:
        return read_parts(self.folder, "samples")

    @property
    def scores(self) -> Path:
        return self.folder / "scores.jsonl"

    def pairs(self, weight: float) -> Path:
        return self.folder / f"pairs-{name_of(weight)}.jsonl"

    def remember_policy(self, config: PreferenceConfig) -> None:
        """Writes down how the samples of this round are drawn; other settings would mix two policies."""
        told = {"temperature": config.temperature, "parallelism": list(config.biases)}
        path = self.folder / "policy.json"
        if path.exists() and (known := read_json(path)) != told:
            raise UsageError(f"{self.folder} holds samples of {known}, now they are {told}", "name another --output")
        write_json(path, told)

    def policy(self, config: PreferenceConfig) -> Policy:
        path = self.folder / "policy.json"
        if not path.exists():
            return Policy(config.temperature, config.biases)
        known = read_json(path)
        return Policy(known["temperature"], tuple(known["parallelism"]))

    def trained(self, weight: float) -> Path:
        return self.folder / f"lambda-{name_of(weight)}"


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str
    reference: str | None  # somebody else's answer, where there is one


def rounds(config: PreferenceConfig) -> Iterator[Round]:
    """The first round serves all weights; later ones are each weight's own."""
    first = Round(config.folder / "round-1", config.model, config.weights)
    yield first
    for weight in config.weights:
        before = first
        for number in range(2, config.rounds + 1):
            folder = config.folder / f"round-{number}-lambda-{name_of(weight)}"
            before = Round(folder, str(before.trained(weight)), (weight,), number)
            yield before


def read_questions(config: PreferenceConfig) -> list[Question]:
    questions = []
    for row in read_rows(config.prompts):
        prompt = prompt_of(row)
        if prompt is None:
            raise UsageError(f"{config.prompts}: a row has no prompt", hint="rows need prompt, instruction or messages")
        answer = row.get("response") or row.get("output") or row.get("reference")
        questions.append(Question(prompt, answer if isinstance(answer, str) and answer.strip() else None))
        if config.limit and len(questions) == config.limit:
            break
    return questions


def read_parts(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file that several processes may have written a part of."""
    for path in sorted(folder.glob(f"{name}*.jsonl")):
        yield from read_lines(path)
