"""What the commands share: the notice of what takes long."""

import io
import sys
import threading
import time

import pytest

from pasta.cli import running
from pasta.models import progress


def test_what_takes_long_is_said_once(monkeypatch, capfd):
    monkeypatch.setattr(running, "PATIENCE_S", 0.0)
    said, end = "", time.monotonic() + 300
    with running.patiently("reading a book"):
        while not said and time.monotonic() < end:
            time.sleep(0.01)
            said = capfd.readouterr().err
    assert (said, *capfd.readouterr()) == ("reading a book …\n", "", "")


def test_what_takes_no_time_goes_without_saying(monkeypatch, capfd):
    monkeypatch.setattr(running, "PATIENCE_S", 3600.0)
    threads = threading.active_count()
    with pytest.raises(ZeroDivisionError), running.patiently("reading a book"):
        raise ZeroDivisionError
    assert threading.active_count() == threads, "nobody is left to say it later"
    assert tuple(capfd.readouterr()) == ("", "")


def test_quiet_says_nothing(capfd, monkeypatch):
    monkeypatch.setattr(running, "PATIENCE_S", 0)
    with running.patiently("reading a book", quiet=True):
        time.sleep(0.2)
    assert capfd.readouterr().err == ""


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("say", [running.patiently, progress.working])
def test_a_terminal_shows_names_as_they_are_in_characters_that_it_has(monkeypatch, encoding, say):
    shown = io.BytesIO()
    monkeypatch.setattr(running, "PATIENCE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal(shown, encoding, errors="backslashreplace", write_through=True))
    monkeypatch.setenv("TERM", "xterm")
    end = time.monotonic() + 60
    with say("loading a[v2]/b[/c]"):
        while b"loading" not in shown.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    text = shown.getvalue().decode(encoding)
    assert "loading a[v2]/b[/c]" in text
    assert "\\u" not in text
