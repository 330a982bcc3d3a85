"""`pasta models`, as a user runs it."""

import json
import subprocess
import sys

import pytest

from pasta.models import bundled

PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]


def run(*arguments):
    return subprocess.run([*PASTA, *arguments], capture_output=True, text=True, timeout=500)


def test_table(default_folder):
    done = run("models")
    assert done.returncode == 0
    heading, finetuned, base, *_ = done.stdout.splitlines()
    assert heading.split() == ["NAME", "FROM", "SIZE", "READY", "FOLDER"]
    assert finetuned.startswith(bundled.FINETUNED) and "the default" in finetuned
    assert base.startswith(bundled.NAME) and str(default_folder.path) in base


def test_json(default_folder):
    finetuned, base, *_ = json.loads(run("models", "--json").stdout)
    assert (finetuned["name"], finetuned["path"]) == (bundled.FINETUNED, str(bundled.ADAPTER))
    assert (base["name"], base["path"]) == (bundled.NAME, str(default_folder.path))
    assert finetuned["ready"] is base["ready"] is True


def test_one_model_is_its_folder(default_folder):
    for name, path in (("default", bundled.ADAPTER), (bundled.NAME, default_folder.path)):
        done = run("models", name)
        assert (done.stdout, done.stderr) == (f"{path}\n", "")


def test_the_default_is_an_adapter_and_its_base(default_folder):
    found = json.loads(run("models", "default", "--json").stdout)
    assert (found["name"], found["path"]) == (bundled.FINETUNED, str(bundled.ADAPTER))
    assert (found["base"]["name"], found["base"]["path"]) == (bundled.NAME, str(default_folder.path))


@pytest.mark.parametrize("name", ["/no/such/folder", "x.gguf", __file__])
def test_what_cannot_be_a_model(name):
    done = run("models", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
