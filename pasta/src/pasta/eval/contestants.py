"""Who takes part: a model, and how it decodes."""

from __future__ import annotations

from dataclasses import dataclass

from pasta.core.params import SamplingParams
from pasta.errors import PastaError, UsageError
from pasta.eval.names import check_name

METHODS = ("parallel", "sequential", "plain", "skeleton", "separate")
DIAL = "parallelism:"


@dataclass(frozen=True, slots=True)
class Contestant:
    """`NAME=MODEL[@METHOD]`.

    Methods: `parallel` (as the model was trained; a model without tags decodes in one thread), `sequential` (the same
    answer, one thread at a time), `plain` (without tags), `skeleton` (Skeleton-of-Thought), `separate` (each problem
    of a task as a request of its own, all at once: a bound, since it is told how to split), `parallelism:B` (parallel,
    with a bias of B on opening a promise).
    """

    name: str
    model: str
    method: str = "parallel"
    parallelism: float = 0.0

    @property
    def asks_several(self) -> bool:
        """Whether an answer is made of several requests."""
        return self.method in ("skeleton", "separate")

    @classmethod
    def parse(cls, text: str) -> Contestant:
        name, given, rest = text.partition("=")
        if not given or not rest:
            raise UsageError(f"--model {text}: expected NAME=MODEL[@METHOD]", hint="for example sft=out/pasta")
        check_name(f"--model {text}", name)
        model, marked, method = rest.rpartition("@")
        if not marked:
            return cls(name, rest)
        if method.startswith(DIAL):
            try:
                bias = float(method.removeprefix(DIAL))
            except ValueError:
                raise UsageError(f"--model {text}: {method} is not {DIAL}NUMBER") from None
            try:
                SamplingParams(parallelism=bias)
            except PastaError as error:
                raise UsageError(f"--model {text}: {error}") from None
            return cls(name, model, "parallel", bias)
        if method not in METHODS:
            raise UsageError(f"--model {text}: unknown method {method!r}", hint=f"use {', '.join(METHODS)}, {DIAL}B")
        return cls(name, model, method)

    def __str__(self) -> str:
        method = f"{DIAL}{self.parallelism:g}" if self.parallelism else self.method
        return f"{self.name}={self.model}" + ("" if method == "parallel" else f"@{method}")
