"""Work in several processes, since one core feeds a GPU only so fast."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from pasta.errors import PastaError

Work = tuple[Callable[[Any], None], Any]  # a function of a module, and what it is called with


def at_once(work: Sequence[Work], most: int | None = None) -> None:
    """Calls all of them, each in a process of its own, `most` at a time; one by one in this process where that is one.

    The first error is raised.
    """
    beside = min(len(work), most or len(work))
    if beside < 2:
        for run, options in work:
            run(options)
        return
    with ProcessPoolExecutor(beside, multiprocessing.get_context("spawn")) as pool:
        try:
            for under_way in [pool.submit(run, options) for run, options in work]:
                under_way.result()
        except BrokenProcessPool as error:
            hint = "they may have had too little memory: pass fewer --processes; what was done is kept"
            raise PastaError(f"one of {beside} processes was killed", hint) from error
