"""The six faults that once made answers silently wrong, each to be put back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from siren.inference import guard
from siren.inference.chain import distribution
from siren.inference.population import Population
from siren.inference.ssi import SSI
from siren.runtime import moments, summary
from siren.runtime.estimate import Posterior
from siren.runtime.joint import Joint
from siren.runtime.summary import Summary
from siren.symbolic.expr import raw


def _marginalize(self, variable):
    """Draws are thrown away when particles turn out to differ."""
    link = self.link(variable)
    if link is not None:
        return distribution(link, self.graph.scope.now)
    before, draws = self.dist(variable).family, self.draws
    with self.graph.scratch() as trial:
        dist = self._settle(variable)
        trial.keep = dist.family is before or self.draws > draws
    return dist


def _draws(self, n, seed):
    """Every number starts the same generator."""
    drawn = np.empty((n, len(self._exprs)))
    for place in range(len(self._exprs)):
        rng = np.random.default_rng(seed)
        lanes = rng.choice(len(self._weights), size=n, p=self._weights)
        engine, exprs = self._engine.copied(lanes, self._exprs, rng)
        with np.errstate(all="ignore"):
            drawn[:, place] = raw(engine.value(exprs[place]))
    return drawn


def _variance(expr, mean, chain):
    """The square of a choice is taken for the choice itself."""
    square = moments.expectation(moments.power(expr, 2) if type(expr) is moments.Poly else expr, chain)
    return None if square is None else moments.sub(square, moments.power(mean, 2))


_sampled_rightly = Summary._sampled


def _sampled(self, expr, mean=None, square=None):
    """The variance of few draws is added to that of their means."""
    right = _sampled_rightly(self, expr, mean, square)
    if square is not None:
        return right
    repeats = max(1, summary.DRAWS // len(self.weights))
    variance = right.variance() * repeats / max(repeats - 1, 1)
    return Posterior(right.mean, lambda: variance, right.draw)


def _relative(log_weights):
    """All weights are equal if one of them is not a number."""
    top = log_weights.max()
    if not np.isfinite(top):
        return np.ones(len(log_weights)), float(len(log_weights)), -np.inf
    weights = np.exp(log_weights - top)
    return weights, float(weights.sum()), float(top) + np.log(weights.mean())


def _weights(self):
    size = self.graph.scope.size
    if not isinstance(self.graph.log_weight, np.ndarray):
        return np.full(size, 1.0 / size)
    weights, total, _ = _relative(self.graph.log_weight)
    return weights / total


def _score(engine, dist, value):
    values = value if isinstance(value, tuple) else (value,)
    return dist.logpdf(*[raw(number) for number in values])


_UNGUARDED = (
    (guard, "score", _score),
    (guard, "sound", lambda engine, dist, observed=False: dist),
    (guard, "require_possible", lambda engine: None),
    (Population, "weights", _weights),
)
FAULTS = {
    "draws are thrown away where particles differ": ((SSI, "marginalize", _marginalize),),
    "draws are not joint": ((Joint, "draws", _draws),),
    "a choice has no spread": ((summary, "variance", _variance),),
    "the spread of draws counts twice": ((Summary, "_sampled", _sampled),),
    "a weight that is not a number makes all alike": _UNGUARDED,
    "an impossible observation is ignored": _UNGUARDED[2:],
}


@contextmanager
def put_back(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, attribute, replacement in FAULTS[name]:
            stack.enter_context(mock.patch.object(owner, attribute, replacement))
        yield
