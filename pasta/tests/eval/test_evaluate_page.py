"""The commands of docs/evaluate.md are commands, and its tables name what is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pasta.eval.contestants import Contestant
from pasta.eval.run import TASKS, parser
from pasta.eval.tasks import built_in

PAGE = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text("utf-8")
COMMANDS = re.findall(r"^pasta eval .+$", PAGE.replace("\\\n", " "), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[2])
def test_commands_parse(command: str) -> None:
    options = parser().parse_args(shlex.split(command)[2:])
    for model in getattr(options, "model", []):
        Contestant.parse(model)


def test_there_are_commands_of_every_stage_that_the_page_tells_of() -> None:
    stages = list(dict.fromkeys(command.split()[2] for command in COMMANDS))
    assert stages == ["answers", "timing", "concurrency", "judge", "report", "task"]
    assert {command.split()[3] for command in COMMANDS if command.split()[2] == "task"} == set(TASKS)


def test_the_sets_are_as_large_as_it_says() -> None:
    conditions = sum(len(question.row["checks"]) for question in built_in("constraints"))
    assert (
        f"{len(built_in('constraints'))} prompts of our own in the manner of IFEval, with {conditions} conditions"
        in PAGE
    )
    assert f"`arithmetic`: {len(built_in('arithmetic'))} word problems" in PAGE
