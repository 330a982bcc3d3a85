"""Expressions against plain arithmetic: whatever the form, the value is the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siren.symbolic.algebra import add, div, ite, mul, operation, select, sub, substitute
from siren.symbolic.expr import Column, Op, Poly, Variable, of, raw, variables
from siren.symbolic.forms import affine
from siren.symbolic.lanes import Scope

SCOPE = Scope(3)
VARIABLES = [Variable("x"), Variable("y"), Variable("z")]
VALUES = {v: Column(np.array([1.5, -0.5, 2.0]) + i, SCOPE.now) for i, v in enumerate(VARIABLES)}
PLAIN = {v: c.data for v, c in VALUES.items()}
NUMBERS = st.sampled_from([0.0, 1.0, -2.0, 0.5])
LANES = np.array([True, False, True])


@st.composite
def expressions(draw, depth: int = 4):
    """An expression and its value in three lanes."""
    kind = draw(
        st.sampled_from(
            ["number", "column", "variable"] + ["add", "sub", "mul", "div", "select", "ite"] * (depth > 0)
        )
    )
    if kind == "number":
        number = draw(NUMBERS)
        return number, np.full(3, number)
    if kind == "column":
        data = np.array([draw(NUMBERS) for _ in range(3)])
        return Column(data, SCOPE.now), data
    if kind == "variable":
        variable = draw(st.sampled_from(VARIABLES))
        return of(variable), PLAIN[variable]
    (a, va), (b, vb) = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    if kind == "div":
        divisor = draw(st.sampled_from([2.0, -0.5]))
        return div(a, divisor), va / divisor
    if kind == "select":
        return select(LANES, a, b, SCOPE.now), np.where(LANES, va, vb)
    if kind == "ite":
        test, _ = operation("lt", (of(VARIABLES[0]), 1.0)), None
        return ite(test, a, b), np.where(PLAIN[VARIABLES[0]] < 1.0, va, vb)
    return {"add": add, "sub": sub, "mul": mul}[kind](a, b), {"add": va + vb, "sub": va - vb, "mul": va * vb}[
        kind
    ]


@given(expressions())
def test_any_form_has_the_value_of_plain_arithmetic(case) -> None:
    expr, value = case
    known = substitute(expr, VALUES)
    assert not variables(known)
    np.testing.assert_allclose(np.broadcast_to(raw(known), (3,)), value, rtol=1e-9, atol=1e-9)


@given(expressions())
def test_affine_parts_rebuild_the_expression(case) -> None:
    expr, value = case
    x = VARIABLES[0]
    parts = affine(expr, x)
    if parts is not None:
        slope, rest = parts
        assert x not in variables(slope, rest)
        rebuilt = substitute(add(mul(slope, of(x)), rest), VALUES)
        np.testing.assert_allclose(np.broadcast_to(raw(rebuilt), (3,)), value, rtol=1e-9, atol=1e-9)


def test_equal_expressions_look_equal() -> None:
    x, y = of(VARIABLES[0]), of(VARIABLES[1])
    a = add(mul(2.0, add(x, y)), 3.0)
    b = add(add(add(1.0, y), add(mul(2.0, x), 2.0)), y)
    assert isinstance(a, Poly) and isinstance(b, Poly)
    assert a.terms == b.terms
    assert sub(x, x) == 0.0


def test_one_over_a_choice_is_a_choice() -> None:
    x, y = of(VARIABLES[0]), of(VARIABLES[1])
    inverse = div(1.0, select(LANES, x, y, SCOPE.now))
    assert isinstance(inverse, Poly)
    assert isinstance(div(1.0, add(x, y)), Op)
    value = raw(substitute(inverse, VALUES))
    np.testing.assert_allclose(value, 1 / np.where(LANES, PLAIN[VARIABLES[0]], PLAIN[VARIABLES[1]]))


@pytest.mark.parametrize("flag", [True, False])
def test_booleans_add_as_numbers(flag: bool) -> None:
    column = Column(np.array([flag, True, False]), SCOPE.now)
    np.testing.assert_array_equal(raw(add(column, column)), [2.0 * flag, 2.0, 0.0])
