"""Belief propagation where lanes have parents of their own."""

from pathlib import Path

import pytest

from benchmarks.measure import Workplace
from benchmarks.suite import suite
from siren.api import run


def test_lanes_whose_edges_run_both_ways(tmp_path: Path) -> None:
    """Under the default plan of slds some lanes turn an edge around that others keep."""
    program, _ = Workplace(tmp_path).open(suite()["slds"], 1, 6)
    result = run(program, method="bp", particles=16, seed=0)
    assert result.log_evidence < 0


@pytest.mark.parametrize("answer", ["a + b", "b - 2 * d", "a * d", "apart + d", "b * b + c"])
def test_answers_of_several_variables_are_exact(answer: str) -> None:
    """As under ssi: they had been means of draws."""
    program = f"""
    let a <- gaussian(1, 2) in
    let b <- gaussian(2 * a - 1, 1) in
    let c <- gaussian(b + 3, 2) in
    let d <- gaussian(b, 1) in
    let apart <- gaussian(0, 1) in
    let () = observe(gaussian(c, 1), 2.5) in
    let () = observe(gaussian(a, 1), -0.5) in
    {answer}
    """
    found, exact = (run(program, method=method, particles=1, seed=0)[0] for method in ("bp", "ssi"))
    assert found.mean == pytest.approx(exact.mean) and found.sd == pytest.approx(exact.sd)
