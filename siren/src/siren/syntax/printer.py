"""Syntax tree to text on one line: what `parse` would read back as the same tree.

`flat` is the whole truth about precedence and parentheses; the formatter uses it where a form fits on a line.
"""

from __future__ import annotations

import re
from typing import Final

from siren.syntax import ast
from siren.syntax.builtins import KEYWORDS

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_']*")

_LEVELS: Final[dict[str, int]] = {
    "||": 1, "&&": 2,
    "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "::": 5, "+": 6, "-": 6, "*": 7, "/": 7,
}  # fmt: skip
_NOT, _COMPARE, _CONS, _NEGATE, ATOM = 3, 4, 5, 8, 9


def flat(expr: ast.Expr, level: int = 0) -> str:
    """The expression on one line, in parentheses if it binds looser than its surroundings."""
    text = _flat(expr)
    return f"({text})" if binding(expr) < level else text


def flat_pattern(pattern: ast.Pattern) -> str:
    match pattern:
        case ast.NamePattern(name):
            return name
        case ast.WildcardPattern():
            return "_"
        case ast.UnitPattern():
            return "()"
        case ast.TuplePattern(items):
            return f"({', '.join(flat_pattern(item) for item in items)})"
        case ast.RecordPattern(names, patterns):
            fields = [_field_pattern(*field) for field in zip(names, patterns, strict=True)]
            return f"{{{', '.join(fields)}}}"


def _field_pattern(name: str, pattern: ast.Pattern) -> str:
    if pattern == ast.NamePattern(name):
        return name
    return f"{field_label(name)} = {flat_pattern(pattern)}"


def field_label(name: str) -> str:
    """A field as it is written in a record."""
    return name if _PLAIN.fullmatch(name) and name not in KEYWORDS and name != "_" else f'"{name}"'


def field_suffix(name: str) -> str:
    return f".{name}" if _PLAIN.fullmatch(name) else f'."{name}"'


def record_opening(record: ast.Record) -> str:
    return "{" if record.base is None else f"{{{flat(record.base)} with "


def flat_distribution(distribution: ast.Distribution) -> str:
    return f"{distribution.name}({_commas(distribution.arguments)})"


def number_text(number: ast.Number) -> str:
    if number.text is not None:
        return number.text
    text = repr(number.value)
    return text[:-1] if text.endswith(".0") else text


def binding(expr: ast.Expr) -> int:
    """How tightly the outermost form holds together; open forms (`let`, `if`, `fun`) hold least."""
    match expr:
        case ast.Let() | ast.Assume() | ast.If() | ast.Lambda():
            return 0
        case ast.Binary(operator):
            return _LEVELS[operator]
        case ast.Unary("not"):
            return _NOT
        case ast.Unary():
            return _NEGATE
        case _:
            return ATOM


def operand_levels(operator: ast.BinaryOperator) -> tuple[int, int]:
    """The least binding that the left and the right operand need to go without parentheses."""
    level = _LEVELS[operator]
    if level == _COMPARE:
        return level + 1, level + 1
    return (level + 1, level) if level == _CONS else (level, level + 1)


def operand_level(operator: ast.UnaryOperator) -> int:
    return _NOT if operator == "not" else _NEGATE


def unary_prefix(operator: ast.UnaryOperator) -> str:
    return "not " if operator == "not" else "-"


def annotation_prefix(assume: ast.Assume) -> str:
    return f"{assume.annotation} " if assume.annotation else ""


def _flat(expr: ast.Expr) -> str:
    match expr:
        case ast.Number():
            return number_text(expr)
        case ast.Boolean(value):
            return "true" if value else "false"
        case ast.String(value):
            return f'"{value}"'
        case ast.Unit():
            return "()"
        case ast.Name(name):
            return name
        case ast.Tuple(items):
            return f"({_commas(items)})"
        case ast.List(items):
            return f"[{_commas(items)}]"
        case ast.Unary(operator, operand):
            return unary_prefix(operator) + flat(operand, operand_level(operator))
        case ast.Binary():
            return _flat_binary(expr)
        case ast.Call("List.nth", (elements, place)):
            return f"{flat(elements, ATOM)}[{flat(place)}]"
        case ast.Call(function, arguments):
            return f"{function}({_commas(arguments)})"
        case ast.Fold(function, elements, start):
            return f"fold({flat(function)}, {flat(elements)}, {flat(start)})"
        case ast.Record(names, values):
            fields = [f"{field_label(n)} = {flat(v)}" for n, v in zip(names, values, strict=True)]
            return f"{record_opening(expr)}{', '.join(fields)}}}"
        case ast.Field(record, name):
            return f"{flat(record, ATOM)}{field_suffix(name)}"
        case ast.Lambda(parameters, body):
            return f"fun {flat_pattern(parameters)} -> {flat(body)}"
        case ast.If(condition, then, otherwise):
            return f"if {flat(condition)} then {flat(then)} else {flat(otherwise)}"
        case ast.Let(pattern, value, body):
            return f"let {flat_pattern(pattern)} = {flat(value)} in {flat(body)}"
        case ast.Assume(_, name, distribution, body):
            head = f"let {annotation_prefix(expr)}{name} <- {flat_distribution(distribution)}"
            return f"{head} in {flat(body)}"
        case ast.Observe(distribution, value):
            return f"observe({flat_distribution(distribution)}, {flat(value)})"
        case ast.Resample():
            return "resample()"


def _flat_binary(expr: ast.Binary) -> str:
    """A loop down the left side, which is as deep as a sum is long."""
    ends: list[str] = []
    current: ast.Expr = expr
    level = 0
    while isinstance(current, ast.Binary) and binding(current) >= level:
        level, right_level = operand_levels(current.operator)
        ends.append(f" {current.operator} {flat(current.right, right_level)}")
        current = current.left
    return flat(current, level) + "".join(reversed(ends))


def _commas(items: tuple[ast.Expr, ...]) -> str:
    return ", ".join(flat(item) for item in items)
