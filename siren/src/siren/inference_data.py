"""The bridge to ArviZ, imported only when asked for."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siren.errors import SirenError

if TYPE_CHECKING:
    from siren.result import Result


def to_inference_data(result: Result, draws: int, seed: int) -> Any:
    """One chain of draws from the weighted mixture. A draw is joint in all outputs."""
    posterior = {_identifier(output.name): output.draws(draws, seed)[None] for output in result}
    attributes = {
        "method": result.method,
        "particles": result.particles,
        "seed": result.seed,
        "log_evidence": result.log_evidence,
    }
    return from_draws(posterior, attributes)


def from_draws(posterior: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """ArviZ data from arrays whose first axes are the chain and the draw."""
    try:
        with warnings.catch_warnings():  # ArviZ announces its own refactoring on import
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        raise SirenError("ArviZ is not installed", hint="pip install 'siren-ppl[arviz]'") from None
    about = {"inference_library": "siren", **attributes}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict({"posterior": dict(posterior)}, attrs=about)
    return arviz.from_dict(posterior=dict(posterior), attrs=about)


def _identifier(label: str) -> str:
    """`1 / invq` is a fine label and a poor variable name."""
    return re.sub(r"\W+", "_", label).strip("_") or "value"
