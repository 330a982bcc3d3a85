"""Runs programs: `run` over a whole data set, `stream` row by row."""

from siren.runtime.estimate import Estimate
from siren.runtime.online import Online, stream
from siren.runtime.session import RunResult, run

__all__ = ["Estimate", "Online", "RunResult", "run", "stream"]
