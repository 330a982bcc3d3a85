"""A process forked from one with a model answers, or says why not; it waits for no thread that it has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys
from pasta.decoding.api import generate, stream
from pasta.errors import PastaError
from support import tiny_engine

def in_a_child():
    if os.fork() == 0:
        signal.alarm(60)
        try:
            print(generate(engine, "What?", max_tokens=8).text.encode(), flush=True)
        except PastaError as error:
            print(error, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, "it waited for ever"

engine = tiny_engine(slots=2048)
print(generate(engine, "What?", max_tokens=8).text.encode(), flush=True)
in_a_child()
answer = stream(engine, "What?", max_tokens=2000)
next(iter(answer))
in_a_child()
if os.fork() == 0:  # with an answer of which the rest never comes
    signal.alarm(60)
    try:
        list(answer)
    except PastaError as error:
        print(error, flush=True)
    answer.close()
    os._exit(0)
assert os.wait()[1] == 0, "it waited for ever"
answer.close()
"""


def test_a_forked_process_answers_or_says_why_not() -> None:
    paths = [str(Path(__file__).parent.parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    own, of_child, refused, broken_off = done.stdout.splitlines()
    assert own == of_child
    assert (
        refused
        == broken_off
        == ("this process was forked while the model decoded in its parent (load the model here, or fork before)")
    )
