"""What the language knows by name: distributions, library functions and the operators' function names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siren.syntax.ast import BinaryOperator


@dataclass(frozen=True, slots=True)
class DistributionInfo:
    """`parameters` name the arguments in order, for messages and documentation."""

    parameters: tuple[str, ...]
    meaning: str


DISTRIBUTIONS: Final[dict[str, DistributionInfo]] = {
    "gaussian": DistributionInfo(("mean", "variance"), "normal, by its variance"),
    "beta": DistributionInfo(("a", "b"), "beta"),
    "bernoulli": DistributionInfo(("p",), "true with probability p"),
    "binomial": DistributionInfo(("n", "p"), "successes in n trials"),
    "beta_binomial": DistributionInfo(("n", "a", "b"), "binomial with p ~ beta(a, b) integrated out"),
    "negative_binomial": DistributionInfo(("n", "p"), "failures before the n-th success"),
    "exponential": DistributionInfo(("rate",), "gamma(1, rate)"),
    "gamma": DistributionInfo(("shape", "rate"), "gamma, by its rate"),
    "poisson": DistributionInfo(("rate",), "Poisson"),
    "delta": DistributionInfo(("value",), "a constant"),
    "categorical": DistributionInfo(("low", "high", "probabilities"), "integers low..high, both included"),
    "uniform_int": DistributionInfo(("low", "high"), "integers low..high, both included, all alike"),
    "student_t": DistributionInfo(("location", "scale_squared", "degrees"), "Student's t, degrees > 1"),
}


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
    "List.hd": FunctionInfo(("list",), "the first element"),
    "List.tl": FunctionInfo(("list",), "all but the first element"),
    "List.len": FunctionInfo(("list",), "the number of elements"),
    "List.range": FunctionInfo(("low", "high"), "low, low+1, ..., high-1"),
    "List.rev": FunctionInfo(("list",), "the elements in reverse"),
    "List.map": FunctionInfo(("function", "list"), "the function of every element"),
    "File.read": FunctionInfo(("path",), "the rows of a CSV file without its header, each a list"),
}

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
