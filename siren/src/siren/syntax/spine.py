"""The main expression as a block: its `let`s and assumptions one after another, then its last expression."""

from __future__ import annotations

from dataclasses import replace

from siren.syntax import ast

# A name that no program can spell.
_RESULT = "(fold)"


def spine(program: ast.Program) -> list[ast.Expr]:
    nodes = [program.body]
    while isinstance(nodes[-1], ast.Let | ast.Assume):
        nodes.append(nodes[-1].body)
    return nodes


def main_fold(program: ast.Program) -> ast.Expr | None:
    """The last `let` of the block whose value is a fold, or its last expression if that is one."""
    return next((node for node in reversed(spine(program)) if isinstance(_value(node), ast.Fold)), None)


def floated(program: ast.Program) -> ast.Program:
    """The same program with a `let` of its own for the last fold of the block, if that is inside of an
    expression: `List.rev(fold(f, l, s))` is `let r = fold(f, l, s) in List.rev(r)`."""
    nodes = spine(program)
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        value = _value(node)
        if isinstance(value, ast.Fold):
            return program
        fold = None if value is None else _inside(value)
        if value is None or fold is None:
            continue
        rest = _replaced(value, fold)
        inner = replace(node, value=rest) if isinstance(node, ast.Let) else rest
        body: ast.Expr = ast.Let(ast.NamePattern(_RESULT, fold.span), fold, inner, fold.span)
        for outer in reversed(nodes[:place]):
            assert isinstance(outer, ast.Let | ast.Assume)
            body = replace(outer, body=body)
        return replace(program, body=body)
    return program


def _value(node: ast.Expr) -> ast.Expr | None:
    if isinstance(node, ast.Assume):
        return None
    return node.value if isinstance(node, ast.Let) else node


def _inside(expr: ast.Expr) -> ast.Fold | None:
    """A fold that is run whenever the expression is."""
    if isinstance(expr, ast.Fold):
        return expr
    return next((found for part in _parts(expr) if (found := _inside(part)) is not None), None)


def _parts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    match expr:
        case ast.Tuple(items) | ast.List(items) | ast.Call(_, items):
            return items
        case ast.Unary(_, operand):
            return (operand,)
        case ast.Binary(_, left, right):
            return (left, right)
        case _:
            return ()


def _replaced(expr: ast.Expr, fold: ast.Fold) -> ast.Expr:
    if expr is fold:
        return ast.Name(_RESULT, fold.span)
    parts = tuple(_replaced(part, fold) for part in _parts(expr))
    match expr:
        case ast.Tuple() | ast.List():
            return replace(expr, items=parts)
        case ast.Call():
            return replace(expr, arguments=parts)
        case ast.Unary():
            return replace(expr, operand=parts[0])
        case ast.Binary():
            return replace(expr, left=parts[0], right=parts[1])
        case _:
            return expr
