"""What the methods of this room begin with, and how they end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from siren.errors import did_you_mean
from siren.learn.learned import Array, Learned
from siren.model import Model, make_model
from siren.options import OptionError
from siren.result import make_result
from siren.runtime import RunResult
from siren.syntax import ast


class Options(TypedDict, total=False):
    """What all methods take, as `siren.run` does. `parameters` are those variables that the main expression
    assumes before its loop, unless they are named; filters resample when the share `ess` of their particles
    is no longer effective."""

    data: Any
    parameters: Sequence[str] | None
    method: str
    seed: int | None
    resample: str
    ess: float | None
    plan: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Study:
    """A model whose parameters are to be learnt, the generator, and the clock."""

    model: Model
    seed: int
    rng: np.random.Generator
    started: float

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def learned(
        self, method: str, raw: RunResult, theta: Array, acceptance: float, log_evidence: float, filters: int
    ) -> Learned:
        """`theta` has a chain for each row, and in it a parameter for each column of the last axis."""
        draws = {name: theta[:, :, place].copy() for place, name in enumerate(self.model.parameters)}
        result = make_result(self.model.given, raw)
        return Learned(method, result, draws, acceptance, float(log_evidence), filters)


def begin(program: str | Path | ast.Program, particles: int, **options: Unpack[Options]) -> Study:
    unknown = next((name for name in options if name not in Options.__annotations__), None)
    if unknown is not None:
        raise OptionError(
            f"there is no option `{unknown}`", hint=did_you_mean(unknown, Options.__annotations__)
        )
    model = make_model(program, particles=particles, **options)
    seed = options.get("seed")
    seed = secrets.randbits(32) if seed is None else seed
    return Study(model, seed, np.random.default_rng(seed), time.perf_counter())
