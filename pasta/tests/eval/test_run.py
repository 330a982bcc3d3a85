"""The stages that decode, on tiny models, as the command line runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pasta.data.lines import append_line, read_lines
from pasta.errors import UsageError
from pasta.eval import asking
from pasta.eval.decoding import Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.run import main
from pasta.eval.speed import realised

Stage = Callable[..., str]
SMALL = ("--max-tokens", "24", "--batch", "3", "--device", "cpu")


def test_answers_are_rows_and_a_run_goes_on_where_it_stopped(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}@parallelism:3")
    printed = stage("answers", tmp_path, *who, "--prompts", f"lakes={prompts}", "--limit", "2", *SMALL)
    assert "baseline" in printed and "forks" in printed
    path = tmp_path / "answers" / "lakes" / "forks.jsonl"
    first = path.read_text("utf-8")
    assert len(first.splitlines()) == 2
    path.write_text(first + '{"id": "9", "cut', "utf-8")  # a run that was killed
    stage("answers", tmp_path, *who, "--prompts", f"lakes={prompts}", *SMALL)
    assert path.read_text("utf-8").startswith(first)
    folder = RunFolder(tmp_path)
    rows = folder.answers("lakes", "forks")
    assert sorted(rows) == ["0", "1", "2", "3"]
    for row in rows.values():
        assert row["text"] == "".join(text for _, text in row["parts"])
        assert row["critical_path"] <= row["tokens"]
    assert any(len(row["threads"]) > 1 for row in rows.values())
    for row in folder.answers("lakes", "baseline").values():
        assert len(row["threads"]) == 1 and row["tokens"] == row["content_tokens"] == row["critical_path"]


def test_batched_answers_are_those_of_one_at_a_time(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"forks={models['tagged']}@parallelism:3", "--prompts", f"lakes={prompts}")
    stage("answers", tmp_path / "many", *who, *SMALL)
    stage("answers", tmp_path / "one", *who, *SMALL, "--batch", "1")
    many, one = (RunFolder(tmp_path / name).answers("lakes", "forks") for name in ("many", "one"))
    assert many == one


def test_a_few_questions_take_the_memory_of_a_few(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for 128 is many GB of a GPU, also for the smallest model."""
    opened: list[int] = []
    as_usual = Decoding.open

    def open(self: Decoding, model: str, slots: int) -> Any:
        opened.append(slots)
        return as_usual(self, model, slots)

    monkeypatch.setattr(Decoding, "open", open)
    ask = ("--model", f"baseline={models['plain']}", "--max-tokens", "8", "--device", "cpu")
    stage("answers", tmp_path / "few", *ask, "--prompts", f"lakes={prompts}")
    stage("answers", tmp_path / "own", *ask, "--prompts", f"lakes={prompts}", "--batch", "3")
    assert opened == [16 * 2048, 3 * 2048]


