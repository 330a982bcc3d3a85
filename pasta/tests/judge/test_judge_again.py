"""A report that is made again tells what was trained, and leaves the judge as it is."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pasta.errors import UsageError
from pasta.judge.__main__ import main
from pasta.judge.again import report_again
from pasta.judge.config import JudgeConfig
from pasta.judge.held_out import keys_of, read_held_out, write_held_out
from pasta.judge.preferences import Answer, Contest, prompt_key
from pasta.judge.reward import RewardModel
from pasta.judge.train import train_judge


def small(data: str, base: str, out: Path, **changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"lora_rank": 4, "epochs": 1, "group": 4, "prompts": 5, "max_length": 96, "tokens": 2048}
    usual |= {"data": data, "out": str(out), "model": base, "reference": "teacher", "device": "cpu"}
    return train_judge(JudgeConfig(**{**usual, **changes}))


@pytest.fixture(scope="module")
def trained(data: str, base: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("judge")
    return out, small(data, base, out, spoiled=0.0)


def copy(trained: tuple[Path, dict[str, Any]], to: Path, *names: str) -> Path:
    to.mkdir()
    for name in ("judge.json", "held-out.jsonl", *names):
        shutil.copy(trained[0] / name, to / name)
    return to


def test_it_is_what_it_was_and_the_linear_judge_stays(trained: tuple[Path, dict[str, Any]], data: str) -> None:
    out, report = trained
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert json.loads(json.dumps(report_again(out, data))) == json.loads(json.dumps(report))
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_record_says_how_the_linear_judge_is_fitted(
    trained: tuple[Path, dict[str, Any]], data: str, tmp_path: Path
) -> None:
    record = json.loads((trained[0] / "judge.json").read_text())
    assert (record["reference"], record["spoiled_weight"], record["features"]) == ("teacher", 0.0, True)
    folder = copy(trained, tmp_path / "lost")
    report_again(folder, data)
    assert (folder / "features.json").read_bytes() == (trained[0] / "features.json").read_bytes()


def test_two_answers_of_one_model_to_one_prompt_keep_their_own_rewards(data: str, base: str, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    twice = next(row for row in rows if row["generator"] == "able")
    other = {**twice, "output": "~~~~ of quite another length", "preference": 1.0}
    (tmp_path / "twice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, other]))
    out = tmp_path / "judge"
    report = small(str(tmp_path / "twice.jsonl"), base, out, features=False, learning_rate=1e-2, epochs=4)
    assert report["answers"] == len(rows) - 20 + 1
    prompt = prompt_key(twice["instruction"])
    kept = read_held_out(out)
    fold = out / f"fold-{json.loads((out / 'judge.json').read_text())['prompts'][prompt]}"
    asked = [(twice["instruction"], row["output"]) for row in (twice, other)]
    own = RewardModel(str(fold), device="cpu", max_length=96).rewards(asked)
    assert abs(own[0] - own[1]) > 0.1
    assert [kept[prompt, "able", number] for number in (0, 1)] == pytest.approx(own, abs=0.02)
    again = report_again(out, str(tmp_path / "twice.jsonl"))
    assert json.loads(json.dumps(again)) == json.loads(json.dumps(report))
    lines = (out / "held-out.jsonl").read_text().splitlines()
    second = [line for line in lines if json.loads(line)["prompt"] == prompt and '"able"' in line][1]
    (out / "held-out.jsonl").write_text("".join(f"{line}\n" for line in lines if line != second))
    with pytest.raises(UsageError, match="no reward of the answer that able gave to"):
        report_again(out, str(tmp_path / "twice.jsonl"))


def test_each_answer_is_read_with_the_reward_that_was_written(tmp_path: Path) -> None:
    """Also where two prompts differ in white space alone, and so have one key."""
    parts, rewards = [], []
    for asked in (("Why?", "Why? "), ("How?",)):
        parts.append([contest(prompt, "able", "able", "poor") for prompt in asked])
        rewards.append([[len(prompt) + number for number in range(4)] for prompt in asked])
    write_held_out(tmp_path, parts, rewards)
    kept = read_held_out(tmp_path)
    assert len(kept) == 12
    keys = keys_of(contest for part in parts for contest in part)
    assert [kept[key] for key in keys] == [reward for part in rewards for each in part for reward in each]


def contest(prompt: str, *models: str) -> Contest:
    answers = [Answer(prompt, model, "So.", 0.5) for model in ("teacher", *models)]
    return Contest(prompt, answers[0], tuple(answers[1:]))


def test_a_judge_without_a_linear_one_gets_none(data: str, base: str, tmp_path: Path) -> None:
    report = small(data, base, tmp_path / "judge", features=False)
    assert list(report_again(tmp_path / "judge", data)["judges"]) == list(report["judges"])
    assert not (tmp_path / "judge" / "features.json").exists()


def test_a_record_of_before_names_no_reference(trained: tuple[Path, dict[str, Any]], data: str, tmp_path: Path) -> None:
    folder = copy(trained, tmp_path / "old", "features.json")
    record = json.loads((folder / "judge.json").read_text())
    for name in ("reference", "spoiled_weight", "features"):
        del record[name]
    (folder / "judge.json").write_text(json.dumps(record))
    assert report_again(folder, data)["judges"].keys() == trained[1]["judges"].keys()
    (folder / "features.json").unlink()
    assert "features" not in report_again(folder, data)["judges"]
    assert not (folder / "features.json").exists()


def test_what_cannot_be_reported_on_is_told(
    trained: tuple[Path, dict[str, Any]], data: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    small(data, "", tmp_path / "linear", method="features")
    monkeypatch.setattr(sys, "argv", ["pasta.judge", "report", str(tmp_path / "linear"), data])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert told.startswith(f"error: {tmp_path / 'linear'} holds no judge.json") and told.count("\n") == 1
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    for change, said in (({"instruction": "Else? "}, "no prompt that"), ({"generator": "new "}, "new able gave to")):
        other = tmp_path / "other.jsonl"
        changed = [
            {**row, name: more + row[name]} if row["generator"] != "teacher" or name == "instruction" else row
            for row in rows
            for name, more in change.items()
        ]
        other.write_text("".join(json.dumps(row) + "\n" for row in changed))
        with pytest.raises(UsageError, match=said):
            report_again(trained[0], str(other))
    folder = copy(trained, tmp_path / "two")
    small(data, base="", out=tmp_path / "part", method="features", limit=10)
    shutil.copy(tmp_path / "part" / "features.json", folder)
    with pytest.raises(UsageError, match="was made of other prompts than"):
        report_again(folder, data)
