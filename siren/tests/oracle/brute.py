"""Brute-force importance sampling: runs the NumPy reading of a random program."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

_DRAWS = {
    "gaussian": lambda rng, m, v: rng.normal(m, np.sqrt(v)),
    "student_t": lambda rng, m, s, nu: m + np.sqrt(s) * rng.standard_t(nu, np.shape(m)),
    "laplace": lambda rng, m, b: rng.laplace(m, b),
    "uniform": lambda rng, a, b: rng.uniform(a, b),
    "gamma": lambda rng, k, r: rng.gamma(k, 1 / r),
    "lognormal": lambda rng, m, v: np.exp(rng.normal(m, np.sqrt(v))),
    "beta": lambda rng, a, b: rng.beta(a, b),
    "bernoulli": lambda rng, p: rng.random(np.shape(p)) < p,
    "poisson": lambda rng, r: rng.poisson(r).astype(float),
    "binomial": lambda rng, n, p: rng.binomial(n.astype(int), p).astype(float),
    "categorical": lambda rng, *p: (rng.random(p[0].shape)[None] >= np.cumsum(p, axis=0)[:-1]).sum(0) * 1.0,
}
_LOGPS = {
    "gaussian": lambda x, m, v: stats.norm.logpdf(x, m, np.sqrt(v)),
    "student_t": lambda x, m, s, nu: stats.t.logpdf(x, nu, m, np.sqrt(s)),
    "laplace": lambda x, m, b: stats.laplace.logpdf(x, m, b),
    "uniform": lambda x, a, b: stats.uniform.logpdf(x, a, np.subtract(b, a)),
    "gamma": lambda x, k, r: stats.gamma.logpdf(x, k, scale=1 / np.asarray(r)),
    "lognormal": lambda x, m, v: stats.lognorm.logpdf(x, np.sqrt(v), scale=np.exp(m)),
    "beta": lambda x, a, b: stats.beta.logpdf(x, a, b),
    "bernoulli": lambda x, p: stats.bernoulli.logpmf(x, p),
    "poisson": lambda x, r: stats.poisson.logpmf(x, r),
    "binomial": lambda x, n, p: stats.binom.logpmf(x, n, p),
    "categorical": lambda x, *p: np.log(np.asarray(p)[int(x)]) if x in (0, 1, 2) else -np.inf,
}


@dataclass(frozen=True)
class Truth:
    """Weighted draws of the outputs, one row an output."""

    values: np.ndarray
    weights: np.ndarray  # sum to 1
    log_evidence: float

    @property
    def ess(self) -> float:
        return 1 / float(np.square(self.weights).sum())

    def moments(self, values: np.ndarray) -> tuple[float, float]:
        """Mean and variance of a function of the outputs."""
        used = self.weights > 0
        values, weights = values[used], self.weights[used]
        mean = float(weights @ values)
        return mean, float(weights @ np.square(values - mean))


def importance(code: str, outputs: int, size: int, seed: int) -> Truth | None:
    """None if no draw can explain the data."""
    rng = np.random.default_rng(seed)
    log_weights = np.zeros(size)

    def weigh(scores) -> None:
        scores = np.broadcast_to(scores, (size,))
        log_weights[:] += np.where(np.isnan(scores), -np.inf, scores)

    names = {"np": np, "weigh": weigh}

    def wide(argument):
        return np.broadcast_to(np.asarray(argument, dtype=float), (size,))

    def flat(arguments):
        return [wide(part) for a in arguments for part in (a if isinstance(a, list) else [a])]

    for family, draw in _DRAWS.items():
        names[f"draw_{family}"] = lambda *a, _draw=draw: _draw(rng, *flat(a))
    for family, logp in _LOGPS.items():
        names[f"logp_{family}"] = lambda x, *a, _logp=logp: np.broadcast_to(_logp(x, *flat(a)), (size,))
    with np.errstate(all="ignore"):
        exec(code, names)
    top = log_weights.max()
    if not np.isfinite(top):
        return None
    weights = np.exp(log_weights - top)
    values = np.array([wide(output) for output in names["outputs"]]).reshape(outputs, size)
    evidence = float(top + np.log(weights.mean()))
    return Truth(values, weights / weights.sum(), evidence)