def test_the_sets_are_one_stream_so_that_none_waits_for_the_last_answers_of_another(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask_all(engine, methods, at_once, **options):
        asked.append([(name, question.id) for (name, question), _ in methods])
        return asking.ask_all(engine, methods, at_once, **options)

    monkeypatch.setattr("pasta.eval.answers.ask_all", ask_all)
    sets = ("--prompts", f"lakes={prompts}", "--prompts", f"again={prompts}")
    printed = stage("answers", tmp_path, "--model", f"plain={models['plain']}", *sets, *SMALL, "--limit", "2")
    assert asked == [[("lakes", "0"), ("lakes", "1"), ("again", "0"), ("again", "1")]]
    assert "again" in printed
    for name in ("lakes", "again"):
        assert sorted(RunFolder(tmp_path).answers(name, "plain")) == ["0", "1"]


def test_skeleton_of_thought(tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage) -> None:
    stage("answers", tmp_path, "--model", f"sot={models['plain']}@skeleton", "--prompts", f"lakes={prompts}", *SMALL)
    for row in RunFolder(tmp_path).answers("lakes", "sot").values():
        plan, *points = row["threads"]
        assert plan["topic"] == "plan" and points
        assert row["critical_path"] == plan["tokens"] + max(point["tokens"] for point in points)
        assert row["tokens"] == sum(thread["tokens"] for thread in row["threads"])


def test_a_model_may_not_change_under_its_name(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    stage("answers", tmp_path, "--model", f"m={models['plain']}", "--prompts", prompts, "--limit", "1", *SMALL)
    with pytest.raises(UsageError, match="was begun with m ="):
        stage("answers", tmp_path, "--model", f"m={models['tagged']}", "--prompts", prompts, *SMALL)
    with pytest.raises(UsageError, match="max_tokens"):
        stage("answers", tmp_path, "--max-tokens", "9", "--device", "cpu")


def test_timing_takes_turns_and_gives_ratios(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}@parallelism:3")
    stage("timing", tmp_path, *who, "--prompts", prompts, "--limit", "2", "--max-tokens", "24", "--device", "cpu")
    rows = RunFolder(tmp_path).timings()
    assert [row["model"] for row in rows] == ["baseline", "forks"] * 2
    assert all(row["seconds"] > 0 and row["captured"] == 0 for row in rows)
    stage("timing", tmp_path, *who, "--prompts", prompts, "--limit", "3", "--max-tokens", "24", "--device", "cpu")
    assert len(RunFolder(tmp_path).timings()) == 6  # those that were there, and one more


def test_a_newcomer_is_timed_beside_the_others_once_more(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    how = ("--prompts", prompts, "--limit", "2", "--max-tokens", "24", "--device", "cpu", "--json")
    stage("timing", tmp_path, "--model", f"baseline={models['plain']}", *how)
    both = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}")
    told = json.loads(stage("timing", tmp_path, *both, *how))
    assert [(row["model"], row["prompts timed"]) for row in told] == [("baseline", 2), ("forks", 2)]
    last = [row["seconds"] for row in RunFolder(tmp_path).timings()[2:] if row["model"] == "baseline"]
    assert told[0]["seconds an answer"] == pytest.approx(sum(last) / 2)


def test_seconds_of_two_machines_are_no_ratio() -> None:
    def clock(seconds: float, machine: str) -> dict[str, Any]:
        return {"timed": {"seconds": seconds, "content_tokens": 9, "critical_path": 9, "machine": machine}}

    rival = {"1": clock(2.0, "large"), "2": clock(6.0, "small")}
    found = realised({"1": clock(1.0, "large"), "2": clock(1.0, "large")}, rival)["realised_speedup"]
    assert found is not None and (found.value, found.prompts) == (2.0, 1)


def test_a_stage_takes_the_settings_of_those_before(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--prompts", prompts, "--limit", "1", "--device", "cpu")
    stage("answers", tmp_path, *who, "--max-new-tokens", "12")
    stage("timing", tmp_path, "--limit", "1", "--device", "cpu")
    assert [row["tokens"] for row in RunFolder(tmp_path).timings()] == [12]
    with pytest.raises(UsageError, match="begun with max_tokens = 12, now it is 13"):
        stage("timing", tmp_path, "--limit", "1", "--device", "cpu", "--max-tokens", "13")


def test_answers_of_two_dtypes_are_not_mixed(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--prompts", prompts, "--limit", "1", *SMALL)
    stage("answers", tmp_path / "usual", *who)
    assert RunFolder(tmp_path / "usual").record["settings"]["dtype"] is None
    with pytest.raises(UsageError, match="begun with dtype = the default, now it is int8"):
        stage("answers", tmp_path / "usual", "--dtype", "int8", *SMALL)
    stage("answers", tmp_path / "wide", *who, "--dtype", "float32")
    stage("answers", tmp_path / "wide", *SMALL)  # as the stage before decoded
    assert RunFolder(tmp_path / "wide").record["settings"]["dtype"] == "float32"
    with pytest.raises(UsageError, match="begun with dtype = float32, now it is bfloat16"):
        stage("answers", tmp_path / "wide", "--dtype", "bfloat16", *SMALL)
    with pytest.raises(UsageError, match=r"unknown dtype 'half' \(use one of float32, "):
        stage("answers", tmp_path / "none", *who, "--dtype", "half")
    assert not (tmp_path / "none").exists()


def test_a_folder_from_before_dtypes_were_written_down_goes_on(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    stage("answers", tmp_path, "--model", f"m={models['plain']}", "--prompts", prompts, "--limit", "1", *SMALL)
    record = RunFolder(tmp_path).record
    del record["settings"]["dtype"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    stage("answers", tmp_path, "--limit", "2", "--dtype", "float32", *SMALL)
    assert len(RunFolder(tmp_path).answers("lakes", "m")) == 2


def test_what_is_timed_is_what_the_report_is_about(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}")
    sets = ("--prompts", "constraints", "--prompts", f"lakes={prompts}")
    stage("answers", tmp_path, *who, *sets, "--limit", "1", "--max-tokens", "12", "--device", "cpu")
    stage("timing", tmp_path, "--device", "cpu")
    assert {row["prompts"] for row in RunFolder(tmp_path).timings()} == {"lakes"}
    found = json.loads(stage("report", tmp_path, "--json"))
    assert found["prompts"] == "lakes" and found["models"]["forks"]["realised_speedup"]


def test_concurrency(tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage) -> None:
    who = ("--model", f"baseline={models['plain']}", "--model", f"forks={models['tagged']}@parallelism:3")
    options = ("--users", "1,2", "--limit", "3", "--max-tokens", "16", "--device", "cpu", "--json")
    rows = json.loads(stage("concurrency", tmp_path, *who, "--prompts", prompts, *options))
    assert {(row["users"], row["model"]) for row in rows} == {(n, m) for n in (1, 2) for m in ("baseline", "forks")}
    assert all(row["speedup"] == 1 for row in rows if row["model"] == "baseline")


def test_commands_are_noted_without_the_folders_of_this_machine(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage
) -> None:
    for _ in range(2):
        stage(
            "answers",
            tmp_path,
            "--model",
            f"m={models['plain']}@sequential",
            "--prompts",
            prompts,
            "--limit",
            "1",
            *SMALL,
        )
    assert RunFolder(tmp_path).record["commands"] == [
        f"pasta eval answers DIR --model m=plain@sequential --prompts lakes.json --limit 1 {' '.join(SMALL)}"
    ]


def test_without_syncs(tmp_path: Path, stage: Stage) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    block = '<promise topic="a" tokens=1/><async>One.</async>'
    append_line(source, {"prompt": "p", "response": f"Hm. {block}<sync/> End."})
    stage("without-syncs", source, target)
    assert list(read_lines(target)) == [{"prompt": "p", "response": f"Hm. {block} End."}]


def test_without_syncs_of_every_form_that_is_annotated(tmp_path: Path, stage: Stage) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    kept = '1.<promise topic="a" tokens=1/><async> One.</async>{}\nDone.'
    forms: list[Callable[[str], dict[str, Any]]] = [
        lambda text: {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]},
        lambda text: {"conversations": [{"from": "human", "value": "?"}, {"from": "gpt", "value": text}], "id": 7},
        lambda text: {"instruction": "?", "output": text},
        lambda text: {"prompt": "?", "response": text},
    ]
    source.write_text("".join(json.dumps(form(kept.format("<sync/>"))) + "\n" for form in forms))
    stage("without-syncs", source, target)
    assert [json.loads(line) for line in target.read_text().splitlines()] == [form(kept.format("")) for form in forms]
    source.write_text(json.dumps({"prompt": "?"}) + "\n")
    with pytest.raises(UsageError, match="row 1: no messages, no conversations, and no prompt and response"):
        stage("without-syncs", source, target)


@pytest.mark.slow
def test_a_bare_machine_is_enough(tmp_path: Path, models: dict[str, str], prompts: str) -> None:
    """The GPU machine has torch, transformers and numpy, and none of the packages of the command line."""
    gone = ("typer", "rich", "platformdirs", "pydantic", "matplotlib", "httpx", "sklearn", "pandas", "alpaca_eval")
    program = (
        f"import sys\nfor name in {gone}: sys.modules[name] = None\nfrom pasta.eval.run import main\nsys.exit(main())"
    )
    arguments = ["answers", tmp_path, "--model", f"m={models['tagged']}", "--prompts", prompts, "--limit", "1", *SMALL]
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(RunFolder(tmp_path).answers("lakes", "m")) == 1


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answers", str(tmp_path), "--model", "x", "--prompts", "constraints"]) == 2
    assert capsys.readouterr().err.startswith("error: --model x: expected NAME=MODEL")
    assert main(["answers", str(tmp_path)]) == 2
    assert "no model was given" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--limit=-1", "--max-tokens=0", "--minutes=-1", "--minutes=nan", "--minutes=inf", "--batch=0"]
)
def test_numbers_that_cannot_be_meant_begin_no_folder(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = option.partition("=")
    assert main(["answers", str(tmp_path / "new"), "--model", "a=m", "--prompts", "arithmetic", option]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {name} is {value}") and "or more" in told and told.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    assert main(["answers", str(taken), "--model", f"a={models['plain']}", "--prompts", "arithmetic", *SMALL]) == 2
    assert f"error: cannot write to {taken}: it is a file (name a folder)" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_bytes(b"\x99\x00\xff")
    assert main(["answers", str(tmp_path), "--model", "a=m", "--prompts", str(tmp_path / "p.jsonl")]) == 1
    assert f"error: cannot read {tmp_path / 'p.jsonl'}: 'utf-8' codec" in capsys.readouterr().err


def test_rows_without_syncs_that_cannot_be_written_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text('{"response": "Tea."}\n', "utf-8")
    target = tmp_path / "nowhere" / "out.jsonl"
    assert main(["without-syncs", str(tmp_path / "in.jsonl"), str(target)]) == 2
    assert f"error: cannot write {target}: there is no folder {target.parent}" in capsys.readouterr().err


def test_names_that_a_folder_has_not_are_told(
    tmp_path: Path, models: dict[str, str], prompts: str, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    who = (f"baseline={models['plain']}", "--model", f"rival={models['plain']}")
    stage("answers", tmp_path, "--model", *who, "--prompts", f"lakes={prompts}", "--limit", "1", *SMALL)
    capsys.readouterr()
    (tmp_path / "no-judge").write_text("{}")
    for arguments, told in (
        (("report", "--prompts", "seas"), f"--prompts seas: not in {tmp_path} (it has lakes)"),
        (("report", "--judge", "ann"), f"--judge ann: not in {tmp_path} (it has none)"),
        (("concurrency", "--users", "2,0"), "--users 2,0: expected 1 or more each"),
    ):
        name, *options = arguments
        assert main([name, str(tmp_path), *options]) == 2
        assert capsys.readouterr().err == f"error: {told}\n"
    assert main(["judge", str(tmp_path), "--judge", f"features:{tmp_path / 'no-judge'}"]) == 1
    assert "judges" not in RunFolder(tmp_path).record


def test_a_stage_without_its_folder_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["answers"])
    told = capsys.readouterr().err
    assert ended.value.code == 2 and told.startswith("Usage: pasta eval answers [-h]")
    assert told.endswith("\npasta eval answers: error: the following arguments are required: DIR\n")
