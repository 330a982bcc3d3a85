"""Belief propagation where lanes have parents of their own."""

from pathlib import Path

from benchmarks.measure import Workplace
from benchmarks.suite import suite
from siren.api import run


def test_lanes_whose_edges_run_both_ways(tmp_path: Path) -> None:
    """Under the default plan of slds some lanes turn an edge around that others keep."""
    program, _ = Workplace(tmp_path).open(suite()["slds"], 1, 6)
    result = run(program, method="bp", particles=16, seed=0)
    assert result.log_evidence < 0
