"""A random program under every algorithm against brute force: means, squares, joint draws, evidence."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import brute
import numpy as np
import twofold
from scipy import stats

import siren
from siren.errors import RunError

METHODS = ("ssi", "ds", "bp", "sample")
PARTICLES = 5000  # a few draws a particle where there is no closed form
DRAWS = 20_000
SIZE = 100_000
# A program that is right fails by chance once in so many, and then once more when it is looked at again.
CHANCE = 1e-4


@dataclass(frozen=True)
class Finding:
    method: str
    what: str
    z: float

    def __str__(self) -> str:
        return f"{self.method}: {self.what} is off by {self.z:.1f} standard errors"


def findings(
    program: twofold.Program, seed: int, runs: int = 1, methods: Sequence[str] = METHODS
) -> list[Finding]:
    """All statistics that differ by more than chance allows, over so many runs."""
    truth = brute.importance(program.numpy, program.outputs, SIZE * runs, seed)
    if truth is not None and truth.ess < 1000 * runs:
        return []  # brute force does not know
    found: list[Finding] = []
    for method in methods:
        found += _compare(program, method, truth, seed + 1, runs)
    return found


def _compare(program, method: str, truth, seed: int, runs: int) -> list[Finding]:
    """What the algorithm gets wrong."""
    results = [_run(program, method, seed + number) for number in range(runs)]
    if any(isinstance(result, RunError) for result in results):
        rare = truth is None or truth.ess < 20_000  # too few particles can explain the data
        return [] if rare else [Finding(method, str(results[0]), np.inf)]
    if truth is None:
        return [Finding(method, "an impossible observation", np.inf)]
    sizes = [_effective_size(result) for result in results]
    if min(sizes) < 200:
        return []
    tests = list(_tests([result[0] for result in results], truth, sum(sizes)))
    with np.errstate(divide="ignore"):
        evidence = np.log(np.mean(np.exp([result.log_evidence - truth.log_evidence for result in results])))
    tests.append(("the evidence", _evidence(evidence, truth, sum(sizes))))
    limit = stats.norm.isf(0.5 * CHANCE / (len(METHODS) * len(tests)))
    return [Finding(method, what, z) for what, z in tests if not abs(z) < limit]


def _run(program, method: str, seed: int):
    plan = dict.fromkeys(program.variables, "sample") if method == "sample" else None
    algorithm = "ssi" if method == "sample" else method
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return siren.run(program.siren, method=algorithm, plan=plan, particles=PARTICLES, seed=seed)
    except RunError as error:
        if "in every particle" in error.message or "no particle" in error.message:
            return error
        raise


def _effective_size(result) -> float:
    weights = next(leaf for _, leaf in result[0].leaves())._weights
    lost = sum(1 / max(ess, 1.0) for ess in result.ess)
    return float(1 / (1 / PARTICLES + lost + np.square(weights).sum()))


def _tests(outputs, truth, ess: float):
    """(name, z) of each statistic, averaged over runs."""
    means = np.array([np.ravel(output.mean) for output in outputs])
    squares = (means**2 + np.array([np.ravel(output.sd) for output in outputs]) ** 2).mean(axis=0)
    drawn = np.tanh(np.concatenate([output.draws(DRAWS, seed=5).reshape(DRAWS, -1) for output in outputs]).T)
    share = 1 / (1 / ess + 1 / drawn.shape[1])
    for i, values in enumerate(truth.values):
        yield f"the mean of output {i}", _z(means.mean(axis=0)[i], truth, values, ess)
        yield f"the square of output {i}", _z(squares[i], truth, values**2, ess)
        bounded = np.tanh(values)
        yield f"draws of output {i}", _z(drawn[i].mean(), truth, bounded, share)
        yield f"the square of draws {i}", _z(np.square(drawn[i]).mean(), truth, bounded**2, share)
    for i, j in itertools.combinations(range(len(truth.values)), 2):
        values = np.tanh(truth.values[i]) * np.tanh(truth.values[j])
        yield f"draws of outputs {i} and {j} together", _z((drawn[i] * drawn[j]).mean(), truth, values, share)


def _z(estimate: float, truth, values: np.ndarray, ess: float) -> float:
    mean, variance = truth.moments(values)
    error = np.sqrt(variance * (1 / ess + 1 / truth.ess))
    off = estimate - mean
    if abs(off) <= 1e-9 * (1 + abs(mean)):
        return 0.0
    return float(off / error) if error > 0 else float(np.copysign(np.inf, off))


def _evidence(off: float, truth, ess: float) -> float:
    error = np.sqrt(1 / ess + max(1 / truth.ess - 1 / len(truth.weights), 0))
    return 0.0 if abs(off) < 1e-9 else float(off / error)


def require_agreement(
    seed: int, methods: Sequence[str] = METHODS, write: Callable[[int], twofold.Program] = twofold.program
) -> None:
    """A program that seems wrong is looked at again, with other draws and more of them."""
    program = write(seed)
    if findings(program, 1000 + seed, methods=methods):
        again = findings(program, 900_000 + seed, runs=4, methods=methods)
        if again:
            reasons = "\n".join(str(finding) for finding in again)
            raise AssertionError(f"program {seed}\n{program.siren}\n\n{reasons}")
