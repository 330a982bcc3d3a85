"""Runs code that a model wrote, in a process of its own: a limit on time, memory and files, and no network.

This keeps mistakes in (a loop without end, a file overwritten), and is no wall against malice: where answers are not
trusted, run the whole evaluation in a container that you can lose.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pasta.errors import UsageError

WARNING = "marking these answers runs code that models wrote"

# Reads a program from its standard input. What it may not do raises; the hook cannot be taken away again. What it
# prints goes nowhere: one that prints without end would fill our memory.
GUARD = """
import contextlib, os, resource, sys
for what, most in (("AS", {memory}), ("CPU", {seconds}), ("FSIZE", 0), ("NOFILE", 32), ("CORE", 0)):
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(getattr(resource, "RLIMIT_" + what), (most, most))
with contextlib.suppress(Exception):  # a network of its own, without any device, where the system allows that
    import ctypes
    ctypes.CDLL(None).unshare(0x10000000 | 0x40000000)
program = sys.stdin.read()
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
refused = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.kill",
           "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.putenv", "shutil.", "ctypes.", "urllib.", "ftplib.", "http.", "smtplib.")
def guard(event, given):
    if event.startswith(refused) or (event == "open" and given[2] & writes):
        raise PermissionError("not allowed here: " + event)
sys.addaudithook(guard)
exec(compile(program, "<answer>", "exec"), {{"__name__": "answer"}})
os.write(out, {token!r}.encode())
"""


# By the clock a program has so many times its seconds: on a busy machine it waits for its turn.
BUSY = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds are of the processor."""

    seconds: float = 5.0
    memory: int = 1 << 30


def require_consent(given: bool) -> None:
    if not given:
        raise UsageError(WARNING, hint="pass --run-code to allow it, best in a container without network")


def runs(program: str, limits: Limits | None = None) -> bool:
    """Whether a program comes to its end without an error, within the limits."""
    limits = limits or Limits()
    # A program that ends itself with success has not come to its end: only the guard says the token.
    token = os.urandom(16).hex()
    guard = GUARD.format(memory=limits.memory, seconds=max(1, round(limits.seconds)), token=token)
    with tempfile.TemporaryDirectory() as place:
        # Isolated (-I) it would not see the seed, and what comes of a set's order would differ from run to run.
        command = [sys.executable, "-P", "-s", "-S", "-B", "-c", guard]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace", env={"PYTHONHASHSEED": "0"}, cwd=place, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(program, timeout=BUSY * limits.seconds)
            except subprocess.TimeoutExpired:
                said = ""
            finally:
                _end(process)
    return process.returncode == 0 and said == token


def runs_all(programs: Sequence[str], limits: Limits | None = None) -> list[bool]:
    """Several programs beside each other, on all cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda program: runs(program, limits), programs))


def _end(process: subprocess.Popen[str]) -> None:
    """Ends what still runs, the program's own children too."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
