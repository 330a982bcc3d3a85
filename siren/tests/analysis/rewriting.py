"""The same program written differently: other names, another order, values that are named first."""

from __future__ import annotations

import dataclasses
from itertools import count
from random import Random
from typing import Any

from siren.syntax import ast
from siren.syntax.traverse import random_variables, walk

_NAMED = (ast.Name, ast.NamePattern, ast.Assume, ast.Function)


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
        if isinstance(node, ast.Call) and node.function in names:
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


def nameless(program: ast.Program) -> ast.Program:
    """The same program without named functions: one that is given to a loop is written there, one that is
    called is bound to a name of the caller first. Functions that call themselves stay."""
    functions = {function.name: function for function in program.functions}
    lambdas: dict[str, ast.Lambda] = {}

    def function(name: str) -> ast.Lambda:
        if name not in lambdas:
            found = functions[name]
            lambdas[name] = ast.Lambda(found.parameters, _called(_rebuilt(found.body, change)))
        return lambdas[name]

    def change(node: Any) -> Any:
        if (
            isinstance(node, ast.Fold)
            and isinstance(node.function, ast.Name)
            and node.function.name in functions
        ):
            return dataclasses.replace(node, function=function(node.function.name))
        if isinstance(node, ast.Call) and node.function == "List.map":
            given, elements = node.arguments
            if isinstance(given, ast.Name) and given.name in functions:
                return dataclasses.replace(node, arguments=(function(given.name), elements))
        return node

    def _called(body: ast.Expr) -> ast.Expr:
        """Bind what the body calls."""
        names = {node.function for node in walk(body) if isinstance(node, ast.Call)} & set(functions)
        for name in sorted(names):
            body = ast.Let(ast.NamePattern(name), function(name), body)
        return body

    body = _called(_rebuilt(program.body, change))
    return dataclasses.replace(program, functions=(), body=body)
