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
    read = tmp_path / "read.jsonl"
    read.write_text(content if isinstance(content, str) else json.dumps(content) + "\n")
    before = read.read_bytes()
    os.symlink(read, tmp_path / "link.jsonl")
    for written in ("read.jsonl", "link.jsonl"):
        filled = arguments.format(read=read, written=written)
        refused(pasta(*filled.split()), 2, f"{read} and {written} are the same file", "name another output")
    assert read.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link.jsonl", "read.jsonl"]


def test_what_an_annotation_leaves_while_it_runs_is_not_what_it_reads(pasta, tmp_path):
    part = tmp_path / "out.jsonl.part"
    part.write_text(json.dumps(ROW) + "\n")
    refused(pasta("annotate", str(part), str(tmp_path / "out.jsonl"), "--overwrite"), 2, "are the same file")
    assert json.loads(part.read_text()) == ROW
