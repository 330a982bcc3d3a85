"""The bridge to ArviZ, imported only when asked for."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from siren.errors import SirenError

if TYPE_CHECKING:
    from siren.prediction import Prediction
    from siren.result import Result


def to_inference_data(result: Result, draws: int, seed: int) -> Any:
    """One chain of draws from the weighted mixture. A draw is joint in all outputs."""
    names = _identifiers(output.name for output in result)
    posterior = {names[output.name]: output.draws(draws, seed)[None] for output in result}
    attributes = {
        "method": result.method,
        "particles": result.particles,
        "seed": result.seed,
        "log_evidence": result.log_evidence,
    }
    return from_draws(posterior, attributes)


def from_draws(posterior: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """ArviZ data from arrays whose first axes are the chain and the draw."""
    arviz = _arviz()
    about = {"inference_library": "siren", **attributes}
    if _is_new(arviz):
        return arviz.from_dict({"posterior": dict(posterior)}, attrs={"/": about})
    return arviz.from_dict(posterior=dict(posterior), attrs=about)


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():  # ArviZ announces its own refactoring on import
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        raise SirenError("ArviZ is not installed", hint="pip install 'siren-ppl[arviz]'") from None
    return arviz


def _is_new(arviz: Any) -> bool:
    return int(arviz.__version__.split(".")[0]) >= 1


def _identifiers(labels: Iterable[str]) -> dict[str, str]:
    """`1 / invq` is a fine label and a poor variable name. Different labels have different names: `x - 1` and
    `x + 1` are `x_1` and `x_1_2`."""
    names: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        plain = re.sub(r"\W+", "_", label).strip("_") or "value"
        taken = set(names.values())
        numbered = (f"{plain}_{number}" for number in count(2))
        names[label] = next(name for name in chain([plain], numbered) if name not in taken)
    return names


def from_predictions(predictions: Iterable[Prediction]) -> Any:
    """The groups `posterior_predictive` (one chain of draws) and `observed_data`."""
    predictions = list(predictions)
    names = _identifiers(prediction.name for prediction in predictions)
    by_name: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        by_name.setdefault(names[prediction.name], []).append(prediction)
    drawn = {name: np.stack([p.draws for p in several], axis=1)[None] for name, several in by_name.items()}
    seen = {name: np.array([p.value for p in several]) for name, several in by_name.items()}
    arviz = _arviz()
    groups = {"posterior_predictive": drawn, "observed_data": seen}
    return arviz.from_dict(groups) if _is_new(arviz) else arviz.from_dict(**groups)
