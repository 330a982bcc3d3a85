"""Put expressions of disjoint sets of lanes together into one expression of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siren.symbolic.algebra import terms_of
from siren.symbolic.expr import NUMBERS, Column, Expr, Monomial, Op, Poly, Raw, polynomial, raw
from siren.symbolic.lanes import Array, Generation, Index

Part = tuple[Index, Expr]


def merge(size: int, gen: Generation, parts: Sequence[Part]) -> Expr:
    """Lanes that no part covers get the value of some covered lane: nothing will ever look at them."""
    first = parts[0][1]
    scalar = isinstance(first, (float, bool)) or (type(first) is Poly and first.gen is None)
    if scalar and all(part is first for _, part in parts):
        return first
    exprs = [expr for _, expr in parts]
    if all(isinstance(expr, NUMBERS) for expr in exprs):
        scattered = scatter(size, [(index, raw(expr)) for index, expr in parts])
        return Column(scattered, gen) if isinstance(scattered, np.ndarray) else scattered
    if not any(type(expr) is Op for expr in exprs):
        return _merge_polys(size, gen, parts)
    operations = [expr for expr in exprs if type(expr) is Op]
    if len(operations) == len(exprs) and len({(op.name, len(op.args)) for op in operations}) == 1:
        indices = [index for index, _ in parts]
        columns = zip(*(op.args for op in operations), strict=True)
        args = tuple(merge(size, gen, list(zip(indices, column, strict=True))) for column in columns)
        return Op(operations[0].name, args)
    whole = _extend(size, gen, *parts[-1])
    for index, expr in parts[:-1]:
        lanes = np.zeros_like(index, dtype=bool, shape=size)
        lanes[index] = True
        whole = Op("ite", (Column(lanes, gen), _extend(size, gen, index, expr), whole))
    return whole


def scatter(size: int, parts: Sequence[tuple[Index, Raw]]) -> Raw:
    """One array from the arrays or scalars of several sets of lanes; a scalar if they are all the same
    scalar.
    """
    first = parts[0][1]
    if not isinstance(first, np.ndarray) and all(
        not isinstance(value, np.ndarray) and type(value) is type(first) and value == first
        for _, value in parts
    ):
        return first
    logical = all(
        value.dtype == bool if isinstance(value, np.ndarray) else type(value) is bool for _, value in parts
    )
    whole: Array = np.empty_like(parts[0][0], dtype=bool if logical else float, shape=size)
    if sum(index.size for index, _ in parts) < size:
        whole = np.full_like(whole, next((_first(value) for index, value in parts if index.size), 0.0))
    for index, value in parts:
        whole[index] = value
    return whole


def _first(value: Raw) -> Raw:
    return value[0] if isinstance(value, np.ndarray) and value.ndim else value


def _merge_polys(size: int, gen: Generation, parts: Sequence[Part]) -> Expr:
    split = [(index, terms_of(expr)) for index, expr in parts]
    keys: dict[Monomial, None] = {}
    for _, terms in split:
        keys.update(dict.fromkeys(terms))
    total: dict[Monomial, Raw] = {}
    for key in keys:
        total[key] = scatter(size, [(index, terms.get(key, 0.0)) for index, terms in split])
    return polynomial(total, gen)


def _extend(size: int, gen: Generation, index: Index, expr: Expr) -> Expr:
    """An expression of some lanes, padded to all."""
    if type(expr) is Op:
        return Op(expr.name, tuple(_extend(size, gen, index, arg) for arg in expr.args))
    return (
        merge(size, gen, [(index, expr)])
        if isinstance(expr, NUMBERS)
        else _merge_polys(size, gen, [(index, expr)])
    )
