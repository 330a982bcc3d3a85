"""Verdicts do not depend on how a program is written: the published table holds for other spellings too."""

from random import Random

import pytest
from rewriting import rewritten

from benchmarks.suite import METHODS, suite
from siren.analysis import analyze

SUITE = suite()


def require_same(name: str, method: str, seed: int, plans: list[int]) -> None:
    benchmark = SUITE[name]
    program, names = rewritten(benchmark.program(), seed)
    for number in plans:
        plan = {names[variable]: how for variable, how in benchmark.plan(number).items()}
        verdict = analyze(program, method, plan)
        assert verdict.satisfiable == (number in benchmark.satisfiable[method]), (plan, verdict.problem)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SUITE)
def test_two_plans_of_one_spelling(name, method):
    satisfiable = SUITE[name].satisfiable[method]
    others = [number for number in SUITE[name].plans if number not in satisfiable]
    rng = Random(name + method)
    plans = [rng.choice(pool) for pool in (satisfiable, others) if pool]
    require_same(name, method, rng.randrange(1000), plans)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SUITE)
@pytest.mark.parametrize("seed", range(5))
def test_all_plans_of_many_spellings(name, method, seed):
    require_same(name, method, seed, list(SUITE[name].plans))
