"""Text to syntax tree, with errors that say what was expected and what to do."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from siren.errors import DataError, ParseError, Source, Span
from siren.syntax import ast
from siren.syntax.explain import explain, span_of


def parse(text: str, name: str = "<program>") -> ast.Program:
    """Parse a whole program. Raises `ParseError` with the place and a hint."""
    source = Source(name, text)
    try:
        tree = cast(ast.Program, _TreeBuilder().transform(_lark().parse(text)))
    except UnexpectedInput as error:
        raise explain(error, source, _lark()) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ParseError):
            raise error.orig_exc.with_source(source) from None
        raise
    return ast.Program(tree.functions, tree.body, tree.span, source)


def parse_file(path: str | Path) -> ast.Program:
    """Parse the program in a file."""
    return parse(read_program(path), str(path))


def read_program(path: str | Path) -> str:
    """The text of a program, less the mark that some editors put in front of it."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", hint="check the path to the program") from None
    except UnicodeDecodeError as error:
        what = f"cannot read {path}: byte {error.start + 1} is not UTF-8"
        raise DataError(what, hint="save the program as UTF-8 text") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from None


@cache
def _lark() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start="program", propagate_positions=True, maybe_placeholders=True)


@v_args(meta=True)
class _TreeBuilder(Transformer_NonRecursive[Token, Any]):
    """One method per grammar rule, called bottom up. Not recursive: a long chain of `let` is no problem."""

    def program(self, meta: Meta, children: list[Any]) -> ast.Program:
        *functions, body = children
        return ast.Program(tuple(functions), body, span_of(meta))

    def function(self, meta: Meta, children: list[Any]) -> ast.Function:
        _, name, _, parameters, body, _ = children
        return ast.Function(str(name), parameters, body, span_of(meta), span_of(name))

    # Patterns

    def name_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.NamePattern(str(children[0]), span_of(meta))

    def wildcard_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.WildcardPattern(span_of(meta))

    def unit_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.UnitPattern(span_of(meta))

    def tuple_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.TuplePattern(tuple(children), span_of(meta))

    def record_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        names, patterns = zip(*children, strict=True)
        return ast.RecordPattern(names, patterns, span_of(meta))

    def field_pattern(self, meta: Meta, children: list[Any]) -> tuple[str, ast.Pattern]:
        token, _, pattern = children
        name = _field_name(token)
        if pattern is None and token.type == "STRING":
            raise ParseError(
                f"`{token}` cannot be a name of the program", span_of(token), f"bind it: `{token} = name`"
            )
        return name, pattern or ast.NamePattern(name, span_of(token))

    def grouped_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return cast(ast.Pattern, children[0])

    # Leaves

    def name(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Name(str(children[0]), span_of(meta))

    def qualified(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Name(str(children[0]), span_of(meta))

    def number(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Number(float(children[0]), span_of(meta), str(children[0]))

    def string(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.String(str(children[0])[1:-1], span_of(meta))

    def true(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Boolean(True, span_of(meta))

    def false(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Boolean(False, span_of(meta))

    def unit(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Unit(span_of(meta))

    def resample(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Resample(span_of(meta))

    # Compounds

    def arguments(self, meta: Meta, children: list[Any]) -> tuple[ast.Expr, ...]:
        return tuple(children)

    def empty_list(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.List((), span_of(meta))

    def list_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.List(children[0], span_of(meta))

    def fields(self, meta: Meta, children: list[Any]) -> list[tuple[Token, ast.Expr]]:
        return children

    def field_value(self, meta: Meta, children: list[Any]) -> tuple[Token, ast.Expr]:
        name, _, value = children
        return name, value

    def record(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return _record(children[0], None, meta)

    def changed_record(self, meta: Meta, children: list[Any]) -> ast.Expr:
        base, _, fields = children
        return _record(fields, ast.Name(str(base), span_of(base)), meta)

    def field(self, meta: Meta, children: list[Any]) -> ast.Expr:
        record, token = children
        where = span_of(token)
        where = Span(where.line, where.column + 1, where.end_line, where.end_column)
        return ast.Field(record, str(token)[1:].strip('"'), span_of(meta), where)

    def lambda_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, parameters, body = children
        return ast.Lambda(parameters, body, span_of(meta))

    def grouped(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return cast(ast.Expr, children[0])

    def tuple_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        first, rest = children
        return ast.Tuple((first, *rest), span_of(meta))

    def unary(self, meta: Meta, children: list[Any]) -> ast.Expr:
        operator, operand = children
        return ast.Unary(cast(ast.UnaryOperator, str(operator)), operand, span_of(meta))

    def binary(self, meta: Meta, children: list[Any]) -> ast.Expr:
        left, operator, right = children
        return ast.Binary(cast(ast.BinaryOperator, str(operator)), left, right, span_of(meta))

    def chained(self, meta: Meta, children: list[Any]) -> ast.Expr:
        second = children[3]
        hint = "comparisons do not chain; join two of them with `&&`"
        raise ParseError(f"unexpected `{second}` after a comparison", span_of(second), hint)

    def callee(self, meta: Meta, children: list[Any]) -> Token:
        return cast(Token, children[0])

    def call(self, meta: Meta, children: list[Any]) -> ast.Expr:
        callee, arguments = children
        return ast.Call(str(callee), arguments or (), span_of(meta))

    def index(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Call("List.nth", tuple(children), span_of(meta))

    def fold(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, function, elements, start = children
        return ast.Fold(function, elements, start, span_of(meta))

    def distribution(self, meta: Meta, children: list[Any]) -> ast.Distribution:
        name, arguments = children
        return ast.Distribution(str(name), arguments or (), span_of(meta))

    def observe(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, distribution, value = children
        return ast.Observe(distribution, value, span_of(meta))

    def if_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, condition, _, then, _, otherwise = children
        return ast.If(condition, then, otherwise, span_of(meta))

    def let(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, pattern, _, value, _, body = children
        return ast.Let(pattern, value, body, span_of(meta))

    def annotation(self, meta: Meta, children: list[Any]) -> str:
        return str(children[0])

    def assume(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, annotation, name, _, distribution, _, body = children
        return ast.Assume(annotation, str(name), distribution, body, span_of(meta), span_of(name))


def _field_name(token: Token) -> str:
    return str(token)[1:-1] if token.type == "STRING" else str(token)


def _record(fields: list[tuple[Token, ast.Expr]], base: ast.Expr | None, meta: Meta) -> ast.Expr:
    names = [_field_name(token) for token, _ in fields]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ParseError(f"the field `{name}` is given twice", span_of(fields[place][0]))
    return ast.Record(tuple(names), tuple(value for _, value in fields), base, span_of(meta))
