"""The commands of docs/evaluate.md are commands, and its tables name what is there."""

from __future__ import annotations

import json
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


def test_who_repeats_is_what_was_counted() -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    writers = json.loads((results / "repeating-lists.json").read_text("utf-8"))["writers"]
    models = {
        name: json.loads((results / f"eval-{name}.json").read_text("utf-8"))["models"]
        for name in ("qwen15-chats", "default-clean")
    }

    def told(*figures: dict[str, float]) -> str:
        each = (f"{one['value']:.0%} [{100 * one['low']:.0f}, {100 * one['high']:.0f}]" for one in figures)
        return f"| {', '.join(each)} |"

    rows = [
        *(
            [writers[name] for name in names]
            for names in (
                ("gpt4_1106_preview", "claude-2.1", "gpt-3.5-turbo-1106"),
                ("gemma-7b-it", "gemma-2b-it"),
                ("vicuna-13b", "vicuna-7b", "phi-2"),
            )
        ),
        *(
            [models[run][name]["redundancy"]["lists_repeat"] for name in names]
            for run, names in (
                ("qwen15-chats", ("baseline", "pasta")),
                ("qwen15-chats", ("bon-baseline-0.2", "bon-pasta-0.2")),
                ("default-clean", ("baseline", "today", "today-untagged")),
            )
        ),
    ]
    assert [told(*row) for row in rows if told(*row) not in PAGE] == []
    least = min(writers.values(), key=lambda figure: figure["value"])
    assert f"Of {len(writers)} public models the least is {told(least).strip('| ')}." in PAGE
