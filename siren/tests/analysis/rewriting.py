"""The same program written differently: other names, another order, values that are named first."""

from __future__ import annotations

import dataclasses
from itertools import count
from random import Random
from typing import Any

from siren.syntax import ast
from siren.syntax.traverse import random_variables

_NAMED = (ast.Name, ast.NamePattern, ast.Assume, ast.Function)
_CALLING = (ast.Call, ast.Fold)


def _rebuilt(node: Any, change: Any) -> Any:
    """The tree with every node changed, from the leaves up."""
    if isinstance(node, tuple):
        return tuple(_rebuilt(item, change) for item in node)
    if not dataclasses.is_dataclass(node) or type(node).__module__ != ast.__name__:
        return node
    fields = {f.name: _rebuilt(getattr(node, f.name), change) for f in dataclasses.fields(node)}
    return change(type(node)(**fields))


def renamed(program: ast.Program, rng: Random) -> tuple[ast.Program, dict[str, str]]:
    """Every name that the program binds is another one; functions come in another order."""
    names: dict[str, str] = {}

    def note(node: Any) -> Any:
        if isinstance(node, (ast.NamePattern, ast.Assume, ast.Function)):
            names.setdefault(node.name, f"{rng.choice('abcxyz')}_{len(names)}")
        return node

    def rename(node: Any) -> Any:
        if isinstance(node, _NAMED) and node.name in names:
            return dataclasses.replace(node, name=names[node.name])
        if isinstance(node, _CALLING) and node.function in names:
            return dataclasses.replace(node, function=names[node.function])
        return node

    _rebuilt(program, note)
    program = _rebuilt(program, rename)
    functions = list(program.functions)
    rng.shuffle(functions)
    return dataclasses.replace(program, functions=tuple(functions)), names


def floated(program: ast.Program, rng: Random) -> ast.Program:
    """Parameters of distributions and observed values often get a name of their own first."""
    fresh = count()

    def named(arguments: tuple[ast.Expr, ...]) -> tuple[tuple[ast.Expr, ...], list[tuple[str, ast.Expr]]]:
        kept, bound = [], []
        for argument in arguments:
            if rng.random() < 0.6:
                name = f"t_{next(fresh)}"
                bound.append((name, argument))
                argument = ast.Name(name)
            kept.append(argument)
        return tuple(kept), bound

    def wrap(node: ast.Expr, bound: list[tuple[str, ast.Expr]]) -> ast.Expr:
        for name, value in reversed(bound):
            node = ast.Let(ast.NamePattern(name), value, node)
        return node

    def change(node: Any) -> Any:
        if isinstance(node, (ast.Assume, ast.Observe)):
            arguments, bound = named(node.distribution.arguments)
            distribution = dataclasses.replace(node.distribution, arguments=arguments)
            return wrap(dataclasses.replace(node, distribution=distribution), bound)
        return node

    return _rebuilt(program, change)  # type: ignore[no-any-return]


def rewritten(program: ast.Program, seed: int) -> tuple[ast.Program, dict[str, str]]:
    rng = Random(seed)
    other, names = renamed(floated(program, rng), rng)
    return other, {name: names[name] for name in random_variables(program)}
