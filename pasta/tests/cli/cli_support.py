"""What the tests of the commands share."""

import sys

PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]
# With these the tiny model opens threads, and writes in them.
OPTIONS = "--max-tokens 120 --parallelism 5 --temperature 1 --seed 2".split()


def refused(done, code, *words):
    status, out, err = done
    assert (status, out) == (code, b"")
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err
    for word in words:
        assert word in err
