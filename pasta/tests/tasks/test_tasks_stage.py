"""`pasta eval task`: one command answers and marks, and goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tasks_texts import FUNCTIONS, SUMS, write_problems

from pasta.engine.load import load_engine
from pasta.errors import UsageError
from pasta.eval.contestants import Contestant
from pasta.eval.folder import RunFolder
from pasta.eval.methods import answering
from pasta.eval.questions import QuestionSet
from pasta.eval.run import run
from pasta.tasks.bundle import Bundle
from pasta.tasks.marking import mark
from pasta.tasks.problem import read_problems

Stage = Callable[..., str]
SMALL = ("--max-tokens", "20", "--batch", "4", "--device", "cpu", "--parts", "8")


@pytest.fixture
def stage(capsys: pytest.CaptureFixture[str]) -> Stage:
    def call(*arguments: str | Path) -> str:
        run([str(argument) for argument in arguments])
        return capsys.readouterr().out

    return call


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from pasta.core.vocabulary import Vocabulary
    from pasta.models.tags import add_tags
    from support import byte_tokenizer, tiny_model

    folder = tmp_path_factory.mktemp("models")
    for name in ("plain", "tagged"):
        model, tokenizer = tiny_model(), byte_tokenizer()
        if name == "tagged":
            add_tags(model, Vocabulary(tokenizer))
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return {name: str(folder / name) for name in ("plain", "tagged")}


def test_one_command_answers_marks_and_goes_on(tmp_path: Path, models: dict[str, str], stage: Stage) -> None:
    data = write_problems(tmp_path, SUMS)
    who = ("--model", f"baseline={models['plain']}", "--model", f"apart={models['plain']}@separate")
    out = tmp_path / "run"
    printed = stage("task", "several", out, *who, "--data", data, *SMALL, "--limit", "1")
    assert "baseline" in printed and "length ratio" in printed
    folder = RunFolder(out)
    first = folder.marks_path("several-problems", "baseline").read_text()
    stage("task", "several", out, *who, "--data", data, *SMALL)
    assert folder.marks_path("several-problems", "baseline").read_text().startswith(first)
    [questions] = folder.sets()
    asked = {question.id: question for question in questions.read()}
    assert set(folder.marks("several-problems", "apart")) == set(asked)
    for id, answer in folder.answers("several-problems", "apart").items():
        count = len(asked[id].row["parts"])
        assert answer["text"].count("**Problem ") >= count and len(answer["threads"]) == count + 1
        assert answer["critical_path"] == max(line["tokens"] for line in answer["threads"])
    figures = json.loads(stage("task", "several", out, "--data", data, "--json", *SMALL))
    assert figures["apart"]["parts"] >= 8 and figures["apart"]["score"]["value"] == 0, "random weights solve nothing"
    # What is not told apart is left out, and says so.
    assert "apart" not in stage("task", "chain", out, *who, "--data", data, *SMALL)


def test_several_problems_have_room_for_their_steps(
    tmp_path: Path, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr("pasta.eval.marks.run_task", lambda *given, decoding, **rest: seen.append(decoding.max_tokens))
    monkeypatch.setattr("pasta.eval.summary.summarise", lambda *given: {"tasks": {}})
    data, who = write_problems(tmp_path, SUMS), ("--model", f"baseline={models['plain']}")
    folder = RunFolder(tmp_path / "run")
    run(["task", "several", str(folder.path), *who, "--data", str(data)])
    folder.remember([], [], {"max_tokens": 9}, {"gpu": "x"})
    run(["task", "several", str(folder.path), *who, "--data", str(data)])
    run(["task", "several", str(folder.path), *who, "--data", str(data), "--max-tokens", "7"])
    assert seen == [2560, 9, 7], "its own, then the folder's, then what is asked for"


def test_a_folder_whose_answers_are_short_says_so(
    tmp_path: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data, who = write_problems(tmp_path, SUMS), ("--model", f"baseline={models['plain']}", "--device", "cpu")
    run(["answers", str(tmp_path / "run"), *who, "--prompts", "arithmetic", "--limit", "1", "--max-tokens", "20"])
    run(["task", "several", str(tmp_path / "run"), *who, "--data", str(data), "--parts", "4", "--limit", "1"])
    assert "answers here have 20 tokens at most" in capsys.readouterr().err


def test_marks_count_in_the_report(tmp_path: Path, models: dict[str, str], stage: Stage) -> None:
    data = write_problems(tmp_path, SUMS)
    out = tmp_path / "run"
    stage("task", "gather", out, "--model", f"baseline={models['plain']}", "--data", data, *SMALL)
    folder = RunFolder(out)
    path = folder.marks_path("gather-problems", "baseline")
    marks = [json.loads(line) for line in path.read_text().splitlines()]
    marks[0]["parts"][0] = 1
    path.write_text("".join(json.dumps(mark) + "\n" for mark in marks))
    figures = json.loads(stage("report", out, "--json"))["models"]["baseline"]["tasks"]["gather-problems"]
    assert figures["score"]["value"] == pytest.approx(1 / figures["parts"], abs=1e-4)
    assert figures["end"]["value"] == 0


def test_functions_need_consent_before_anything_is_decoded(
    tmp_path: Path, models: dict[str, str], stage: Stage
) -> None:
    data = write_problems(tmp_path, FUNCTIONS)
    command = ("task", "several", tmp_path / "run", "--model", f"baseline={models['tagged']}", "--data", data, *SMALL)
    with pytest.raises(UsageError, match="--run-code"):
        stage(*command)
    assert not (tmp_path / "run").exists()
    assert "baseline" in stage(*command, "--run-code")


def test_a_set_of_problems_is_named_after_its_task_and_file() -> None:
    questions = QuestionSet.of_task(None, "several", "data/gsm8k_dev.jsonl.xz", 4, 1000)
    assert questions == QuestionSet("several4-gsm8k_dev", "several:4:1000:data/gsm8k_dev.jsonl.xz")
    assert questions.is_task and not QuestionSet.parse("alpaca=several.json").is_task


def test_a_skeleton_of_a_task_is_its_headings_and_each_part_is_asked_for_in_full(
    tmp_path: Path, models: dict[str, str]
) -> None:
    engine = load_engine(models["plain"], device="cpu")
    bundle = Bundle("several", tuple(read_problems(write_problems(tmp_path, SUMS))[:2]))
    asking = answering(engine, Contestant("sot", models["plain"], "skeleton"), bundle.question("0"), 300)

    def told(text: str, tokens: int) -> SimpleNamespace:
        counts = dict.fromkeys(("tokens_total", "content_tokens", "critical_path"), tokens)
        return SimpleNamespace(text=text, finish_reason="stop", **counts)

    [plan] = next(asking)
    assert "numbered list of the answer's headings" in engine.vocabulary.decode(plan.prompt)
    points = asking.send([told(" **Problem 1**\n2. **Problem 2**", 12)])
    asked = [engine.vocabulary.decode(point.prompt) for point in points]
    assert [text.endswith(f"**Problem {n}**\n") for n, text in enumerate(asked, start=1)] == [True, True]
    assert all("Write this part only, in full" in text for text in asked) and points[0].params.max_tokens == 300
    answers = [problem.answer for problem in bundle.problems]
    with pytest.raises(StopIteration) as stopped:
        asking.send([told(f"So it is.\nAnswer: {number:g}", 9 * n) for n, number in enumerate(answers, start=1)])
    answer = stopped.value.value
    assert mark(bundle.question("0").row, answer.text).parts == (True, True)
    assert answer.critical_path == 12 + 18, "the plan, and the longest of the parts"
