"""The commands of docs/evaluate.md are commands, and its tables name what is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from pasta.data.redundancy import REPEATS, measure, overlap_in_lists
from pasta.data.topics import reads_well
from pasta.eval.contestants import Contestant
from pasta.eval.run import TASKS, parser
from pasta.eval.tasks import built_in
from pasta.text.overlap import overlap

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "evaluate.md").read_text("utf-8")
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
        for name in ("qwen15-chats", "default-items")
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
                ("default-items", ("baseline", "firm3", "firm3-untagged")),
            )
        ),
    ]
    assert [told(*row) for row in rows if told(*row) not in PAGE] == []
    least = min(writers.values(), key=lambda figure: figure["value"])
    assert f"Of {len(writers)} public models the least is {told(least).strip('| ')}." in PAGE


def test_what_repeats_and_what_reads_badly_is_counted_as_the_page_says() -> None:
    section = " ".join(PAGE.partition("### What repeats")[2].partition("**Who repeats.**")[0].split())
    short, long = "Rivers carry water.", "Rivers shape valleys and carry water to the sea."
    badly = ("Benefits of", "Water -", "Key points", "Step 2", "Benefits", "History of the Roman Empire")
    assert [text for text in (short, long, *badly) if f'"{text}"' not in section] == []
    assert overlap(short, long) > REPEATS == 0.7
    assert overlap("Trees grow quickly here.", "Trees never grow quickly here.") > REPEATS, "the opposite"
    assert overlap("Trees grow quickly here.", "Plants become tall soon.") == 0, "the same in other words"
    assert [topic for topic in badly if reads_well(topic)] == []
    assert reads_well("Roman Empire history")
    assert measure("", [], ["Data", "data"])["topics_repeat"]
    assert not measure("", [], ["Data", "Data analysis"])["topics_repeat"]
    two = f"- {short}\n- {long}\n"
    assert overlap_in_lists(two) is None
    assert (overlap_in_lists(f"{two}- Deserts are dry.") or 0) > REPEATS


def test_what_was_read_blind_is_what_its_page_says() -> None:
    results = DOCS.parent / "benchmarks" / "results"
    rows = json.loads((results / "read-default-items.json").read_text("utf-8"))["rows"]
    page = (DOCS / "results" / "default-items.md").read_text("utf-8")
    own, other = ([row for row in rows if row["model"] == model] for model in ("firm3", "mid3"))
    better = {of: [sum(row["better"] == each for row in of_model) for each in ("model", "today", "tie")]
              for of, of_model in (("firm3", own), ("mid3", other))}  # fmt: skip
    assert f"`firm3` is better in {better['firm3'][0]}, `today` in {better['firm3'][1]}, neither in" in page
    assert f"Of {len(other)} pairs of `mid3` and `today` {better['mid3'][0]} and {better['mid3'][1]} are better" in page
    flags = [
        f"{sum(flag in row['flags'] for row in own)} and {sum(flag in row['today_flags'] for row in own)}"
        for flag in ("repeats", "wrong_form", "off_topic")
    ]
    assert "{} say something twice, {} have a wrong form, {} miss what was asked".format(*flags) in page
