"""`pasta annotate` as a command, with the real tokenizer of the default model."""

import contextlib
import json
import os
import signal
import socket
import subprocess

import pytest
from cli_support import PASTA, refused

from pasta.cli import annotate as cli_annotate
from pasta.data.report import Report

ANSWER = (
    "Three birds come to this garden in winter:\n\n"
    "- Robins: they hop on the ground below the hedge and pick up what the others drop.\n"
    "- Great tits: they hang from the feeder upside down and carry one seed at a time to a branch.\n"
    "- Woodpeckers: they come rarely, hammer at the old apple tree, and leave when a window opens."
)


def run(*arguments, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*PASTA, "annotate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
        **options,
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [{"prompt": "Which birds?", "response": ANSWER}, {"prompt": "Sure?", "response": "Yes."}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_structure_from_file_to_file(source, tmp_path, default_folder):
    out = tmp_path / "out.jsonl"
    done = run(source, out, "--annotator", "structure", "--model", default_folder.path, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["annotated"], report["sequential"], report["refused"]) == (1, 1, 0)
    assert report["blocks"] == 3
    assert report["parallelism_annotated"] > 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["plain"] == ANSWER
    assert '-<promise topic="Great tits" tokens=' in rows[0]["response"]
    checked = tmp_path / "answer.txt"
    checked.write_text(rows[0]["response"])
    assert subprocess.run([*PASTA, "check", str(checked)], timeout=500).returncode == 0
    again = run(source, out, "--model", default_folder.path)
    assert "2 were there already" in again.stdout


def interrupted(process):
    """What it says to Ctrl-C. One in the instant before it waits is not noticed: then it comes again."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=30)[1]
    raise AssertionError("it does not end")


def test_an_interrupted_run_says_how_to_go_on(source, tmp_path, default_folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes a request and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        options = ["--annotator", "llm", "--model", "m", "--base-url", address, "--tokenizer", str(default_folder.path)]
        command = [*PASTA, "annotate", str(source), str(tmp_path / "out.jsonl"), *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            silent.settimeout(300)
            asked, _ = silent.accept()
            with asked:
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=500)
    assert process.returncode == 130
    assert "interrupted: no row was done; run the same command again" in said
    assert list(tmp_path.iterdir()) == [source]
    assert "Traceback" not in said


def test_rows_that_are_all_refused_end_with_one(pasta, tmp_path, default_folder):
    source = tmp_path / "in.jsonl"
    source.write_text('{"dialog": ["Hi", "Ho"]}\n')
    done = pasta("annotate", str(source), str(tmp_path / "out.jsonl"), "--model", str(default_folder.path))
    refused(done, 1, "the only row of", "no messages, no conversations, and no prompt and response, but dialog (1)")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_without_rows_ends_with_one(pasta, tmp_path, default_folder):
    source = tmp_path / "in.jsonl"
    source.touch()
    done = pasta("annotate", str(source), str(tmp_path / "out.jsonl"), "--model", str(default_folder.path))
    refused(done, 1, "in.jsonl has no rows")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{source}", "{source}"), "the same file"),
        (("none.jsonl", "out.jsonl"), "no file"),
        (("{source}", "out.txt"), "cannot tell how to write"),
        (("{source}", "-"), "annotate takes files, not standard input and output"),
        (("-", "out.jsonl"), "annotate takes files, not standard input and output"),
        (("{source}", "."), ". is there, and is nothing that can be gone on with"),
        (("{source}", "out.jsonl", "--annotator", "llm"), "--model"),
        (("{source}", "out.jsonl", "--annotator", "magic"), "magic"),
        (("{source}", "out.jsonl", "--annotator", "independence", "--dtype", "int3"), "int3"),
    ],
)
def test_mistakes_end_with_one_line(source, tmp_path, default_folder, arguments, message):
    filled = [argument.format(source=source) for argument in arguments]
    if "--model" not in filled and "llm" not in filled:
        filled += ["--model", str(default_folder.path)]
    done = run(*filled, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_where_stderr_is_no_terminal_lines_say_how_far_it_is(monkeypatch, capsys):
    now = iter([0.0, 100.0, 105.0, 112.0, 113.0, 130.0])
    monkeypatch.setattr(cli_annotate.time, "monotonic", lambda: next(now))
    report = Report("structure", annotated=30)
    with cli_annotate.progress_on_stderr(True) as progress:
        for done in (400, 405, 412, 413, 1000):  # an earlier run had done the first 400
            progress(done, 1000, report)
    assert capsys.readouterr().err == "412 of 1,000 rows, 30 annotated, about 588 s left\n"
    with cli_annotate.progress_on_stderr(False) as progress:
        assert progress is None
