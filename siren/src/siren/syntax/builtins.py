"""What the language knows by name: library functions and the operators' function names. Its distributions are
in `siren.distributions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siren.syntax.ast import BinaryOperator


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """`parameters` is None for a function of any number of arguments."""

    parameters: tuple[str, ...] | None
    meaning: str


FUNCTIONS: Final[dict[str, FunctionInfo]] = {
    "add": FunctionInfo(("a", "b"), "a + b"),
    "sub": FunctionInfo(("a", "b"), "a - b"),
    "mul": FunctionInfo(("a", "b"), "a * b"),
    "div": FunctionInfo(("a", "b"), "a / b"),
    "eq": FunctionInfo(("a", "b"), "a = b"),
    "lt": FunctionInfo(("a", "b"), "a < b"),
    "cons": FunctionInfo(("head", "tail"), "head :: tail"),
    "pair": FunctionInfo(("a", "b"), "(a, b)"),
    "lst": FunctionInfo(None, "the list of its arguments"),
    "exp": FunctionInfo(("x",), "the exponential"),
    "log": FunctionInfo(("x",), "the natural logarithm"),
    "sqrt": FunctionInfo(("x",), "the square root"),
    "sin": FunctionInfo(("x",), "the sine of an angle in radians"),
    "cos": FunctionInfo(("x",), "the cosine of an angle in radians"),
    "tan": FunctionInfo(("x",), "the tangent of an angle in radians"),
    "atan2": FunctionInfo(("y", "x"), "the angle of the point (x, y), between -pi and pi"),
    "pow": FunctionInfo(("x", "n"), "x to the power of n"),
    "floor": FunctionInfo(("x",), "the largest whole number that is not above x"),
    "abs": FunctionInfo(("x",), "the absolute value"),
    "min": FunctionInfo(("a", "b"), "the smaller"),
    "max": FunctionInfo(("a", "b"), "the larger"),
    "dot": FunctionInfo(("a", "b"), "the sum of the products of two lists"),
    "transpose": FunctionInfo(("matrix",), "rows become columns"),
    "inverse": FunctionInfo(("matrix",), "the inverse of a square matrix of known numbers"),
    "identity": FunctionInfo(("n",), "the identity matrix of n rows"),
    "diagonal": FunctionInfo(("entries",), "the matrix of this diagonal"),
    "List.hd": FunctionInfo(("list",), "the first element"),
    "List.tl": FunctionInfo(("list",), "all but the first element"),
    "List.nth": FunctionInfo(("list", "place"), "the element at a place, the first at 0: `list[place]`"),
    "List.len": FunctionInfo(("list",), "the number of elements"),
    "List.range": FunctionInfo(("low", "high"), "low, low+1, ..., high-1"),
    "List.rev": FunctionInfo(("list",), "the elements in reverse"),
    "List.map": FunctionInfo(("function", "list"), "the function of every element"),
    "List.filter": FunctionInfo(("function", "list"), "the elements for which the function is true"),
    "File.read": FunctionInfo(("path",), "the rows of a CSV file, with the columns of its header: `row.x`"),
}

# Their first argument is a function.
WITH_FUNCTIONS: Final = frozenset({"List.map", "List.filter"})

# These names call an operator. A program may define functions of the same names, which then win.
OPERATOR_FUNCTIONS: Final[dict[str, BinaryOperator]] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "eq": "=",
    "lt": "<",
    "cons": "::",
}

KEYWORDS: Final = frozenset(
    "val fun let in if then else true false nil not fold observe resample sample symbolic".split()
)
