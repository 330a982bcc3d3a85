"""All that Siren knows of one distribution, in one place.

To add one, write a subclass and `register` an instance of it: that makes it part of the language. Needed are
`name`, `parameters`, `sample` and `log_density`; with `mean` and `variance` it can stand in an answer without
being drawn, and with conjugacies it can stay symbolic.

Numbers arrive as scalars or as arrays with one entry per lane (particle), and go out likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from siren.distributions.bounds import REAL, Bound, Numbers
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Expr, Raw, generation, lift
from siren.symbolic.lanes import Array

if TYPE_CHECKING:
    from siren.symbolic.exchange import Rule

Rng = np.random.Generator
Kind = Literal["number", "list", "matrix", "anything"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """`observed` is what an observation asks of the parameter beyond its bound. `kind` is what a program
    passes. `fixed`: rules look at its value, so the analysis must not forget it."""

    name: str
    bound: Bound = REAL
    observed: Bound | None = None
    kind: Kind = "number"
    fixed: bool = False


class Distribution:
    """One family of distributions. Instances hold no data: parameters are passed in."""

    name: ClassVar[str]
    meaning: ClassVar[str] = ""
    # As a program writes them, and other ways to write them.
    parameters: ClassVar[tuple[Parameter, ...]]
    also: ClassVar[tuple[tuple[Parameter, ...], ...]] = ()
    # What draws are like. `discrete` ones have probabilities in place of densities.
    support: ClassVar[Bound] = REAL
    discrete: ClassVar[bool] = False
    # Few outcomes, which `outcomes` lists: finite parents of finite children are summed over.
    finite: ClassVar[bool] = False
    # A number or vector such that any of them that depend linearly on each other are jointly gaussian.
    gaussian: ClassVar[bool] = False
    # Draws are vectors, which `size` counts; a program sees a list.
    vector: ClassVar[bool] = False
    # How an edge of the graph is turned around, by the name of the child and by the name of the parent.
    as_parent: ClassVar[Mapping[str, Rule]] = {}
    as_child: ClassVar[Mapping[str, Rule]] = {}

    # From a program -----------------------------------------------------------------------------------------

    def build(self, *arguments: Any) -> Dist:
        """The distribution of these arguments: expressions, or (nested) Python lists of them."""
        return Dist(self, arguments)

    def form(self, count: int) -> tuple[Parameter, ...] | None:
        """The parameters of a call with so many arguments."""
        return next((form for form in (self.parameters, *self.also) if len(form) == count), None)

    def parameter(self, place: int, count: int) -> Parameter:
        """What the parameter at a place of `Dist.params` is, of which there are so many."""
        return self.parameters[place]

    def size(self, count: int) -> int:
        """How many components draws have, if `Dist.params` has so many parameters; 0 if draws are numbers."""
        return 0

    def wrong(self, *p: Numbers) -> str | None:
        """What is wrong with parameters each of which is within its bound."""
        return None

    # Numbers ------------------------------------------------------------------------------------------------

    def sample(self, rng: Rng, size: int, *p: Numbers) -> Array:
        """A draw for each of `size` lanes; a vector's as an array of one row per lane."""
        raise NotImplementedError(f"{self.name} cannot be drawn")

    def log_density(self, x: Numbers, *p: Numbers) -> Numbers:
        """Where x is in the support; elsewhere whatever comes out."""
        raise NotImplementedError(f"{self.name} has no density")

    def inside(self, x: Numbers, *p: Numbers) -> Any:
        """Lane by lane, whether the distribution can give x."""
        return self.support.holds(x)

    def logpdf(self, x: Numbers, *p: Numbers) -> Numbers:
        """The log density, or the log probability of a discrete one; -inf where x is impossible."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.log_density(x, *p)
        inside = self.inside(x, *p)
        return value if np.all(inside) else np.where(inside, value, -np.inf)[()]

    def logpdf_of_draw(self, x: Numbers, *p: Numbers) -> Numbers:
        """The same for what was drawn and not observed, even where `logpdf` refuses the parameters."""
        return self.logpdf(x, *p)

    def mean(self, *p: Numbers) -> Numbers:
        raise NotImplementedError(f"{self.name} has no known mean")

    def variance(self, *p: Numbers) -> Numbers:
        raise NotImplementedError(f"{self.name} has no known variance")

    # Without it quantiles come from draws.
    cdf: ClassVar[Callable[..., Numbers] | None] = None

    @property
    def has_moments(self) -> bool:
        """Without mean and variance the answer uses draws."""
        return type(self).mean is not Distribution.mean

    def moment(self, exponent: int, *p: Numbers) -> Numbers | None:
        """E[x ** exponent], if there is a formula. Negative exponents count."""
        if exponent < 0 or not self.has_moments:
            return None
        return _expanded([self.central(k, *p) for k in range(exponent + 1)], self.mean(*p))

    def central(self, exponent: int, *p: Numbers) -> Numbers | None:
        """E[(x - E[x]) ** exponent], if there is a formula, without the difference of large numbers. Of a
        negative exponent, E[(1/x - E[1/x]) ** -exponent]."""
        if 0 <= exponent <= 2:
            return (1.0, 0.0, self.variance(*p))[exponent]
        if exponent < 0 or type(self).moment is Distribution.moment:
            return None
        return _expanded([self.moment(k, *p) for k in range(exponent + 1)], -self.mean(*p))

    # Expressions --------------------------------------------------------------------------------------------

    def outcomes(self, dist: Dist) -> list[tuple[Expr, Expr]] | None:
        """(value, probability) of each outcome, if there are few."""
        return None

    def with_chances(self, dist: Dist, chances: list[Expr]) -> Dist:
        """The same outcomes with other probabilities."""
        raise NotImplementedError

    def along(self, dist: Dist, weights: list[Raw]) -> tuple[Raw, Distribution, tuple[Numbers, ...]] | None:
        """(c, f, p): the weighted sum of a vector's components is c times a number of the family f with the
        parameters p. Weights may differ between lanes where the parameters of the vector do not."""
        return None

    def marginal(self, dist: Dist, places: Sequence[int]) -> Dist | None:
        """The distribution of some of a vector's components, in the same family, if it has one."""
        return None

    def factors(self, dist: Dist, x: Sequence[Expr]) -> list[Dist] | None:
        """Of a vector that is known, the distributions of its components, each given those of x before it."""
        return None

    def expected_product(
        self, dist: Dist, powers: Mapping[int, int], centres: Sequence[Expr] | None = None
    ) -> Expr | None:
        """E of a product of powers of a vector's components, if there is a formula; of their distances from
        the centres, if these are given. The centre of a distribution that is known is its mean."""
        return None

    def expected_power(self, dist: Dist, exponent: int, centre: Expr | None = None) -> Expr | None:
        """E[x ** exponent] as an expression of what the parameters depend on; from a centre, E[(x - centre)
        ** exponent], or of a negative exponent E[(1/x - centre) ** -exponent]. The centre of a distribution
        that is known is its mean, or that of 1/x."""
        if not dist.known:
            return None
        formula = self.moment if centre is None else self.central
        moment = formula(exponent, *dist.numbers())
        return None if moment is None else lift(moment, generation(*dist.params))

    def __repr__(self) -> str:
        return self.name


def _expanded(moments: Sequence[Numbers | None], shift: Numbers) -> Numbers | None:
    """E[(x + shift) ** n] from E[x ** k] for k from 0 to n."""
    total: Numbers = 0.0
    n = len(moments) - 1
    for k, moment in enumerate(moments):
        if moment is None:
            return None
        total = total + math.comb(n, k) * moment * np.power(shift, n - k)
    return total


def stein_moment(exponent: int, a: Numbers, b: Numbers, c: Numbers = 0.0) -> Numbers:
    """E[d ** exponent] of the distance d from the mean, where E[d h(d)] = E[(a + b d + c d**2) h'(d)] for all
    h, as of gammas and betas; infinite where the tail is too heavy."""
    before: Numbers = 1.0
    current: Numbers = 0.0
    for k in range(1, exponent):
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = 1.0 - k * np.asarray(c)
            following = np.where(rest > 0, k * (a * before + b * current) / rest, np.inf)[()]
        before, current = current, following
    return current if exponent else 1.0
