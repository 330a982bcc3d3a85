import errno
import json
import os
import stat

import pytest
from typer.testing import CliRunner

from pasta.cli.main import app

GOOD = '<promise topic="salt" tokens=2/><async>Salt the water until it tastes of sea.</async> Boil it.'
BAD = f"Cook.\n{GOOD}</async>"
FIXABLE = f"é {GOOD}<sync>"


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["check", *map(str, arguments)], input=stdin, catch_exceptions=False)


@pytest.fixture
def write(tmp_path):
    def write(content, name="answer.pasta"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_clean_file_says_nothing(write):
    result = run(write(GOOD))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_an_error_is_a_line_with_its_place(write):
    path = write(BAD)
    result = run(path)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{path}:2:{len(GOOD) + 1}: E112 </async> closes nothing")
    assert result.stderr == ""


def test_warnings_are_told_but_are_no_failure(write):
    path = write("a<sync/>")
    result = run(path)
    assert result.exit_code == 0
    message = "<sync/> waits for nothing: this thread has no open child here"
    assert result.stdout == f"{path}:1:2: W201 {message} (--fix: remove <sync/>)\n"


def test_standard_input():
    assert run("-", stdin=GOOD).exit_code == 0
    result = run("-", stdin=BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("-:2:")


def test_json(write):
    path = write(BAD)
    result = run(path, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    (diagnostic,) = report.pop("diagnostics")
    assert report == {"file": str(path), "ok": False, "errors": 1, "warnings": 0, "fixed": []}
    start = BAD.rindex("</async>")
    assert diagnostic == {
        "code": "E112",
        "severity": "error",
        "message": "</async> closes nothing: no <async> is open here",
        "hint": "remove it, or add its <async>",
        "line": 2,
        "column": len(GOOD) + 1,
        "start": start,
        "end": start + len("</async>"),
        "fix": None,
    }
    assert json.loads(run(write(GOOD), "--json").stdout)["ok"] is True


def test_fix_rewrites_the_file_and_says_so(write):
    path = write(FIXABLE)
    path.chmod(0o640)
    result = run(path, "--fix")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == f"{path}:1:{len(FIXABLE) - 5}: fixed E102: write <sync/>\n"
    assert path.read_text(encoding="utf-8") == FIXABLE.replace("<sync>", "<sync/>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]


def test_fix_leaves_the_rest_to_be_told(write):
    path = write(f"a<sync/>{BAD}")
    result = run(path, "--fix")
    assert result.exit_code == 1
    assert "E112" in result.stdout
    assert path.read_bytes() == f"a<sync/>{BAD}".encode()  # warnings wait for the errors
    assert result.stderr == ""


def test_fix_does_not_write_a_file_that_needs_none(write):
    path = write("a\r\nb\n")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert run(path, "--fix").exit_code == 0
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_fix_keeps_line_ends_and_links(write, tmp_path):
    path = write("a\r\n<sync/>b\r\n")
    link = tmp_path / "link.pasta"
    link.symlink_to(path)
    assert run(link, "--fix").exit_code == 0
    assert link.is_symlink()
    assert path.read_bytes() == b"a\r\nb\r\n"


def test_fix_of_standard_input_prints_the_new_text_alone():
    result = run("-", "--fix", stdin=FIXABLE)
    assert result.exit_code == 0
    assert result.stdout == FIXABLE.replace("<sync>", "<sync/>")
    assert "fixed E102" in result.stderr


def test_fix_of_standard_input_tells_what_is_left_on_stderr():
    result = run("-", "--fix", stdin=BAD)
    assert result.exit_code == 1
    assert result.stdout == BAD
    assert "E112" in result.stderr


def test_fix_with_json_lists_both(write):
    report = json.loads(run(write(FIXABLE), "--fix", "--json").stdout)
    assert report["ok"] and [fixed["code"] for fixed in report["fixed"]] == ["E102"]


def test_fix_with_json_of_standard_input_is_a_usage_error():
    result = run("-", "--fix", "--json", stdin=GOOD)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --json and --fix")


def test_a_file_that_cannot_be_written_is_left_alone(write, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = write(FIXABLE)
    monkeypatch.setattr("os.replace", no_space)
    result = run(path, "--fix")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: cannot write {path}: {os.strerror(errno.ENOSPC)} (the file is unchanged)\n"
    assert path.read_text(encoding="utf-8") == FIXABLE
    assert os.listdir(path.parent) == [path.name]


def test_bytes_that_are_not_utf8(write):
    path = write(b"a\n\xff<sync/>")
    for option in ((), ("--fix",)):
        result = run(path, *option)
        assert result.exit_code == 1
        assert result.stdout == f"{path}:2:1: E100 byte 0xFF at offset 2 is not UTF-8 (save the file as UTF-8)\n"
    assert path.read_bytes() == b"a\n\xff<sync/>"


def test_a_byte_order_mark_is_no_text(write):
    """As editors of Windows write it: the first column is the first letter's."""
    path = write("\ufeff" + BAD.removeprefix("Cook.\n"))
    result = run(path)
    assert result.exit_code == 1 and result.stdout.startswith(f"{path}:1:{len(GOOD) + 1}: E112")


@pytest.mark.parametrize("command", ["check", "render"])
@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.pasta", "no such file"), (".", "is a folder"), ("empty.pasta", "is empty")],
)
def test_what_cannot_be_read_is_one_line_and_exit_code_2(tmp_path, command, name, message):
    (tmp_path / "empty.pasta").touch()
    result = CliRunner().invoke(app, [command, str(tmp_path / name)], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.xz"])
@pytest.mark.parametrize("command", ["check", "render", "replay"])
def test_a_file_of_rows_is_no_response(write, name, command):
    """To be read as one, and found without a mistake."""
    path = write(json.dumps({"response": BAD}), name)
    result = CliRunner().invoke(app, [command, str(path)], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "") and "holds rows, expected one response" in result.stderr


def test_nothing_on_standard_input_is_said_in_words():
    assert run("-", stdin="").stderr.startswith("error: standard input is empty (")


def test_no_file_is_a_usage_error():
    assert run().exit_code == 2


def test_what_generate_writes_as_json_is_read(write):
    """The annotated text inside; a response that happens to be JSON stays a response."""
    result = {"text": "…", "annotated": BAD, "threads": []}
    path = write(json.dumps(result), "answer.json")
    found = run(path)
    assert found.exit_code == 1 and found.stdout.startswith(f"{path}:2:{len(GOOD) + 1}: E112")
    before = path.read_bytes()
    fixing = run(path, "--fix")
    assert fixing.exit_code == 2 and "result in JSON" in fixing.stderr and path.read_bytes() == before
    for text in (
        '{"annotated": "a"}',
        "{no json",
        '{"annotated": 3, "text": 1, "threads": 2}',
        "{}",
        '{"a": ' + 100_000 * "[",
    ):
        assert run("-", stdin=text).exit_code == 0
        assert run("-", stdin=f"{text}</async>").exit_code == 1


def test_of_a_result_that_a_limit_cut_the_end_is_not_judged(write):
    alone = GOOD.removesuffix(" Boil it.")
    for reason, codes in (("stop", ["W208"]), ("length", [])):
        result = {"text": "…", "annotated": alone, "threads": [], "finish_reason": reason}
        report = json.loads(run(write(json.dumps(result)), "--json").stdout)
        assert [diagnostic["code"] for diagnostic in report["diagnostics"]] == codes
