"""Python's garbage collector, kept out of the way of steps."""

from __future__ import annotations

import gc

_frozen = False


def freeze_libraries() -> None:
    """Takes what is loaded by now out of the collector's rounds, once.

    torch and transformers are a million objects that stay for good. Looking through them takes as long as a hundred
    steps of a small model, and a long answer makes objects enough to bring that about.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


def collect_rarely() -> None:
    """For a process that decodes many answers at once: a full round comes after two million more objects are held.

    A hundred answers hold hundreds of thousands, and nobody gets a token while the collector looks through them. Most
    are gone by themselves before the collector has come: the rarer it comes, the less it looks through, and the
    longest of its rounds is no longer (benchmarks/host.py: 7% of the host's work less than with 2,000 objects).
    """
    gc.set_threshold(20_000, 10, 10)
