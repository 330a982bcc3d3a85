"""Code that a model wrote runs apart, and cannot do what it should not."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from pasta.errors import UsageError
from pasta.tasks.sandbox import Limits, require_consent, runs, runs_all


def test_a_program_runs_to_its_end_or_does_not() -> None:
    programs = [
        "assert 1 + 1 == 2",
        "assert 1 + 1 == 3",
        "import sys; sys.exit(0)",
        "def f(:",
        "import math, re, heapq",
    ]
    assert runs_all(programs) == [True, False, False, False, True]
    assert runs("print('x' * 100000)\nprint('é')")


def test_time_and_memory_end() -> None:
    assert not runs("while True: pass", Limits(seconds=1))
    assert not runs("import time; time.sleep(60)", Limits(seconds=1))
    assert not runs("x = bytearray(10**9)", Limits(memory=300 << 20))
    assert runs("x = bytearray(10**7)", Limits(memory=300 << 20))


def test_what_is_printed_fills_no_memory_of_ours_and_spoils_no_mark() -> None:
    tracemalloc.start()
    try:
        assert runs("for _ in range(50): print('x' * 10**6)")
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()
    assert runs("import sys; sys.stdout.buffer.write(b'\\xff')")
    assert runs("import sys; sys.stdout.close()")
    assert not runs("print(1, flush=True); import os; os._exit(0)")
    assert not runs("import os; os.write(3, b'\\xff')"), "who speaks for the guard is not believed"
    assert runs("'\ud800'"), "half a letter"


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.fork()",
        "open('here.txt', 'w')",
        "import os; os.remove('anything')",
        "import shutil; shutil.rmtree('.')",
        "import ctypes; ctypes.CDLL(None)",
    ],
)
def test_what_is_not_allowed(program: str) -> None:
    assert not runs(program)


def test_an_answer_does_not_see_our_environment_nor_write_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "of ours")
    monkeypatch.chdir(tmp_path)
    assert runs("import os; assert 'A_SECRET' not in os.environ and not os.listdir('.')")
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    assert not runs(f"import os; os.open({str(kept)!r}, os.O_WRONLY | os.O_TRUNC)")
    assert not runs(f"import os; os.open({str(tmp_path / 'new.txt')!r}, os.O_WRONLY | os.O_CREAT)")
    assert not runs(f"open({str(kept)!r}, 'r+')")
    assert runs(f"assert open({str(kept)!r}).read() == 'kept'"), "reading is no harm"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_what_comes_of_a_sets_order_is_the_same_in_every_run() -> None:
    fixed = {"PYTHONHASHSEED": "0"}
    known = subprocess.check_output([sys.executable, "-c", "print(hash('tide'))"], env=fixed, text=True)
    assert runs(f"assert hash('tide') == {known}")
    assert runs("import sys; assert '' not in sys.path"), "nor does it read what lies where it runs"


def test_code_runs_only_with_consent() -> None:
    require_consent(True)
    with pytest.raises(UsageError, match=r"runs code that models wrote.*--run-code"):
        require_consent(False)
