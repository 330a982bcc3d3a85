"""A generator that draws from the one underneath and writes down what was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from siren.compile.recorder import Recorder, any_dynamic, argument, bare
from siren.compile.tape import DRAW
from siren.compile.traced import TracedNumber


class TracedGenerator:
    def __init__(self, tape: Recorder, rng: np.random.Generator) -> None:
        self._tape = tape
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rng, name)

        def draw(*args: Any, **options: Any) -> Any:
            arguments = tuple(argument(arg) for arg in args)
            keywords = tuple((key, argument(value)) for key, value in options.items())
            drawn = method(*map(bare, args), **{key: bare(value) for key, value in options.items()})
            slot = self._tape.record(DRAW, name, arguments, keywords, pure=False, like=drawn)
            sizes = [arg for arg in (*args, *options.values()) if isinstance(arg, TracedNumber)]
            dynamic = any(type(size.value) is int for size in sizes) or any_dynamic(args)
            return self._tape.wrap(slot, drawn, dynamic)

        return draw
