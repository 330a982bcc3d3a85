"""What cannot be meant is refused before the folder of an evaluation is begun with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pasta.errors import PastaError, UsageError
from pasta.eval.folder import RunFolder
from pasta.eval.questions import QuestionSet

Stage = Callable[..., str]
SMALL = ("--max-tokens", "4", "--limit", "1", "--device", "cpu")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--model", "..=m", "--prompts", "arithmetic"), "--model ..=m: '..' cannot be a name"),
        (("--model", "=m", "--prompts", "arithmetic"), "--model =m: '' cannot be a name"),
        (("--model", "a\nb=m", "--prompts", "arithmetic"), "cannot be a name"),
        (("--model", "a=m", "--prompts", "..=p.json"), "--prompts ..=p.json: '..' cannot be a name"),
        (("--model", "a=m", "--prompts", "=p.json"), "--prompts =p.json: '' cannot be a name"),
        (("--model", "a=m", "--prompts", "x/p.json", "--prompts", "y/p.json"), "two files of prompts are called p"),
        (("--model", "a=m", "--model", "a=n", "--prompts", "arithmetic"), "two models are called a"),
        (("--model", "a=/no/such/model", "--prompts", "arithmetic"), "unknown model '/no/such/model'"),
        (("--model", "a=m", "--prompts", 300 * "n"), "the name has 300 bytes"),
        (("--model", "a=m", "--prompts", "p=me/" + 300 * "n"), "cannot read the data set"),
        (
            ("--model", "a=m", "--prompts", "nope"),
            "--prompts nope: there is no such file, nor such a set of prompts "
            "(give a file, a data set of the hub as owner/name, or one of constraints, arithmetic)",
        ),
    ],
)
@pytest.mark.parametrize("name", ["answers", "timing", "concurrency"])
def test_no_folder_is_begun_with_a_mistake(
    tmp_path: Path, stage: Stage, name: str, options: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pasta.models.hub.reachable", lambda: False)
    with pytest.raises(PastaError) as refused:
        stage(name, tmp_path / "new", *options, *SMALL)
    assert told in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_stage_of_one_set_of_prompts_refuses_a_second(tmp_path: Path, stage: Stage) -> None:
    both = ("--prompts", "arithmetic", "--prompts", "constraints")
    for name in ("timing", "concurrency"):
        with pytest.raises(UsageError, match="this stage takes one set of prompts, not 2"):
            stage(name, tmp_path / "new", "--model", "a=m", *both, *SMALL)


def test_a_file_is_called_by_its_stem() -> None:
    for text in ("data/.hidden.json", "data/hidden.jsonl.xz", "./a=b/hidden.json"):
        assert QuestionSet.parse(text) == QuestionSet("hidden", text)


def test_a_file_with_an_equals_sign_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k=v.json").write_text(json.dumps([{"prompt": "Hm?"}]))
    assert QuestionSet.parse("k=v.json") == QuestionSet("k=v", "k=v.json")


@pytest.mark.parametrize("record", ["[]", "{}", '{"models": 5, "prompts": {}, "settings": {}, "machines": {}}'])
def test_a_record_of_something_else_is_no_evaluation(tmp_path: Path, stage: Stage, record: str) -> None:
    (tmp_path / "run.json").write_text(record)
    for arguments in (("report", tmp_path), ("judge", tmp_path, "--judge", "length")):
        with pytest.raises(PastaError, match=r"run\.json is no record of an evaluation"):
            stage(*arguments)
    (tmp_path / "run.json").write_text('{"models": {}, "prompts": {}, "settings": {}, "machines": {}}')
    with pytest.raises(UsageError, match="holds no evaluation"):
        stage("judge", tmp_path, "--judge", "length")


def test_a_judge_that_cannot_be_read_leaves_its_name_free(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = (f"baseline={models['plain']}", "--model", f"rival={models['plain']}")
    stage("answers", tmp_path, "--model", *who, "--prompts", prompts, *SMALL)
    with pytest.raises(PastaError, match="/nowhere"):
        stage("judge", tmp_path, "--judge", "reward:/nowhere")
    for name in ("../out", "a/b"):
        with pytest.raises(UsageError, match=f"--name: '{name}' cannot be a name"):
            stage("judge", tmp_path, "--judge", "length", "--name", name)
    with pytest.raises(UsageError, match=r"^--prompts nope: not in .* \(it has lakes\)$"):
        stage("judge", tmp_path, "--judge", "length", "--prompts", "nope")
    stage("judge", tmp_path, "--judge", "length", "--name", "reward")
    assert RunFolder(tmp_path).record["judges"] == {"reward": {"judge": "length", "against": "baseline"}}
    with pytest.raises(UsageError, match=r"under reward \(give this judge a --name"):
        stage("judge", tmp_path, "--judge", "length", "--name", "reward", "--against", "rival")


def test_concurrency_of_other_prompts_needs_another_folder(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    """Loads are compared prompt by prompt, and two files number theirs alike."""
    options = ("--model", f"baseline={models['plain']}", "--users", "1", *SMALL)
    stage("concurrency", tmp_path, "--prompts", prompts, *options)
    with pytest.raises(UsageError, match="holds answers to the prompts of lakes, not of arithmetic"):
        stage("concurrency", tmp_path, "--prompts", "arithmetic", *options)


def test_a_reference_that_is_not_here_is_refused_before_any_work(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"one={models['plain']}", "--model", f"two={models['plain']}")
    asked = ("--prompts", prompts, "--users", "1", *SMALL)
    told = r"^--against nobody: no such model is here \(name one of one, two, or add it with --model\)$"
    with pytest.raises(UsageError, match=told):
        stage("concurrency", tmp_path / "new", *who, *asked, "--against", "nobody")
    assert not (tmp_path / "new").exists()
    stage("concurrency", tmp_path, *who, *asked)
    alone = ("--model", f"three={models['plain']}", *asked)
    with pytest.raises(UsageError, match="name one of one, two, three, or add"):
        stage("concurrency", tmp_path, *alone, "--against", "nobody")
    rows = json.loads(stage("concurrency", tmp_path, *alone, "--against", "one", "--json"))
    assert {row["model"]: row["speedup"] is not None for row in rows} == {"one": True, "two": True, "three": True}


def test_a_task_without_its_reference_is_refused_before_any_work(
    tmp_path: Path, models: dict[str, str], stage: Stage
) -> None:
    data = tmp_path / "sums.jsonl"
    data.write_text(json.dumps({"question": "What is 1 + 1?", "answer": "#### 2"}) + "\n")
    with pytest.raises(UsageError, match=r"--against baseline: no such model is here \(name one of sft"):
        stage("task", "plain", tmp_path / "new", "--model", f"sft={models['plain']}", "--data", data, *SMALL)
    assert not (tmp_path / "new").exists()


def test_answers_to_prompts_that_were_changed_since_are_not_gone_on_with(
    tmp_path: Path, models: dict[str, str], stage: Stage
) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps([{"prompt": "What is a tide?"}, {"prompt": "And a lake?"}]))
    asked = ("answers", tmp_path / "run", "--model", f"baseline={models['plain']}", "--prompts", f"p={file}")
    stage(*asked, *SMALL)
    file.write_text(json.dumps([{"prompt": "What is a tide?"}, {"prompt": "And a river?"}]))
    stage(*asked, *SMALL)
    file.write_text(json.dumps([{"prompt": "What is a volcano?"}, {"prompt": "And a river?"}]))
    with pytest.raises(UsageError, match="prompt 0 of p is not the one that baseline answered"):
        stage(*asked, *SMALL)
