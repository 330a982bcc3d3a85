"""`pasta extract`, as a user runs it."""

import json
import os
import pty
import subprocess

import jsonschema
import pytest
from cli_support import PASTA, refused

import pasta as package
from pasta.engine.load import load_engine

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "old": {"type": "boolean"},
        "home": {"type": "object", "properties": {"zip": {"type": "integer", "maximum": 99}}, "required": ["zip"]},
    },
    "required": ["name", "old", "home"],
}


@pytest.fixture
def schema(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA), "utf-8")
    return str(file)


def test_piped_it_prints_the_object_alone(pasta, tiny, schema, tmp_path):
    expected = package.extract(load_engine(tiny, device="cpu"), "Ada.", SCHEMA, max_tokens=100)
    ask = ("--schema", schema, "--model", tiny, "--max-tokens", "100")
    code, out, _ = pasta("extract", "Ada.", *ask)
    assert (code, json.loads(out), out.count(b"\n")) == (0, expected, 1)
    assert pasta("extract", "-", *ask, stdin=b"Ada.\n")[1] == out
    text = tmp_path / "text.txt"
    text.write_text("Ada.", "utf-8-sig")  # as editors on Windows do
    assert pasta("extract", "--file", str(text), *ask)[1] == out
    given = json.dumps(SCHEMA).encode()
    assert pasta("extract", "Ada.", "--schema", "-", *ask[2:], stdin=given)[1] == out


def test_json_and_a_timeline(pasta, tiny, schema, tmp_path):
    trace = tmp_path / "trace.json"
    ask = ("--schema", schema, "--model", tiny, "--max-tokens", "100", "--json")
    code, out, _ = pasta("extract", "Ada.", *ask, "--trace", str(trace), "--system", "Be brief.")
    value = json.loads(out)
    assert code == 0 and value["value"] == json.loads(value["text"])
    assert [field["pointer"] for field in value["fields"]] == ["/name", "/old", "/home/zip"]
    assert {thread["topic"] for thread in value["threads"]} == {"", "/name", "/old", "/home/zip"}
    assert json.loads(trace.read_bytes())["otherData"]["requests"]
    one_by_one = json.loads(pasta("extract", "Ada.", *ask, "--mode", "sequential")[1])
    assert one_by_one["critical_path"] > value["critical_path"]
    waiting = json.loads(pasta("extract", "Ada.", *ask, "--after", "old=name")[1])
    assert waiting["critical_path"] > value["critical_path"]
    led = json.loads(pasta("extract", "Ada.", *ask, "--mode", "lead")[1])
    assert one_by_one["critical_path"] > led["critical_path"] > value["critical_path"]


def test_a_limit_is_an_error(pasta, tiny, schema):
    ask = ("extract", "Ada.", "--schema", schema, "--model", tiny, "--max-tokens", "3")
    refused(pasta(*ask), 1, "missing", "raise max_tokens")
    code, out, err = pasta(*ask, "--json")
    assert code == 1 and json.loads(out)["missing"] and "missing" in err
    code, out, _ = pasta(*ask, "--json", "--at-limit", "close")
    value = json.loads(out)
    jsonschema.validate(value["value"], SCHEMA)
    assert code == 0 and value["closed"] and not value["missing"]
    refused(pasta(*ask, "--at-limit", "stop"), 2, "unknown at_limit 'stop'", "cut, close")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected one text"),
        (["x", "--file", "y"], "expected one text"),
        ([" "], "the text is empty"),
        (["x"], "--schema FILE"),
        (["x", "--schema", "nowhere.json"], "cannot read nowhere.json"),
        (["--file", "nowhere.txt", "--schema", "s"], "cannot read nowhere.txt"),
        (["-", "--schema", "-"], "both the text and the schema"),
        (["x", "--schema", "SCHEMA", "--mode", "fast"], "unknown mode 'fast'"),
        (["x", "--schema", "SCHEMA", "--after", "name"], "expected FIELD=FIELD"),
        (["x", "--schema", "SCHEMA", "--after", "name=age"], "/age is no field"),
        (["x", "--schema", "SCHEMA", "--max-tokens", "0"], "max_tokens is 0"),
    ],
)
def test_what_cannot_be_meant(pasta, schema, arguments, words):
    """One line each, before any model is loaded."""
    refused(pasta("extract", *(schema if each == "SCHEMA" else each for each in arguments)), 2, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "is no JSON"), (b"[]", "expected a JSON schema"), (b"\xff", "not UTF-8"), (b"[" * 100_000, "is no JSON")],
)
def test_files_that_are_no_schema(pasta, tmp_path, content, words):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    refused(pasta("extract", "x", "--schema", str(file)), 2, words)


def test_a_schema_that_cannot_be_followed(pasta, tiny, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text('{"type": "object", "properties": {"a": {"type": "strng"}}, "required": ["a"]}', "utf-8")
    refused(pasta("extract", "x", "--schema", str(file), "--model", tiny), 2, "/a", "strng")


def test_in_a_terminal_the_fields_fill_in(tiny, schema):
    ours, theirs = pty.openpty()
    ask = [*PASTA, "extract", "Ada.", "--schema", schema, "--model", tiny, "--max-tokens", "100"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(ask, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert running.wait() == 0
    os.close(ours)
    text = shown.decode("utf-8", "replace")
    assert "home › zip" in text and '"zip"' in text
    assert "3 fields" in text and "steps" in text
