"""The published table: of every benchmark and algorithm, exactly the plans that can be kept are accepted."""

import time

import pytest

from benchmarks.suite import METHODS, suite
from siren.analysis import analyze

SUITE = suite()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SUITE)
def test_accepted_plans_are_the_satisfiable_ones(name: str, method: str) -> None:
    benchmark = SUITE[name]
    program = benchmark.program()
    accepted = tuple(n for n in benchmark.plans if analyze(program, method, benchmark.plan(n)).satisfiable)
    assert accepted == benchmark.satisfiable[method]


def test_exchanging_all_of_slam_takes_no_time() -> None:
    """The published analysis needs 162 seconds for this plan."""
    slam = SUITE["slam"]
    program = slam.program()
    started = time.process_time()
    assert analyze(program, "ssi", slam.plan(0)).satisfiable
    assert time.process_time() - started < 10
