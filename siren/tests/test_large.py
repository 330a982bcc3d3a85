"""Long programs: no limit on terms or `let`s, and time in proportion to the text."""

import time

import pytest

import siren
from siren.analysis import analyze
from siren.inference.graph import Graph
from siren.syntax import format_text, parse


def lets(count: int) -> str:
    steps = "\n".join(f"let x{i} = x{i - 1} + 1 in" for i in range(1, count))
    return f"let symbolic x0 <- gaussian(0, 1) in\n{steps}\nx{count - 1}"


def test_a_sum_of_thousands_of_terms():
    text = "let x <- gaussian(0, 1) in " + " + ".join(["x"] * 8000)
    program = parse(text)
    assert siren.check(program) == ()
    result = siren.run(program, particles=3, seed=0)
    assert result[0].sd == pytest.approx(8000)
    assert analyze(program, "ssi", {"x": "symbolic"}).satisfiable
    assert format_text(text).count("+") == 7999


def test_thousands_of_lets():
    program = parse(lets(5000))
    assert siren.check(program) == ()
    assert analyze(program).satisfiable
    assert siren.run(program, particles=3, seed=0)[0].mean == 4999


@pytest.mark.slow
def test_time_is_in_proportion_to_the_text():
    """A program of 1 MB against one of a quarter of it."""
    seconds = []
    for count in (10_500, 42_000):
        text = lets(count)
        program = parse(text)
        started = time.process_time()
        siren.check(program)
        assert analyze(program).satisfiable
        seconds.append(time.process_time() - started)
    assert len(text) > 1_000_000
    assert seconds[1] < 6 * seconds[0]


@pytest.mark.parametrize("kind", ["gaussian(a, 1)", "gamma(2, 2)", "bernoulli(0.5)"])
@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_the_analysis_looks_at_each_variable_a_few_times(method, kind, monkeypatch):
    """However many there are: counted, not timed."""
    looks = 0
    peek = Graph.peek

    def counted(graph, variable):
        nonlocal looks
        looks += 1
        return peek(graph, variable)

    monkeypatch.setattr(Graph, "peek", counted)
    counts = []
    for size in (100, 400):
        looks = 0
        lines = "\n".join(f"let x{i} <- {kind} in" for i in range(size))
        program = siren.parse(f"let symbolic a <- gaussian(0, 1) in\n{lines}\na")
        assert analyze(program, method).satisfiable
        counts.append(looks)
    assert counts[1] < 5 * counts[0] + 100
