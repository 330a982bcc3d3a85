"""Fixtures of the commands' tests."""

import contextlib
import os
import sys

import pytest

from pasta.cli import main
from pasta.core.vocabulary import Vocabulary
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with a tiny model that has tags, and opens threads when pressed to."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(folder)
    vocabulary.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def pasta(monkeypatch, capfdbinary):
    """Runs the command in this process: (exit code, stdout, stderr)."""

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["pasta", *arguments])
        if stdin is not None:
            read, write = os.pipe()
            os.write(write, stdin)
            os.close(write)
        with contextlib.ExitStack() as stack:
            if stdin is not None:
                monkeypatch.setattr(sys, "stdin", stack.enter_context(os.fdopen(read)))
            with pytest.raises(SystemExit) as caught:
                main()
        out, err = capfdbinary.readouterr()
        return caught.value.code or 0, out, err.decode()

    return run
