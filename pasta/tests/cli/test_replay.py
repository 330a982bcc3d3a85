"""`pasta replay`, as a user runs it."""

import json

import pytest
from cli_support import OPTIONS, refused

TEXT = (
    'Here:<promise topic="one" tokens=2/><async> One.</async><promise topic="two" tokens=2/><async> Two.</async>'
    "<sync/> Done."
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "answer.pasta"
    path.write_text(TEXT, "utf-8")
    return str(path)


def test_json(pasta, tiny, file, tmp_path):
    trace = tmp_path / "trace.json"
    code, out, _ = pasta("replay", file, "--model", tiny, "--json", "--trace", str(trace))
    value = json.loads(out)
    assert code == 0
    assert value["annotated"] == TEXT
    assert value["text"] == "Here: One. Two. Done."
    assert value["sequential"]["tokens_total"] == value["tokens_total"] == 36  # the byte tokenizer's, and tags
    assert value["decoded_tokens"] == 34  # without two <async>
    assert value["sequential"]["steps"] == 33  # at each fork one more token of the parent was already under way
    assert value["steps"] < value["sequential"]["steps"]
    assert value["speedup"] == pytest.approx(value["sequential"]["wall_s"] / value["wall_s"])
    assert value["theoretical_speedup"] == pytest.approx(34 / value["critical_path"])
    assert len(json.loads(trace.read_bytes())["otherData"]["requests"]) == 2


def test_table(pasta, tiny, file):
    code, out, _ = pasta("replay", file, "--model", tiny, "--prompt", "Why?")
    lines = out.decode().splitlines()
    assert code == 0
    assert lines[0].split() == ["3", "threads", "one", "at", "a", "time"]
    assert [line.split()[0] for line in lines[1:6]] == ["tokens", "critical", "steps", "time", "wall"]
    assert lines[-1].startswith("speedup: ")


def test_what_generate_printed(pasta, tiny, tmp_path):
    _, out, _ = pasta("generate", "Why?", "--model", tiny, "--json", *OPTIONS)
    recorded = json.loads(out)
    path = tmp_path / "recorded.json"
    path.write_bytes(out)
    code, out, _ = pasta("replay", str(path), "--model", tiny, "--json")
    value = json.loads(out)
    assert code == 0
    assert value["prompt_ids"] == recorded["prompt_ids"]
    assert value["text"] == recorded["text"]
    topics = [sorted(thread["topic"] for thread in side["threads"]) for side in (value, recorded)]
    assert topics[0] == topics[1]


def test_stdin_and_examples(pasta, tiny):
    from pasta.examples import EXAMPLES

    code, out, _ = pasta("replay", "breakfast", "--model", tiny, "--json")
    assert (code, json.loads(out)["annotated"]) == (0, EXAMPLES["breakfast"].text)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b'a\nb<promise topic="x" tokens=2/>', 1, "the promise of 'x' has no block"),
        (b"a\nb</async>", 1, ":2:2: E112 "),
        (b"caf\xe9", 1, ":1:4: E100 "),
        (b"", 2, "is empty"),
        (b"<sync/>", 2, "no text"),
        (b'{"text": "x"}', 2, "without a text 'annotated'"),
        (b'{"annotated": "x", "prompt_ids": "y"}', 2, "not a list of token ids"),
        (b'{"annotated": "x", "prompt_ids": [99999]}', 2, "tokens that this model does not know"),
        (b'{"annotated": "x</async>"}', 1, ":1:2: E112 "),
        (b"word " * 2000, 1, "the context is 4096"),
    ],
)
def test_what_cannot_be_replayed(pasta, tiny, tmp_path, data, code, words):
    path = tmp_path / "bad.pasta"
    path.write_bytes(data)
    refused(pasta("replay", str(path), "--model", tiny), code, words, "bad.pasta" if ":" in words else "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/file"], "no such file"),
        (["cities", "--prompt", " "], "the prompt is empty"),
        (["cities", "--max-threads", "0"], "max_threads is 0"),
        (["cities", "--positions", "fixed:x"], "unknown position scheme"),
        (["cities", "--trace", "/no/such/folder/t.json"], "/no/such/folder"),
    ],
)
def test_usage(pasta, arguments, words):
    refused(pasta("replay", *arguments), 2, words)
