"""Stage two: prompts that are left out, samples that are missing, and when scores are written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from preferring import settings

from chat_server import ChatServer
from pasta.data.lines import read_lines
from pasta.errors import PastaError, UsageError
from pasta.judge.base import NotJudged
from pasta.train.preference_run import run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_prompts_of_which_none_can_be_asked_are_named_and_so_are_samples_that_are_missing(
    tmp_path: Path, adapter: str
) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": " "}\n{"prompt": "half \\ud800"}\n')
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2}
    with pytest.raises(UsageError, match=r"p\.jsonl holds no prompt to ask"):
        run(settings(tmp_path / "out", adapter, **usual))
    with pytest.raises(PastaError, match=r"round-1 holds no samples \(run the step sample first\)"):
        run(settings(tmp_path / "out", adapter, **usual, steps="score"))


def test_scores_are_written_down_as_they_come(
    tmp_path: Path, adapter: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pasta.train.preference_run.SCORED_AT_ONCE", 3)
    (tmp_path / "p.jsonl").write_text('{"prompt": "0?"}\n{"prompt": "1?"}\n')
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2, "max_tokens": 8}
    run(settings(tmp_path / "out", adapter, **usual, steps="sample,score"))
    said = capsys.readouterr().err
    assert "3/4 scored" in said and "4/4 scored" in said


class Refusing(ChatServer):
    """Judges by words, and refuses whatever speaks of these."""

    refused: tuple[str, ...] = ()

    def reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        text = body["messages"][-1]["content"]
        return (400, "too long") if any(map(text.__contains__, self.refused)) else (200, {"message": {"content": "M"}})


def test_samples_that_a_judge_always_refuses_do_not_keep_the_others_from_being_learned_from(
    tmp_path: Path, adapter: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "p.jsonl").write_text('{"prompt": "zero?"}\n{"prompt": "one?"}\n')
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2, "max_tokens": 8}
    run(settings(tmp_path / "out", adapter, **usual, steps="sample"))
    with Refusing().running() as server:
        usual |= {"judge": f"llm:m@{server.url}", "steps": "score"}
        server.refused = ("zero?", "one?")
        with pytest.raises(NotJudged, match="4 of 4 comparisons are not judged"):
            run(settings(tmp_path / "out", adapter, **usual))
        server.refused = ("one?",)
        for unjudged in ("2 of 4", "2 of 2"):
            run(settings(tmp_path / "out", adapter, **usual))
            assert f"{unjudged} comparisons are not judged" in capsys.readouterr().err
    assert {row["index"] for row in read_lines(tmp_path / "out" / "round-1" / "scores.jsonl")} == {0}


def test_prompts_that_are_left_out_are_counted(
    tmp_path: Path, adapter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = ["0?", " ", "1?" * 400]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    usual: dict[str, Any] = {"samples": 2, "max_tokens": 8, "max_prompt_tokens": 100, "steps": "sample"}
    run(settings(tmp_path / "out", adapter, prompts=str(tmp_path / "p.jsonl"), **usual))
    said = capsys.readouterr().err
    assert "left out 1 prompt: empty, or not valid Unicode\n" in said
    assert said.count("left out 1 prompt: longer than 100 tokens\n") == 1, "the baseline is asked what was sampled"
