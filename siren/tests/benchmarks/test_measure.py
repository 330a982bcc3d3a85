import numpy as np
import pytest

from benchmarks.filters import FILTERS
from benchmarks.generate import generate
from benchmarks.growth import memory_growth, time_growth
from benchmarks.measure import Workplace, accuracy, satisfiable, speed, squared_errors
from benchmarks.suite import METHODS, suite
from siren.api import run

SUITE = suite()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        *[("noise", plan) for plan in (3, 4, 5, 7)],
        *[("outlier", plan) for plan in (2, 7)],
        *[("slds", plan) for plan in (67, 81, 93, 99, 106, 112, 115, 126)],
    ],
)
def test_hand_written_filters_agree_with_the_programs(name: str, plan: int, place: Workplace) -> None:
    """Same model, same plan: the means agree within Monte Carlo error, estimated from repeated runs."""
    benchmark, hand_written = SUITE[name], FILTERS[name]
    program, _ = place.open(benchmark, 1, steps=12)
    observed = generate(name, 1, steps=12).observed["obs"]
    ours, theirs = [], []
    for seed in range(8):
        result = run(program, particles=2000, seed=seed, plan=benchmark.plan(plan))
        ours.append(np.concatenate([np.atleast_1d(output.mean) for output in result]))
        means = hand_written(observed, 2000, np.random.default_rng(seed), benchmark.plan(plan))
        theirs.append(np.concatenate([np.atleast_1d(means[output]) for output in benchmark.outputs]))
    # Means of 1/g under a gamma of small shape have heavy tails, so medians over runs are compared.
    # A precision of which a particle has learnt nothing has an infinite mean inverse, here and there.
    infinite = np.isinf(ours).any(axis=0)
    assert np.array_equal(infinite, np.isinf(theirs).any(axis=0))
    mine, its = np.array(ours)[:, ~infinite], np.array(theirs)[:, ~infinite]
    spread = np.std([*mine, *its], axis=0)
    gap = np.abs(np.median(mine, axis=0) - np.median(its, axis=0))
    assert np.all(gap <= 2.5 * spread + 1e-3)


def test_errors_are_against_the_truth(place: Workplace) -> None:
    benchmark = SUITE["gtree"]
    program, truth = place.open(benchmark, 1)
    errors = squared_errors(benchmark, run(program, particles=1, seed=0), truth)
    assert set(errors) == {"a", "b"} and errors["b"] < 60


def test_accuracy_collects_data_sets_and_published_numbers(place: Workplace) -> None:
    found = accuracy(SUITE["wheels"], "ssi", 0, place, particles=1, datasets=2, repetitions=1)
    assert len(found.errors["velocity"]) == 2
    assert found.published == {"velocity": 0.068, "omega": 0.0514}


def test_speed_has_both_sides(place: Workplace) -> None:
    found = speed("noise", place, method="ssi", plan=5, particles=16, repetitions=1, steps=5)
    assert found.ratio > 0 and found.plan == 5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["noise", "outlier", "gtree", "wheels"])
def test_satisfiable_plans_are_the_published_ones(name: str, method: str, place: Workplace) -> None:
    benchmark = SUITE[name]
    found = tuple(plan for plan in benchmark.plans if satisfiable(benchmark, method, plan, place, seeds=1))
    assert found == benchmark.satisfiable[method]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method", "plan", "output"),
    [
        (benchmark.name, entry.method, entry.plan, output)
        for benchmark in SUITE.values()
        for entry in benchmark.published
        for output in entry.errors
        if output in ("x", "xt", "b", "y", "map")
        and (benchmark.name, entry.plan, output) != ("slam", 1, "map")
    ],
)
def test_errors_of_series_are_as_published(
    name: str, method: str, plan: int, output: str, place: Workplace
) -> None:
    """The published data are not ours: the published error has to lie in the range over data sets, times two.

    Single numbers are left out: the squared error of one estimate can be anything near zero.
    """
    found = accuracy(SUITE[name], method, plan, place, datasets=4, repetitions=5)
    low, high = min(found.errors[output]), max(found.errors[output])
    assert low / 2 <= found.published[output] <= high * 2


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["radar", "envnoise", "outlierheavy", "slds", "runner", "slam", "aircraft"])
def test_satisfiable_plans_of_the_slower_ones(name: str, method: str, place: Workplace) -> None:
    benchmark = SUITE[name]
    left_out = benchmark.intractable.get(method, ())
    tried = [plan for plan in benchmark.plans if plan not in left_out]
    found = [plan for plan in tried if satisfiable(benchmark, method, plan, place)]
    assert found == [plan for plan in benchmark.satisfiable[method] if plan not in left_out]


@pytest.mark.slow
def test_memory_is_flat_over_ten_thousand_steps() -> None:
    short, long = memory_growth((100, 10_000))
    assert short.peak_mib is not None and long.peak_mib is not None
    assert long.peak_mib < short.peak_mib + 8


@pytest.mark.slow
def test_time_is_linear_in_steps(place: Workplace) -> None:
    short, long = time_growth(place, ((256, 100), (256, 800)))
    assert long.seconds < 1.6 * 8 * short.seconds
