"""`siren fmt`: one layout for every program, comments and single blank lines kept.

A program is a sequence of statements (`val`, `let`, the final expression), one to a line; a form that does
not fit is broken at its outermost brackets. Comments travel in a queue in source order: each goes before
the statement that follows it, or at the end of the line that it ends. One inside an expression moves out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from siren.errors import Span
from siren.syntax import ast
from siren.syntax.depth import deep_recursion
from siren.syntax.parser import parse
from siren.syntax.printer import (
    ATOM,
    annotation_prefix,
    binding,
    field_label,
    field_suffix,
    flat,
    flat_distribution,
    flat_pattern,
    operand_level,
    operand_levels,
    record_opening,
    unary_prefix,
)
from siren.syntax.traverse import walk

WIDTH: Final = 100
_INDENT: Final = "  "
_STRING_OR_COMMENT: Final = re.compile(r'"[^"\n]*"|\(\*(?:.|\n)*?\*\)|#[^\n]*')
_END: Final = (1 << 60, 0)

Position = tuple[int, int]
Lines = list[str]


def format_text(text: str, name: str = "<program>") -> str:
    """The program laid out anew. Raises `ParseError` as `parse` does."""
    return format_program(parse(text, name))


def format_program(program: ast.Program) -> str:
    """Lay out a program; comments come from its source text, and there are none without."""
    with deep_recursion():
        return "\n".join(_Formatter(program).run()) + "\n"


@dataclass(frozen=True, slots=True)
class _Comment:
    position: Position
    text: str
    after_code: bool


class _Formatter:
    def __init__(self, program: ast.Program) -> None:
        self.program = program
        self.source_lines = program.source.text.splitlines()
        self.comments = _comments(program.source.text)

    def run(self) -> Lines:
        out: Lines = []
        starts = [function.span for function in self.program.functions[1:]] + [self.program.body.span]
        for function, following in zip(self.program.functions, starts, strict=False):
            out += [*self._function(function, _start(following)), ""]
        out += self._block(self.program.body, WIDTH, _END)
        out += [comment.text for comment in self.comments]
        return out

    def _function(self, function: ast.Function, limit: Position) -> Lines:
        # Comments between the header and the body are about the body: leave them to it.
        lead = self._take_before(_start(function.span))
        body = self._block(function.body, WIDTH - len(_INDENT), limit)
        head = f"val {function.name} = fun {flat_pattern(function.parameters)} ->"
        if (
            len(body) == 1
            and len(head) + len(body[0]) + 4 <= WIDTH
            and not _STRING_OR_COMMENT.search(body[0])
        ):
            return [*lead, f"{head} {body[0]} in"]
        return [*lead, head, *_indented(body), "in"]

    def _block(self, expr: ast.Expr, width: int, limit: Position) -> Lines:
        """A sequence of statements and the expression that ends it."""
        out: Lines = []
        while isinstance(expr, ast.Let | ast.Assume):
            out += self._gap(expr.span, first=not out)
            # The body's span may start inside a parenthesis; nothing before it belongs to this statement.
            out += self._statement(expr, width, _start(expr.body.span))
            expr = expr.body
        out += self._gap(expr.span, first=not out)
        return out + self._final(expr, width, limit)

    def _statement(self, expr: ast.Let | ast.Assume, width: int, limit: Position) -> Lines:
        lead = self._take_before(_start(expr.span))
        if isinstance(expr, ast.Assume):
            head = f"let {annotation_prefix(expr)}{expr.name} <-"
            one_line = f"{head} {flat_distribution(expr.distribution)} in"
            inner, tail = self._interior(expr.distribution.span, limit)
            if len(one_line) <= width:
                return [*lead, *inner, *_with_tail([one_line], tail)]
            broken = self._bracketed(expr.distribution.name + "(", expr.distribution.arguments, ")", width)
            return [*lead, *inner, *_with_tail(_joined(f"{head} ", broken, " in"), tail)]
        head = f"let {flat_pattern(expr.pattern)} ="
        if _has_statements(expr.value) or (
            isinstance(expr.value, ast.If) and not _fits(expr.value, width, head)
        ):
            value = self._block(expr.value, width - len(_INDENT), limit)
            return [*lead, head, *_indented(value), "in"]
        inner, tail = self._interior(expr.value.span, limit)
        lines = self._lines(expr.value, width - 3, len(head) + 1)
        return [*lead, *inner, *_with_tail(_joined(f"{head} ", lines, " in"), tail)]

    def _final(self, expr: ast.Expr, width: int, limit: Position) -> Lines:
        lead = self._take_before(_start(expr.span))
        if _has_statements(expr) or (isinstance(expr, ast.If) and not _fits(expr, width)):
            return [*lead, *self._broken(expr, width, limit)]
        inner, tail = self._interior(expr.span, limit)
        return [*lead, *inner, *_with_tail(self._lines(expr, width, 0), tail)]

    # Layout of one expression

    def _lines(self, expr: ast.Expr, width: int, used: int = 0, level: int = 0) -> Lines:
        """One line if it fits beside what is `used` already, else broken at the outermost form."""
        if not _has_statements(expr):
            text = flat(expr, level)
            if used + len(text) <= width:
                return [text]
        # What follows the expression goes on its last line: no comment from after its end may be there.
        lines = self._broken(expr, width, (expr.span.end_line, expr.span.end_column))
        if binding(expr) < level:
            return ["(", *_indented(lines), ")"]
        return lines

    def _broken(self, expr: ast.Expr, width: int, limit: Position) -> Lines:
        match expr:
            case ast.Let() | ast.Assume():
                return self._block(expr, width, limit)
            case ast.If(condition, then, otherwise):
                return self._if(condition, then, otherwise, width, limit)
            case ast.Tuple(items):
                return self._bracketed("(", items, ")", width)
            case ast.List(items) if items:
                return self._bracketed("[", items, "]", width)
            case ast.Call(function, arguments) if arguments:
                return self._bracketed(f"{function}(", arguments, ")", width)
            case ast.Fold(function, elements, start):
                return self._bracketed("fold(", (function, elements, start), ")", width)
            case ast.Record(names, values):
                labels = [f"{field_label(name)} = " for name in names]
                return self._bracketed(record_opening(expr).rstrip(), values, "}", width, labels)
            case ast.Field(record, name):
                return _joined("", self._lines(record, width, len(name) + 1, ATOM), field_suffix(name))
            case ast.Lambda(parameters, body):
                lines = self._block(body, width - len(_INDENT), limit)
                return [f"fun {flat_pattern(parameters)} ->", *_indented(lines)]
            case ast.Observe(distribution, value):
                call = ast.Call(distribution.name, distribution.arguments, distribution.span)
                return self._bracketed("observe(", (call, value), ")", width)
            case ast.Unary(operator, operand):
                prefix = unary_prefix(operator)
                return _joined(prefix, self._lines(operand, width, len(prefix), operand_level(operator)), "")
            case ast.Binary():
                return self._chain(expr, width)
            case _:
                return [flat(expr)]

    def _chain(self, expr: ast.Binary, width: int) -> Lines:
        """`a + b - c ...`: as much on a line as it takes, an operator at the end of every line but one."""
        first, rest = _operands(expr)
        out = self._lines(first[0], width, 0, first[1])
        for operator, operand, level in rest:
            lines = self._lines(operand, width - len(_INDENT), 0, level)
            if len(lines) == 1 and len(out[-1]) + len(operator) + len(lines[0]) + 2 <= width:
                out[-1] += f" {operator} {lines[0]}"
            else:
                out[-1] += f" {operator}"
                out += _indented(lines)
        return out

    def _if(
        self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr, width: int, limit: Position
    ) -> Lines:
        inner = width - len(_INDENT)
        test = self._lines(condition, width - 5, 3)
        out = _joined("if ", test, " then")
        out += _indented(self._block(then, inner, _start(otherwise.span)))
        if isinstance(otherwise, ast.If):
            pending = list(self.comments)
            chained = self._final(otherwise, width, limit)
            if not chained[0].startswith(("#", "(*")):
                return out + _joined("else ", chained, "")
            self.comments = pending  # a comment comes first: it needs a line of its own
        return [*out, "else", *_indented(self._block(otherwise, inner, limit))]

    def _bracketed(
        self,
        opening: str,
        items: tuple[ast.Expr, ...],
        closing: str,
        width: int,
        labels: Sequence[str] = (),
    ) -> Lines:
        out = [opening]
        for index, item in enumerate(items):
            label = labels[index] if labels else ""
            lines = _joined(label, self._lines(item, width - len(_INDENT) - 1, len(label)), "")
            if index < len(items) - 1:
                lines[-1] += ","
            out += _indented(lines)
        return [*out, closing]

    # Comments and blank lines

    def _take_before(self, position: Position) -> Lines:
        taken: Lines = []
        while self._comment_before(position):
            taken.append(self.comments.pop(0).text)
        return taken

    def _comment_before(self, position: Position) -> bool:
        return bool(self.comments) and self.comments[0].position < position

    def _interior(self, span: Span, limit: Position) -> tuple[Lines, str]:
        """Comments inside a form that goes on one line: before its last line, and after its end."""
        inner: Lines = []
        tail: Lines = []
        may_trail = limit > (span.end_line, span.end_column)
        while self._comment_before(limit):
            comment = self.comments[0]
            if comment.position[0] < span.end_line or not may_trail:
                inner.append(comment.text)
            elif comment.position[0] == span.end_line and comment.after_code and "\n" not in comment.text:
                tail.append(comment.text)
            else:
                break
            self.comments.pop(0)
        return inner, "  ".join(tail)

    def _gap(self, span: Span, first: bool) -> Lines:
        line = min(span.line, self.comments[0].position[0]) if self.comments else span.line
        blank = 2 <= line <= len(self.source_lines) + 1 and not self.source_lines[line - 2].strip()
        return [""] if blank and not first else []


def _comments(text: str) -> list[_Comment]:
    out = []
    for match in _STRING_OR_COMMENT.finditer(text):
        if match.group().startswith('"'):
            continue
        line_start = text.rfind("\n", 0, match.start()) + 1
        line = text.count("\n", 0, match.start()) + 1
        before = text[line_start : match.start()]
        out.append(
            _Comment((line, match.start() - line_start + 1), match.group().rstrip(), bool(before.strip()))
        )
    return out


def _operands(expr: ast.Binary) -> tuple[tuple[ast.Expr, int], list[tuple[str, ast.Expr, int]]]:
    """A chain of operators that bind alike: the first operand, then operators and operands with levels."""
    level = binding(expr)
    rest: list[tuple[str, ast.Expr, int]] = []
    current: ast.Expr = expr
    if expr.operator == "::":
        first_level, rest_level = operand_levels("::")
        first = expr.left
        while isinstance(current, ast.Binary) and current.operator == "::":
            following = current.right
            chained = isinstance(following, ast.Binary) and following.operator == "::"
            operand = following.left if chained and isinstance(following, ast.Binary) else following
            rest.append(("::", operand, first_level if chained else rest_level))
            current = following
        return (first, first_level), rest
    while isinstance(current, ast.Binary) and binding(current) == level:
        left_level, right_level = operand_levels(current.operator)
        rest.append((current.operator, current.right, right_level))
        current = current.left
        if left_level > level:  # comparisons do not chain
            break
    return (current, left_level), rest[::-1]


def _start(span: Span) -> Position:
    return (span.line, span.column)


def _fits(expr: ast.Expr, width: int, head: str = "") -> bool:
    return len(head) + len(flat(expr)) + 4 <= width


def _has_statements(expr: ast.Expr) -> bool:
    """Whether a `let` or `<-` occurs anywhere inside; such a form is never put on one line."""
    return any(isinstance(part, (ast.Let, ast.Assume)) for part in walk(expr))


def _indented(lines: Lines) -> Lines:
    return [_INDENT + line if line else line for line in lines]


def _joined(prefix: str, lines: Lines, suffix: str) -> Lines:
    out = [prefix + lines[0], *lines[1:]]
    out[-1] += suffix
    return out


def _with_tail(lines: Lines, tail: str) -> Lines:
    return _joined("", lines, f"  {tail}") if tail else lines
