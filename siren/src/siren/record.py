"""The particle genealogy of a run: who descends from whom, and how the weights behaved.

The recorder is handed to a run and called once per resampling. It keeps one array of ancestors per step, and
writes JSON, or a page that shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siren.errors import SirenError

SHOWN = 120  # lineages drawn; more would be solid ink


@dataclass(frozen=True, slots=True)
class Step:
    """One resampling. `ancestors[i]` is the particle that the new particle i copies; None: no need."""

    ancestors: NDArray[np.int64] | None
    ess: float
    largest_weight: float


@dataclass(slots=True)
class Recorder:
    steps: list[Step] = field(default_factory=list)
    particles: int = 0

    def step(self, ancestors: NDArray[Any] | None, log_weights: NDArray[Any], ess: float) -> None:
        """Called by the runtime with the weights before resampling and the ancestors chosen."""
        weights = np.atleast_1d(np.asarray(log_weights, dtype=float))
        self.particles = max(self.particles, len(weights))
        shifted = np.exp(weights - weights.max()) if np.isfinite(weights.max()) else np.ones_like(weights)
        kept = None if ancestors is None else np.array(ancestors, dtype=np.int64)
        self.steps.append(Step(kept, float(ess), float(shifted.max() / shifted.sum())))

    def lineages(self, shown: int = SHOWN) -> NDArray[np.int64]:
        """Ancestors of some final particles, a row per generation, oldest first; lines never cross."""
        count = max(1, self.particles)
        chosen = np.unique(np.linspace(0, count - 1, min(shown, count)).astype(np.int64))
        rows = [chosen]
        for step in reversed(self.steps):
            rows.append(rows[-1] if step.ancestors is None else step.ancestors[rows[-1]])
        table = np.array(rows[::-1])
        return table[:, np.lexsort(table[::-1])]

    def survivors(self) -> list[int]:
        """For each generation, how many of its particles have a descendant at the end."""
        alive = np.arange(max(1, self.particles))
        counts = [len(alive)]
        for step in reversed(self.steps):
            if step.ancestors is not None:
                alive = np.unique(step.ancestors[alive])
            counts.append(len(alive))
        return counts[::-1]

    def to_json(self, about: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "about": about or {},
            "particles": self.particles,
            "ess": [step.ess for step in self.steps],
            "largest_weight": [step.largest_weight for step in self.steps],
            "resampled": [step.ancestors is not None for step in self.steps],
            "survivors": self.survivors(),
            "lineages": self.lineages().tolist(),
        }

    def save(self, path: str | Path, about: dict[str, Any] | None = None) -> None:
        """Write the record; the ending `.html` or `.json` says how."""
        path = Path(path)
        content = json.dumps(self.to_json(about))
        if path.suffix == ".html":
            page = Path(__file__).with_name("genealogy.html").read_text(encoding="utf-8")
            # `</` would end the script element early if a label held it.
            content = page.replace("{{record}}", content.replace("</", "<\\/"))
        elif path.suffix != ".json":
            raise SirenError(
                f"cannot write a record as `{path.suffix or path.name}`", hint="use .html or .json"
            )
        path.write_text(content, encoding="utf-8")
