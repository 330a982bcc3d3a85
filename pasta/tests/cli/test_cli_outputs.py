"""Files that a command is to write: what cannot be meant is refused before anything takes long."""

import json
import os

import pytest
from cli_support import refused

ROW = {"prompt": "p", "response": 'Hm. <promise topic="a" tokens=1/><async>One.</async><sync/> End.'}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ("eval without-syncs {read} {written}", ROW),
        ("annotate {read} {written} --overwrite", ROW),
        ("replay {read} --trace {written}", ROW["response"]),
        ("extract Ada. --schema {read} --trace {written}", SCHEMA),
        ("extract --file {read} --schema {read} --trace {written}", SCHEMA),
        ("generate Hi. --model {read} --trace {written}", ""),
        ("bench --model {read} --output {written}", ""),
        ("train judge --data {read} --score {read} --scores {written} --output judge", ROW),
    ],
)
def test_what_is_read_is_not_written_over(pasta, tmp_path, monkeypatch, arguments, content):
    monkeypatch.chdir(tmp_path)
    kind = "txt" if isinstance(content, str) else "jsonl"
    read = tmp_path / f"read.{kind}"
    read.write_text(content if isinstance(content, str) else json.dumps(content) + "\n")
    before = read.read_bytes()
    os.symlink(read, tmp_path / f"link.{kind}")
    for written in (f"read.{kind}", f"link.{kind}"):
        filled = arguments.format(read=read, written=written)
        refused(pasta(*filled.split()), 2, f"{read} and {written} are the same file", "name another output")
    assert read.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [f"link.{kind}", f"read.{kind}"]


def test_what_an_annotation_leaves_while_it_runs_is_not_what_it_reads(pasta, tmp_path):
    part = tmp_path / "out.jsonl.part"
    part.write_text(json.dumps(ROW) + "\n")
    refused(pasta("annotate", str(part), str(tmp_path / "out.jsonl"), "--overwrite"), 2, "are the same file")
    assert json.loads(part.read_text()) == ROW


FILES = {
    "generate": "generate Hi. --model /nowhere --trace {}",
    "extract": "extract Ada. --schema schema.json --model /nowhere --trace {}",
    "replay": "replay cities --model /nowhere --trace {}",
    "demo": "demo --trace {}",
    "bench": "bench --model /nowhere --output {}",
    "eval without-syncs": "eval without-syncs rows.jsonl {}",
    "train judge --scores": "train judge --data rows.jsonl --model /nowhere --output j --score rows.jsonl --scores {}",
}
FOLDERS = {
    "export": "export --model /nowhere --output {}",
    "train sft": "train sft --data rows.jsonl --model /nowhere --output {}",
    "train preference": "train preference --prompts rows.jsonl --baseline b --judge reward:/nowhere --output {}",
    "train judge": "train judge --data rows.jsonl --model /nowhere --output {}",
    "eval answers": "eval answers {} --model a=/nowhere --prompts arithmetic",
    "eval task": "eval task plain {} --model a=/nowhere --data rows.jsonl",
    "eval timing": "eval timing {} --model a=/nowhere --prompts arithmetic",
    "eval concurrency": "eval concurrency {} --model a=/nowhere --prompts arithmetic",
}
MAKES_PARENTS = {**FOLDERS, "annotate": "annotate rows.jsonl {} --model /nowhere"}
LONG = 252 * "n" + ".jsonl"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to run in, with what commands read; nothing else may be there afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "folder.jsonl").mkdir()
    before = sorted(os.listdir(tmp_path))
    yield tmp_path
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_cannot_be_written_is_refused_at_once(pasta, here, command):
    for file, why in (
        ("folder.jsonl", "it is a folder"),
        ("no/out.jsonl", f"there is no folder {here / 'no'}"),
        ("rows.jsonl/out.jsonl", f"there is no folder {here / 'rows.jsonl'}"),
        (LONG, "File name too long"),
        ("/proc/out.jsonl", ""),  # even root makes no file there
    ):
        refused(pasta(*FILES[command].format(file).split()), 2, f"error: cannot write {file}: {why}")


@pytest.mark.parametrize("command", MAKES_PARENTS)
def test_what_cannot_be_made_with_its_parents_is_refused_at_once(pasta, here, command):
    for path, why in (
        ("rows.jsonl/new/out.jsonl", f"{here / 'rows.jsonl'} is no folder"),
        (f"new/{LONG}", "File name too long"),
        ("/proc/new/out.jsonl", ""),
    ):
        written = f"{path}.part" if command == "annotate" else path
        refused(pasta(*MAKES_PARENTS[command].format(path).split()), 2, f"error: cannot write {written}: {why}")


@pytest.mark.parametrize("command", FOLDERS)
def test_a_file_where_a_folder_is_wanted_is_refused_at_once(pasta, here, command):
    done = pasta(*FOLDERS[command].format("schema.json").split())
    refused(done, 2, "error: cannot write to schema.json: it is a file (name a folder)")


@pytest.mark.parametrize("name", ["--model=" + LONG + "=/nowhere", "--prompts=" + LONG + "=rows.jsonl"])
def test_names_that_are_too_long_for_an_evaluation_are_refused_at_once(pasta, here, name):
    given = ["--model", "a=/nowhere", "--prompts", "arithmetic", name]
    done = pasta("eval", "answers", "new", *given)
    refused(done, 2, "the name has 258 bytes, expected 200 or less")


def test_a_judge_without_data_makes_no_folder(pasta, here):
    refused(pasta("train", "judge", "--data", "none.jsonl", "--output", "new"), 2, "there is no file none.jsonl")


def test_a_file_of_keys_with_too_long_a_name_is_refused(pasta, here):
    refused(pasta("key", "me", "--keys", LONG), 1, "cannot write to", "File name too long")
