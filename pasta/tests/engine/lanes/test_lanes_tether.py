"""An engine in a process of its own does not outlive its front, however that ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

ENGINE = "from pasta.engine.vllm import tether; import time; tether.watch(); print('up', flush=True); time.sleep(600)"
FRONT = f"""
import subprocess, sys, time
from pasta.engine.vllm import tether
tether.tie()
subprocess.Popen([sys.executable, "-c", {ENGINE!r}])
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_it_ends_after_its_front(how: signal.Signals) -> None:
    front = subprocess.Popen([sys.executable, "-c", FRONT], stdout=subprocess.PIPE, text=True)
    assert front.stdout is not None
    assert front.stdout.readline() == "up\n"
    front.send_signal(how)
    front.communicate(timeout=60)  # the pipe is closed once both are gone


def test_in_its_fronts_own_process_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from pasta.engine.vllm import tether

    monkeypatch.setenv(tether.FRONT, "0")
    tether.tie()
    tether.watch()
    assert not any(thread.name == "pasta-tether" for thread in threading.enumerate())
