"""Python functions that programs can call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from siren.syntax.builtins import FUNCTIONS, FunctionInfo

F = TypeVar("F", bound=Callable[..., Any])


def register(function: F, name: str | None = None) -> F:
    """Make a function part of the language, under its own name or another. Also a decorator.

    It gets numbers, or NumPy arrays with one entry per particle, and gives the same; it should have no side
    effects. Given a random variable it stays an expression, like `exp`, until the value is needed.
    """
    from siren.runtime import library
    from siren.symbolic import algebra

    name = name or function.__name__
    if name in FUNCTIONS and name not in _REGISTERED:
        raise ValueError(f"`{name}` is a function of the language")
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
        raise ValueError(f"`{name}` must have a fixed number of arguments")
    algebra.FUNCTIONS[name] = function
    library.FUNCTIONS[name] = lambda *arguments: algebra.operation(name, arguments)
    summary = (function.__doc__ or "a Python function").strip().splitlines()[0]
    FUNCTIONS[name] = FunctionInfo(tuple(p.name for p in parameters), summary)
    _REGISTERED.add(name)
    return function


_REGISTERED: set[str] = set()
