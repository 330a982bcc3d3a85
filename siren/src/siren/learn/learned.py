"""What the methods of this room give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siren.errors import SirenError, did_you_mean
from siren.result import Result

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Learned:
    """`result` is the program's answer under the posterior of the parameters, like that of any run.

    `draws` has, for each parameter, an array of its draws with a row for each chain; those of a method with
    weights are one chain, resampled. `acceptance` is the share of proposed moves that were taken.
    """

    method: str
    result: Result
    draws: dict[str, Array]
    acceptance: float
    log_evidence: float
    filters: int  # particle filters run over all data, counting partial ones as their share

    def __repr__(self) -> str:
        from siren.cli.methods import write_learned  # brings in Rich
        from siren.cli.show import as_text

        return as_text(lambda console: write_learned(console, self))

    def mean(self, name: str) -> float:
        return float(self._of(name).mean())

    def sd(self, name: str) -> float:
        return float(self._of(name).std())

    def _of(self, name: str) -> Array:
        if name not in self.draws:
            hint = did_you_mean(name, self.draws) or f"there are: {', '.join(self.draws)}"
            raise SirenError(f"no parameter `{name}` was learnt", hint=hint)
        return self.draws[name]

    def to_json(self) -> dict[str, Any]:
        about = {"learn": self.method, "acceptance": self.acceptance, "filters": self.filters}
        return {
            **self.result.to_json(),
            **about,
            "parameters": {n: summary(d) for n, d in self.draws.items()},
        }

    def to_arviz(self) -> Any:
        """The parameters as ArviZ `InferenceData`. Needs `pip install siren-ppl[arviz]`."""
        from siren.inference_data import from_draws

        attributes = {"method": self.method, "log_evidence": self.log_evidence}
        return from_draws(self.draws, attributes)


def summary(draws: Array) -> dict[str, Any]:
    low, middle, high = np.quantile(draws, (0.05, 0.5, 0.95))
    quantiles = {"0.05": float(low), "0.5": float(middle), "0.95": float(high)}
    return {"mean": float(draws.mean()), "sd": float(draws.std()), "quantiles": quantiles}
