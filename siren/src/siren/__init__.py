"""Siren: probabilistic programs under inference plans.

>>> import siren
>>> result = siren.run("let x <- gaussian(0, 1) in let () = observe(gaussian(x, 1), 2) in x")
>>> round(result["x"].mean, 6)
1.0
"""

from typing import TYPE_CHECKING, Any

from siren import functions
from siren.api import run, stream
from siren.errors import CheckError, DataError, ParseError, PlanError, RunError, SirenError
from siren.record import Recorder
from siren.result import Output, Result
from siren.streams import Stream
from siren.syntax import check, parse

__version__ = "0.2.0"

__all__ = [
    "CheckError",
    "DataError",
    "Output",
    "ParseError",
    "PlanError",
    "Recorder",
    "Result",
    "RunError",
    "SirenError",
    "Stream",
    "check",
    "functions",
    "learn",
    "parse",
    "predictive",
    "run",
    "smooth",
    "stream",
]

if TYPE_CHECKING:
    from siren import learn
    from siren.prediction import predictive
    from siren.smoothing import smooth


def __getattr__(name: str) -> Any:
    """What brings in SciPy is imported when it is used."""
    if name == "learn":
        import siren.learn

        return siren.learn
    if name == "predictive":
        from siren.prediction import predictive

        return predictive
    if name == "smooth":
        from siren.smoothing import smooth

        return smooth
    raise AttributeError(f"module 'siren' has no attribute {name!r}")
