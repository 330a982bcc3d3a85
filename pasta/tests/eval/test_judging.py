"""Judging by a real server that fails at some of the questions, or at all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chat_server import ChatServer
from pasta.data.lines import append_line, read_lines
from pasta.eval.contestants import Contestant
from pasta.eval.folder import RunFolder
from pasta.eval.questions import QuestionSet
from pasta.eval.run import main


class Server(ChatServer):
    """Likes the answer of the rival more where it knows the question, and refuses what it must not hear of."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()  # questions
        self.asked = 0

    def reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        self.asked += 1
        text = body["messages"][-1]["content"]
        question = text.split("## Instruction\n\n")[1].split("\n\n## Answer m")[0]
        if question in self.refused:
            return 400, "no fit question"
        chance = 0.9 if text.index("baseline") < text.index("rival") else 0.3
        top = [{"token": name, "logprob": math.log(p)} for name, p in (("M", chance), ("m", 1 - chance))]
        return 200, {"message": {"content": "M"}, "logprobs": {"content": [{"top_logprobs": top}]}}


WIN = (0.9 + 0.7) / 2  # of the rival, both orders averaged


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    with Server().running() as server:
        yield server


def evaluation(path: Path, prompts: int) -> RunFolder:
    """Two models that have answered so many prompts, Question 0 and on."""
    folder = RunFolder(path)
    models = [Contestant.parse(f"{name}=/nowhere/{name}") for name in ("baseline", "rival")]
    folder.remember(models, [QuestionSet("own", "own.json")], {}, {"cpu": "any"})
    for name in ("baseline", "rival"):
        for number in range(prompts):
            row = {"id": str(number), "prompt": f"Question {number}", "text": f"the {name}'s"}
            append_line(folder.answers_path("own", name), row)
    return folder


def judge(folder: RunFolder, server: Server, *options: str) -> int:
    return main(["judge", str(folder.path), "--judge", f"llm:m@{server.url}", "--json", *options])


def wins(folder: RunFolder) -> dict[str, float]:
    return {row["id"]: row["win"] for row in read_lines(folder.judged_path("llm", "own", "rival"))}


def test_what_got_no_verdict_is_no_tie_and_is_asked_for_again(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluation(tmp_path / "run", 3)
    server.refused = {"Question 1"}
    assert judge(folder, server) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"model": "rival", "judged": 2, "win rate": pytest.approx(100 * WIN)}]
    (told,) = [line for line in err.splitlines() if "not judged" in line or "no fit" in line]
    assert told == (
        f"llm:m@{server.url}: 1 of 3 comparisons are not judged: the server answered 400, no fit question "
        "(run the same command again: it asks only for what is missing)"
    )
    assert wins(folder) == pytest.approx({"0": WIN, "2": WIN})
    place = folder.path / "alpaca" / "own" / "rival" / "llm" / "annotations.json"
    assert [row["instruction"] for row in json.loads(place.read_text())] == ["Question 0", "Question 2"]
    server.refused, before = set(), server.asked
    assert judge(folder, server) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["judged"] == 3 and "not judged" not in err
    assert (server.asked - before, wins(folder)["1"]) == (2, pytest.approx(WIN))


def test_where_nothing_gets_a_verdict_that_is_an_error_and_no_more_is_asked(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluation(tmp_path / "run", 40)
    server.refused = {f"Question {number}" for number in range(40)}
    assert judge(folder, server) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith(f"error: llm:m@{server.url}: 32 of 32 comparisons are not judged: the server answered 400")
    assert server.asked <= 2 * 32, "each at most with log probabilities and without"
    assert not (folder.path / "judged").exists() and "judges" not in folder.record


def test_what_is_refused_each_time_keeps_nothing_else_from_being_judged(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluation(tmp_path / "run", 40)
    server.refused = {f"Question {number}" for number in range(1, 36)}
    assert judge(folder, server, "--limit", "34") == 0
    assert wins(folder).keys() == {"0"}
    assert judge(folder, server) == 0
    assert wins(folder).keys() == {"0", "36", "37", "38", "39"}
    capsys.readouterr()
    assert judge(folder, server) == 1, "of what is missing now, all is refused"
    assert "35 of 35 comparisons are not judged" in capsys.readouterr().err
    assert len(wins(folder)) == 5
