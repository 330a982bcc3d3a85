"""The multivariate normal: a vector that stays one symbolic variable, so that a Kalman filter of any
dimension is exact.

In `Dist.params`: the d means, then the d * d entries of the covariance, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from siren.distributions.base import Distribution, Parameter, Rng
from siren.distributions.bounds import REAL, Numbers
from siren.distributions.gaussian import GAUSSIAN
from siren.errors import RunError
from siren.symbolic.algebra import add, mul, sub
from siren.symbolic.dist import Dist
from siren.symbolic.exchange import Clash, Exchange, name_of
from siren.symbolic.expr import NUMBERS, Expr, Raw, Scalar, Variable, generation, lift, raw, variables
from siren.symbolic.forms import linear
from siren.symbolic.lanes import Array, Generation


def gaussians(x: Variable, prior: Dist, likelihood: Dist) -> Exchange | Clash:
    """x ~ N(m, S) and y ~ N(A x + b, R), where x or y may be a number: the Kalman update. The means m and b
    may depend on other variables."""
    m, spread = _split(prior)
    mean, noise = _split(likelihood)
    for entry in (*noise, *spread):
        if not isinstance(entry, NUMBERS):
            return Clash(variables(entry)[0], f"the covariance of the {likelihood.family} is random")
    rows, rest = [], []
    for entry in mean:
        found = linear(entry, x)
        if found is None:
            return Clash(x, f"the mean of the {likelihood.family} is not linear in {name_of(x)}")
        rows.append(found[0])
        rest.append(found[1])
    gen = generation(*prior.params, *likelihood.params)
    total, gain, left = _update(rows, spread, noise)
    centre = [
        _sum(b, [mul(lift(a, gen), part) for a, part in zip(row, m, strict=True)])
        for row, b in zip(rows, rest, strict=True)
    ]
    remaining = _entries(left, gen)

    def posterior(*y: Expr) -> Dist:
        off = [sub(value, expected) for value, expected in zip(y, centre, strict=True)]
        means = [
            _sum(
                part,
                [mul(lift(weight, gen or generation(*y)), o) for weight, o in zip(row, off, strict=True)],
            )
            for part, row in zip(m, _rows(gain), strict=True)
        ]
        return Dist(prior.family, (*means, *remaining))

    return Exchange(Dist(likelihood.family, (*centre, *_entries(total, gen))), posterior)


def _split(dist: Dist) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    size = dist.size or 1
    return dist.params[:size], dist.params[size:]


def _sum(start: Expr, terms: Sequence[Expr]) -> Expr:
    for term in terms:
        start = add(start, term)
    return start


def _update(rows: list[list[Raw]], spread: Sequence[Expr], noise: Sequence[Expr]) -> tuple[Any, Any, Any]:
    """A S A' + R, the gain S A' (A S A' + R)^-1, and what is left of S."""
    k, d = len(rows), len(rows[0])
    a = [weight for row in rows for weight in row]
    s, r = [raw(entry) for entry in spread], [raw(entry) for entry in noise]
    unknown = next((number for number in (*a, *s, *r) if isinstance(number, Scalar)), None)
    if unknown is not None:
        return _unknown(unknown, k, k), _unknown(unknown, d, k), _unknown(unknown, d, d)
    slope, before, extra = matrix(a, k, d), matrix(s, d, d), matrix(r, k, k)
    cross = before @ slope.mT
    total = slope @ cross + extra
    gain = _solve(total, cross.mT).mT
    keep = np.eye(d) - gain @ slope
    left = keep @ before @ keep.mT + gain @ extra @ gain.mT
    return total, gain, 0.5 * (left + left.mT)


def _unknown(like: Scalar, rows: int, columns: int) -> list[list[Scalar]]:
    return [[like.another() for _ in range(columns)] for _ in range(rows)]


def _solve(a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:  # a direction without variance: nothing is learnt along it
        result: Array = np.linalg.pinv(a, hermitian=True) @ b
        return result


def matrix(numbers: Sequence[Raw], rows: int, columns: int) -> Array:
    """Entries, row by row, as one array; with an axis for lanes in front if any differs between them."""
    if any(isinstance(number, np.ndarray) for number in numbers):
        return np.stack(np.broadcast_arrays(*numbers), axis=-1).reshape(-1, rows, columns).astype(float)
    return np.array(numbers, dtype=float).reshape(rows, columns)


def _rows(entries: Any) -> list[list[Raw]]:
    """The entries of a matrix, each a scalar or an array over lanes."""
    if isinstance(entries, list):
        return entries
    if entries.ndim == 2:
        return entries.tolist()  # type: ignore[no-any-return]
    _, rows, columns = entries.shape
    return [[np.ascontiguousarray(entries[:, i, j]) for j in range(columns)] for i in range(rows)]


def _entries(entries: Any, gen: Generation | None) -> tuple[Expr, ...]:
    return tuple(lift(number, gen) for row in _rows(entries) for number in row)


def _root(covariance: Array) -> Array:
    """A matrix whose product with its transpose is the covariance, which may be singular."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        root: Array = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        return root


def _least_eigenvalue(covariance: Array) -> float | None:
    """If it is negative by more than rounding."""
    try:
        np.linalg.cholesky(covariance)  # the usual case, and quick
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(covariance)
        if (values < -1e-9 * np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1e-300)).any():
            return float(values.min())
    return None


class MvGaussian(Distribution):
    name = "mv_gaussian"
    meaning = "multivariate normal: a list of means, and the covariance as a list of rows"
    parameters = (Parameter("mean", REAL, kind="list"), Parameter("covariance", REAL, kind="matrix"))
    gaussian = True
    vector = True
    as_parent: ClassVar = {"mv_gaussian": gaussians, "gaussian": gaussians}
    as_child: ClassVar = {"gaussian": gaussians}

    def build(self, *arguments: Any) -> Dist:
        mean, covariance = arguments
        size = len(mean)
        if not size:
            raise RunError("the mean of mv_gaussian is an empty list")
        if len(covariance) != size or any(len(row) != size for row in covariance):
            shape = f"{len(covariance)} rows of {', '.join(sorted({str(len(row)) for row in covariance}))}"
            raise RunError(
                f"mv_gaussian of {size} means needs a covariance of {size} rows of {size}, not {shape}"
            )
        return Dist(self, (*mean, *(entry for row in covariance for entry in row)))

    def parameter(self, place: int, count: int) -> Parameter:
        return self.parameters[0 if place < self.size(count) else 1]

    def size(self, count: int) -> int:
        return (math.isqrt(4 * count + 1) - 1) // 2  # d + d * d = count

    def wrong(self, *p: Numbers) -> str | None:
        size = self.size(len(p))
        covariance = matrix(p[size:], size, size)
        off = np.abs(covariance - covariance.mT).max()
        if off > 1e-9 * max(np.abs(covariance).max(), 1e-300):
            return f"the covariance of an mv_gaussian must be symmetric; it is off by {off:g}"
        least = _least_eigenvalue(covariance)
        return (
            None
            if least is None
            else f"the covariance of an mv_gaussian has a negative eigenvalue, {least:g}"
        )

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        mean, covariance = self._moments(p)
        noise = rng.standard_normal((size, mean.shape[-1]))
        draw: Array = mean + (_root(covariance) @ noise[..., None])[..., 0]
        return draw

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        mean, covariance = self._moments(p)
        size = mean.shape[-1]
        off = matrix(list(x), size, 1)[..., 0] - mean
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise RunError("the covariance of an observed mv_gaussian must be positive definite") from None
        scaled = np.linalg.solve(root, off[..., None])[..., 0]
        logs = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        score = -0.5 * np.square(scaled).sum(axis=-1) - logs - 0.5 * size * math.log(2 * math.pi)
        return score if np.ndim(score) else float(score)

    def logpdf_of_draw(self, x: Numbers, *p: Numbers) -> Numbers:
        mean, covariance = self._moments(p)
        off = matrix(list(x), mean.shape[-1], 1)[..., 0] - mean
        values, vectors = np.linalg.eigh(covariance)
        along = (off[..., None, :] @ vectors)[..., 0, :]
        scale = values[..., -1:]
        spread = values > 1e-12 * scale
        score = np.where(spread, along**2 / np.where(spread, values, 1.0), 0.0)
        logs = np.log(np.where(spread, 2 * math.pi * values, 1.0))
        # Rounding leaves a draw this far off the directions that have a spread.
        reach = 1e-9 * (np.abs(mean).max(axis=-1, keepdims=True) + np.sqrt(scale))
        possible = (spread | (np.abs(along) <= reach)).all(axis=-1)
        return np.where(possible, -0.5 * (score + logs).sum(axis=-1), -np.inf)

    def _moments(self, p: tuple[Numbers, ...]) -> tuple[Array, Array]:
        size = self.size(len(p))
        return matrix(p[:size], size, 1)[..., 0], matrix(p[size:], size, size)

    def along(self, dist: Dist, weights: list[Raw]) -> tuple[Raw, Distribution, tuple[Numbers, ...]] | None:
        """The weighted sum is a gaussian."""
        mean, covariance = self._moments(dist.numbers())
        slope = matrix(weights, 1, len(weights))
        centre = (slope @ mean[..., None])[..., 0, 0]
        spread = (slope @ covariance @ slope.mT)[..., 0, 0]
        return 1.0, GAUSSIAN, (centre, np.maximum(spread, 0.0))

    def marginal(self, dist: Dist, places: Sequence[int]) -> Dist:
        means, covariance = _split(dist)
        entries = [covariance[i * dist.size + j] for i in places for j in places]
        return Dist(self, (*[means[i] for i in places], *entries))

    def factors(self, dist: Dist, x: Sequence[Expr]) -> list[Dist]:
        mean, covariance = self._moments(dist.numbers())
        off = matrix([raw(number) for number in x], dist.size, 1)[..., 0] - mean
        gen = generation(*dist.params, *x)
        found = []
        for place in range(dist.size):
            before, across = covariance[..., :place, :place], covariance[..., :place, place]
            weights = _solve(before, across[..., None])[..., 0]
            centre = mean[..., place] + (weights * off[..., :place]).sum(axis=-1)
            spread = covariance[..., place, place] - (weights * across).sum(axis=-1)
            found.append(Dist(GAUSSIAN, (lift(centre, gen), lift(spread, gen))))
        return found

    def expected_product(
        self, dist: Dist, powers: Mapping[int, int], centres: Sequence[Expr] | None = None
    ) -> Expr | None:
        """By the recursion E[v_i f] = mean_i E[f] + the sum over j of covariance_ij E[df / dv_j]."""
        if any(power < 0 for power in powers.values()):
            return None
        means, covariance = _split(dist)
        if centres is not None:
            means = tuple(map(sub, means, centres))

        @cache
        def expected(places: tuple[int, ...]) -> Expr:
            if not places:
                return 1.0
            i, *rest = places
            total = mul(means[i], expected(tuple(rest)))
            for at, j in enumerate(rest):
                others = expected(tuple(rest[:at] + rest[at + 1 :]))
                total = add(total, mul(covariance[i * dist.size + j], others))
            return total

        return expected(tuple(place for place, power in sorted(powers.items()) for _ in range(power)))


MV_GAUSSIAN = MvGaussian()
