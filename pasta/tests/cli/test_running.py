"""What the commands share: the notice of what takes long."""

import threading
import time

import pytest

from pasta.cli import running


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
