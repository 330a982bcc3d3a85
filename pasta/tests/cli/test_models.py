"""`pasta models`, as a user runs it."""

import json
import subprocess
import sys

import pytest

from pasta.models import bundled

PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]


def run(*arguments):
    return subprocess.run([*PASTA, *arguments], capture_output=True, text=True, timeout=120)


def test_table(default_folder):
    done = run("models")
    assert done.returncode == 0
    heading, first, *_ = done.stdout.splitlines()
    assert heading.split() == ["NAME", "FROM", "SIZE", "READY", "FOLDER"]
    assert first.startswith(bundled.NAME)
    assert first.endswith(f"yes      {default_folder.path}") or str(default_folder.path) in first


def test_json(default_folder):
    first = json.loads(run("models", "--json").stdout)[0]
    assert first["name"] == bundled.NAME
    assert first["ready"] is True
    assert first["path"] == str(default_folder.path)


def test_one_model_is_its_folder(default_folder):
    done = run("models", "default")
    assert (done.stdout, done.stderr) == (f"{default_folder.path}\n", "")


@pytest.mark.parametrize("name", ["/no/such/folder", "x.gguf", __file__])
def test_what_cannot_be_a_model(name):
    done = run("models", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
