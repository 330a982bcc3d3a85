"""Runs programs: `run` over a whole data set, `stream` row by row."""

from siren.runtime.estimate import Estimate
from siren.runtime.session import METHODS, RunResult, run, stream

__all__ = ["METHODS", "Estimate", "RunResult", "run", "stream"]
