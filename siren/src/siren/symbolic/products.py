"""Products that stay as they are written, multiplied out where a polynomial is wanted."""

from __future__ import annotations

from siren.symbolic.algebra import mul, operation
from siren.symbolic.expr import Expr, Op, Poly

_ARITHMETIC = frozenset({"add", "mul", "div"})


def plain_operation(name: str, args: tuple[Expr, ...]) -> Expr:
    """Any operation by name; a product of polynomials as one of them, unless it has too many terms."""
    return mul(*args) if name == "mul" else operation(name, args)


def multiplied_out(expr: Expr) -> Expr:
    """The polynomial that an expression is, if it is one."""
    if type(expr) is not Op or expr.name not in _ARITHMETIC:
        return expr
    return plain_operation(expr.name, tuple(multiplied_out(arg) for arg in expr.args))


def multilinear(expr: Expr) -> Expr:
    """The expression multiplied out, if no variable is then left in a power: as (x + 1) * (x + 1) - x * x."""
    result = multiplied_out(expr)
    if type(result) is Op:
        return expr
    linear = type(result) is not Poly or all(p == 1 for monomial in result.terms for _, p in monomial)
    return result if linear else expr
