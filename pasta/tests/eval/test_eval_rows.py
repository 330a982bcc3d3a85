"""Rows without words: every figure is made of them, and they can be read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pasta.data.lines import write_lines
from pasta.eval.folder import RunFolder
from pasta.eval.intervals import ratio_of
from pasta.eval.lengths import of_promises
from pasta.eval.rows import collect, read, write
from pasta.eval.summary import about, of_rows, on_task, summarise

Stage = Callable[..., str]


def test_figures_made_of_published_rows_are_those_of_the_folder(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}@parallelism:3")
    stage("answers", tmp_path, *who, "--prompts", f"lakes={prompts}", "--max-tokens", "24", "--device", "cpu")
    stage("timing", tmp_path, "--limit", "2", "--device", "cpu")
    stage("judge", tmp_path, "--judge", "length")
    folder = RunFolder(tmp_path)
    write(collect(folder), str(tmp_path / "rows.jsonl.xz"))
    again = of_rows(read(str(tmp_path / "rows.jsonl.xz")), about(folder.record, "baseline", "lakes", "sft"), [])
    assert again == summarise(folder)
    assert again["models"]["forks"]["realised_speedup"]["prompts"] == 2
    text = json.dumps([*read(str(tmp_path / "rows.jsonl.xz"))["lakes"]["forks"].values()])
    for row in folder.answers("lakes", "forks").values():
        assert json.dumps(row["text"])[1:40] not in text and row["prompt"] not in text


def test_figures_do_not_depend_on_who_ended_first(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--prompts", f"lakes={prompts}")
    stage("answers", tmp_path, *who, "--max-tokens", "4", "--device", "cpu")
    folder = RunFolder(tmp_path)
    [row, *_] = folder.answers("lakes", "baseline").values()
    rows = [{**row, "id": str(place), "content_tokens": place} for place in range(1, 31)]
    write_lines(folder.answers_path("lakes", "baseline"), rows)
    before = summarise(folder)
    write_lines(folder.answers_path("lakes", "baseline"), [*rows[11:], *rows[:11]])
    assert summarise(folder) == before


def row(
    parts: list[int], threads: int = 1, tokens: int = 100, path: int = 100, syncs: int = 0, end: int | None = None
) -> dict:
    return {
        "marks": {"parts": parts, "end": end}, "threads": threads, "tokens": tokens, "content_tokens": tokens,
        "critical_path": path, "syncs": syncs, "finish_reason": "stop", "promised": [], "written": [],
    }  # fmt: skip


def test_a_task_is_scored_by_parts_and_paired_by_prompt() -> None:
    own = {"0": row([1, 1, 0, 1], threads=5, tokens=80, path=20, syncs=1), "1": row([1, 0])}
    other = {"0": row([1, 0, 0, 1]), "1": row([1, 1])}
    found = on_task(own, other)
    assert found is not None
    assert found["parts"] == 6
    assert found["score"].value == pytest.approx(4 / 6)
    assert found["over_reference"].value == 0  # one part more, one less
    assert found["all_right"].value == 0
    assert found["syncing"].value == found["forking"].value == 0.5
    assert found["theoretical_speedup"].value == pytest.approx((5 * 1) ** 0.5)
    assert found["length_factor"].value == pytest.approx((100 / 80) ** 0.5)
    assert on_task({"0": {"threads": 1}}, {}) is None


def test_what_a_model_lacks_counts_as_wrong_at_worst() -> None:
    own = {"0": row([1, 1], end=1), "1": row([1, 1], end=0), "2": row([0, 0], end=1)}
    other = {"0": row([1, 0], end=0), "1": row([1, 1], end=1), "9": row([1, 0, 1, 1], end=1)}
    found = on_task(own, other)
    assert found is not None and found["prompts"] == 3
    assert found["over_reference"].value == pytest.approx(1 / 4) and found["over_reference"].prompts == 2
    assert found["over_reference_at_worst"] is None, "a model that lacks a third was not asked"
    assert found["end_over_reference"].value == 0 and found["end_over_reference"].prompts == 2
    assert found["end"].value == pytest.approx(2 / 3)
    asked = {f"more {number}": row([1, 1], end=1) for number in range(7)}
    found = on_task(own | asked, other | asked)
    assert found is not None and found["over_reference"].value == pytest.approx(1 / 18)
    assert found["over_reference_at_worst"].value == pytest.approx((1 - 3) / 22)


def test_a_ratio_weighs_prompts_by_their_parts() -> None:
    found = ratio_of([(4, 4), (0, 2)])
    assert found is not None and found.value == pytest.approx(4 / 6)
    assert found.low == 0 and found.high == 1


def test_promises_are_held_against_the_best_constant() -> None:
    known = of_promises((length, length) for length in (2, 5, 9, 20, 31))
    assert known is not None and known["correlation"] == pytest.approx(1)
    assert known["within_one"] == 1 and known["within_one_constant"] == pytest.approx(1 / 5)
    assert known["mean_error"] == 0 and known["mean_error_constant"] == pytest.approx((7 + 4 + 0 + 11 + 22) / 5)
    always = of_promises((4, written) for written in (3, 4, 5, 8))
    assert always is not None and always["correlation"] is None
    assert always["within_one"] == always["within_one_constant"] == 0.75 and always["best_constant"] == 4
    assert of_promises([]) is None
