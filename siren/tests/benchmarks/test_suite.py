import pytest

from benchmarks.suite import METHODS, suite
from siren.syntax import check, format_text
from siren.syntax.traverse import random_variables

SUITE = suite()


def test_the_eleven() -> None:
    names = "noise radar envnoise outlier outlierheavy gtree slds runner wheels slam aircraft"
    assert list(SUITE) == names.split()


@pytest.mark.parametrize("name", SUITE)
def test_program_is_valid_formatted_and_has_the_published_variables(name: str) -> None:
    benchmark = SUITE[name]
    program = benchmark.program()
    assert check(program) == ()
    assert random_variables(program) == benchmark.variables
    text = benchmark.path.read_text(encoding="utf-8")
    assert format_text(text) == text


def test_plan_numbers() -> None:
    noise = SUITE["noise"]
    assert noise.plan(5) == {"x": "sample", "invq": "symbolic", "invr": "sample"}
    assert [noise.number(noise.plan(number)) for number in noise.plans] == list(range(8))
    assert noise.number({"x": "dynamic", "invq": "symbolic", "invr": "sample"}) is None


def test_counts_of_satisfiable_plans_are_the_published_ones() -> None:
    counts = {
        method: [len(benchmark.satisfiable[method]) for benchmark in SUITE.values()] for method in METHODS
    }
    assert counts["ssi"] == [5, 3, 3, 4, 2, 4, 36, 4, 4, 4, 3]
    assert counts["ds"] == [4, 2, 2, 2, 2, 3, 16, 1, 3, 2, 2]
    assert counts["bp"] == [2, 2, 2, 2, 1, 4, 4, 4, 3, 1, 2]
