"""A distribution: a family and its parameters, which are expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siren.symbolic.algebra import substitute
from siren.symbolic.expr import (
    Column,
    Expr,
    Op,
    Poly,
    Raw,
    Variable,
    fresh,
    generation,
    raw,
    restrict,
    variables,
)
from siren.symbolic.lanes import Array, Generation, Index, Scope

if TYPE_CHECKING:
    from siren.distributions.base import Distribution


class Dist:
    """Immutable, but for the parameters following the lanes. `known` says that no parameter is random."""

    __slots__ = ("_stamp", "_variables", "_varies", "family", "known", "params", "simple_at")

    def __init__(self, family: Distribution, params: tuple[Expr, ...]) -> None:
        self.family = family
        self.params = params
        self.known = True
        self._varies = False
        self._stamp: Generation | None = None
        self._variables: list[Variable] | None = None
        # The graph's count of changes when no variable here was known.
        self.simple_at = -1
        for param in params:
            kind = type(param)
            if kind is Column:
                self._varies = True
            elif kind is Poly:
                self.known = False
                self._varies = self._varies or param.gen is not None  # type: ignore[union-attr]
            elif kind is Op:
                self.known = False
                self._varies = self._varies or generation(param) is not None

    def variables(self) -> list[Variable]:
        if self._variables is None:
            self._variables = [] if self.known else variables(*self.params)
        return self._variables

    def numbers(self) -> tuple[Any, ...]:
        """The parameters as arrays and scalars; only when `known`."""
        return tuple([raw(p) for p in self.params])

    def fresh(self, scope: Scope) -> Dist:
        if not self._varies or self._stamp is scope.now:
            return self
        params = tuple([fresh(p, scope) for p in self.params])
        for new, old in zip(params, self.params, strict=True):
            if new is not old:
                result = Dist(self.family, params)
                result._stamp = scope.now
                return result
        self._stamp = scope.now
        return self

    def as_of(self, now: Generation) -> Dist:
        """Note that the parameters are of this generation."""
        self._stamp = now
        return self

    def restrict(self, lanes: Index, now: Generation) -> Dist:
        return Dist(self.family, tuple([restrict(p, lanes, now) for p in self.params]))

    def substitute(self, values: dict[Variable, Expr]) -> Dist:
        return Dist(self.family, tuple([substitute(p, values) for p in self.params]))

    # Numbers out of a known distribution --------------------------------------------------------------------

    def sample(self, rng: Any, size: int) -> Array:
        return self.family.sample(rng, size, *self.numbers())

    @property
    def size(self) -> int:
        """The number of components of a vector; 0 for a number."""
        return self.family.size(len(self.params))

    def logpdf(self, *x: Raw) -> Any:
        """The log density at a number, or at a vector by its components."""
        return self.family.logpdf(x if self.size else x[0], *self.numbers())

    def log_density_of_draw(self, draw: Array) -> Any:
        """Of what `sample` gave. A vector without spread in some direction has a density along the others
        and is impossible off them."""
        return self.family.logpdf_of_draw(draw.T if self.size else draw, *self.numbers())

    def mean(self) -> Any:
        return self.family.mean(*self.numbers())

    def variance(self) -> Any:
        return self.family.variance(*self.numbers())

    def __repr__(self) -> str:
        return f"{self.family.name}{self.params!r}"
