"""What the commands share: the notice of what takes long."""

import time

import pytest

from pasta.cli import running


@pytest.mark.parametrize(("patience_s", "said"), [(0.0, "reading a book …\n"), (3600.0, "")])
def test_what_takes_long_is_said_once(patience_s, said, monkeypatch, capfd):
    monkeypatch.setattr(running, "PATIENCE_S", patience_s)
    with running.patiently("reading a book"):
        time.sleep(0.5)
    out, err = capfd.readouterr()
    assert (out, err) == ("", said)


def test_it_is_not_said_after_the_end(monkeypatch, capfd):
    monkeypatch.setattr(running, "PATIENCE_S", 0.2)
    with pytest.raises(ZeroDivisionError), running.patiently("reading a book"):
        raise ZeroDivisionError
    time.sleep(0.5)
    assert capfd.readouterr().err == ""
