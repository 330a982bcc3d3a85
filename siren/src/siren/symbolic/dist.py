"""A distribution: a family and its parameters, which are expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from siren.symbolic.algebra import substitute
from siren.symbolic.expr import NUMBERS, Expr, Raw, Variable, fresh, raw, variables
from siren.symbolic.families import Family
from siren.symbolic.lanes import Array, Scope


@dataclass(frozen=True, slots=True, eq=False)
class Dist:
    family: Family
    params: tuple[Expr, ...]

    def variables(self) -> list[Variable]:
        return variables(*self.params)

    def is_known(self) -> bool:
        """Whether no parameter is random."""
        return all(isinstance(p, NUMBERS) for p in self.params)

    def numbers(self) -> tuple[Raw, ...]:
        """The parameters as arrays and scalars; only when `is_known`."""
        return tuple(raw(p) for p in self.params)

    def fresh(self, scope: Scope) -> Dist:
        params = tuple(fresh(p, scope) for p in self.params)
        if all(new is old for new, old in zip(params, self.params, strict=True)):
            return self
        return Dist(self.family, params)

    def substitute(self, values: dict[Variable, Expr]) -> Dist:
        return Dist(self.family, tuple(substitute(p, values) for p in self.params))

    # Numbers out of a known distribution ---------------------------------------------------------------------

    def sample(self, rng: Any, size: int) -> Array:
        return self.family.sample(rng, size, *self.numbers())

    def logpdf(self, x: Raw) -> Raw:
        return self.family.logpdf(x, *self.numbers())

    def mean(self) -> Raw:
        return self.family.mean(*self.numbers())

    def variance(self) -> Raw:
        return self.family.variance(*self.numbers())

    def __repr__(self) -> str:
        return f"{self.family.name}{self.params!r}"
