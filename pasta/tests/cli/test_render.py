import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pasta.cli.main import app

SOURCE = "é <promise topic='salt' tokens=\"2\" /><async>Salt it <\\sync/>.\r\n</async >\n<sync /> Boil it."


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["render", *map(str, arguments)], input=stdin, catch_exceptions=False)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("plain", "é Salt it <sync/>.\r\n\n Boil it."),
        ("main", 'é <promise topic="salt" tokens=2/>\n<sync/> Boil it.'),
        (
            "merged",
            'é <promise topic="salt" tokens=2/><async>Salt it <\\sync/>.\r\n</async>\n<sync/> Boil it.',
        ),
    ],
)
def test_each_form_to_the_letter(tmp_path, form, expected):
    path = tmp_path / "answer.pasta"
    path.write_bytes(SOURCE.encode())
    for result in (run(path, "--form", form), run("-", "--form", form, stdin=SOURCE.encode())):
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout_bytes == expected.encode()


def test_plain_is_the_default():
    assert run("-", stdin="a<sync/>b").stdout == "ab"


def test_an_error_is_one_line_with_its_place(tmp_path):
    path = tmp_path / "answer.pasta"
    path.write_text("a\n</async>", encoding="utf-8")
    result = run(path)
    assert (result.exit_code, result.stdout) == (1, "")
    message = "</async> closes nothing: no <async> is open here"
    assert result.stderr == f"error: {path}:2:1: E112 {message} (pasta check {path} lists all)\n"


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "answer.pasta"
    path.write_bytes(b"\xff")
    result = run(path)
    assert result.exit_code == 1
    assert f"{path}:1:1: E100" in result.stderr


def test_an_unknown_form_is_a_usage_error():
    result = run("-", "--form", "html", stdin="a")
    assert result.exit_code == 2
    assert "html" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("asked", [["render", "-"], ["--version"], ["--help"]])
def test_a_full_disk_is_one_line(asked):
    script = "from pasta.cli import main; main()"
    with open("/dev/full", "wb") as full:
        result = subprocess.run([sys.executable, "-c", script, *asked], input=b"a", stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr.startswith(b"error: cannot write the result: ") and result.stderr.count(b"\n") == 1
