"""Marginals along a chain of gaussians, newest first: each takes one step of a Kalman smoother.

After a filter every state depends on the one that followed it. So the marginal of a state follows from that
of its only parent without turning any edge around, and a mean takes no variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from siren.distributions.gaussian import GAUSSIAN
from siren.symbolic.dist import Dist
from siren.symbolic.expr import NUMBERS, ONE, Poly, Raw, Variable, lift, raw
from siren.symbolic.lanes import Generation


class Link:
    """The marginal of one gaussian: its mean, and its variance when somebody asks."""

    __slots__ = ("_above", "_slope", "_spread", "_variance", "mean")

    def __init__(self, mean: Raw, variance: Raw, above: Link | None = None, slope: Raw = 0.0) -> None:
        """With a link `above`, the mean is slope times that one's and something, and `variance` is what is
        left given that variable."""
        self.mean = mean
        self._above, self._slope, self._spread = above, slope, variance
        self._variance = variance if above is None else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Alone: a chain of thousands of links is too deep to be pickled."""
        return Link, (self.mean, self.variance())

    def variance(self) -> Any:
        path: list[Link] = []
        link = self
        while link._variance is None:
            path.append(link)
            assert link._above is not None
            link = link._above
        variance = link._variance
        for link in reversed(path):
            variance = link._variance = link._slope * link._slope * variance + link._spread
            link._above = None
        return variance


# A link that is further than this from the last one is not looked for.
_REACH = 8


class Chain:
    """The last link, which the next may build on while nothing has been drawn or resampled since; whoever
    observes in between says `forget`. `dist_of` gives the distribution of a variable, known parents filled
    in."""

    def __init__(self, dist_of: Callable[[Variable], Dist]) -> None:
        self._dist_of = dist_of
        self._variable: Variable | None = None
        self._link: Link | None = None
        self._at: tuple[Generation, int] | None = None

    def forget(self) -> None:
        """More has been observed: the last link no longer holds."""
        self._variable = None

    def link(self, variable: Variable, now: Generation, draws: int) -> Link | None:
        """Of a variable whose distribution is known or depends, over few others, on the last link's."""
        if self._at != (now, draws):
            self._variable, self._at = None, (now, draws)
        path: list[tuple[Variable, Dist]] = []
        while variable is not self._variable:
            dist = self._dist_of(variable)
            path.append((variable, dist))
            if dist.known:
                break
            parents = dist.variables()
            if len(parents) != 1 or len(path) > _REACH:
                return None
            variable = parents[0]
        link = self._link
        for variable, dist in reversed(path):
            link = _next(link, dist)
            if link is None:
                return None
            self._variable, self._link = variable, link
        return link


def _next(above: Link | None, dist: Dist) -> Link | None:
    """The link below, or a first one."""
    if dist.family is not GAUSSIAN:
        return None
    mean, variance = dist.params
    if dist.known:
        return Link(raw(mean), raw(variance))
    if above is None or type(mean) is not Poly or not isinstance(variance, NUMBERS):
        return None
    terms = mean.terms
    slope, offset = terms.get(((dist.variables()[0], 1),)), terms.get(ONE, 0.0)
    if slope is None or len(terms) != 1 + (ONE in terms):
        return None
    return Link(slope * above.mean + offset, raw(variance), above, slope)


def distribution(link: Link, now: Generation) -> Dist:
    return Dist(GAUSSIAN, (lift(link.mean, now), lift(link.variance(), now)))
