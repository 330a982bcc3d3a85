"""Ways through a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator

from siren.syntax import ast
from siren.syntax.memo import Memo


def children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The expressions directly inside an expression, those of its distribution included."""
    match expr:
        case ast.Tuple(items) | ast.List(items) | ast.Call(_, items):
            return items
        case ast.Unary(_, inner) | ast.Field(inner) | ast.Lambda(_, inner):
            return (inner,)
        case ast.Record(_, values, base):
            return values if base is None else (base, *values)
        case ast.Binary(_, left, right):
            return (left, right)
        case ast.Fold(function, elements, start):
            return (function, elements, start)
        case ast.If(condition, then, otherwise):
            return (condition, then, otherwise)
        case ast.Let(_, value, body):
            return (value, body)
        case ast.Assume(_, _, distribution, body):
            return (*distribution.arguments, body)
        case ast.Observe(distribution, value):
            return (*distribution.arguments, value)
        case _:
            return ()


def pattern_names(pattern: ast.Pattern) -> Iterator[ast.NamePattern]:
    """The names that a pattern binds, in source order."""
    match pattern:
        case ast.NamePattern():
            yield pattern
        case ast.TuplePattern(items) | ast.RecordPattern(_, items):
            for item in items:
                yield from pattern_names(item)


def walk(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression and everything inside it, in source order, without recursion."""
    stack = [expr]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def everything(program: ast.Program) -> Iterator[ast.Expr]:
    """Every expression of a program, in the order of its text."""
    for function in program.functions:
        yield from walk(function.body)
    yield from walk(program.body)


def random_variables(program: ast.Program) -> tuple[str, ...]:
    """The names of a program's random variables in the order of its text, each once."""
    return _MEMO.once(program, _random_variables)


def _random_variables(program: ast.Program) -> tuple[str, ...]:
    names = (expr.name for expr in everything(program) if isinstance(expr, ast.Assume))
    return tuple(dict.fromkeys(names))


_MEMO = Memo()
