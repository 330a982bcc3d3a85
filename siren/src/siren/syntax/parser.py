"""Text to syntax tree, with errors that say what was expected and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from siren.errors import DataError, ParseError, Source, Span
from siren.syntax import ast
from siren.syntax.builtins import KEYWORDS

# How tokens are called in messages; a keyword or a sign goes by its own spelling.
_SPOKEN = {
    "NAME": "a name",
    "QUALIFIED": "a library function",
    "NUMBER": "a number",
    "STRING": "a string",
    "COMPARE": "a comparison",
    "UNDERSCORE": "`_`",
    "$END": "the end of the program",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "FIELD": "a field such as `.x`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "ARROW": "`<-`",
    "__ANON_0": "`->`",
}
# What may begin an expression is one idea to a reader, not nineteen tokens.
_EXPRESSION_STARTS = frozenset("NAME NUMBER LPAR LSQB MINUS TRUE FALSE NIL IF LET FOLD".split())
_OPERATORS = frozenset("OR AND COMPARE EQUAL CONS PLUS MINUS STAR SLASH".split())


def parse(text: str, name: str = "<program>") -> ast.Program:
    """Parse a whole program. Raises `ParseError` with the place and a hint."""
    source = Source(name, text)
    try:
        tree = cast(ast.Program, _TreeBuilder().transform(_lark().parse(text)))
    except UnexpectedInput as error:
        raise _explain(error, source) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ParseError):
            raise error.orig_exc.with_source(source) from None
        raise
    return ast.Program(tree.functions, tree.body, tree.span, source)


def parse_file(path: str | Path) -> ast.Program:
    """Parse the program in a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", hint="check the path to the program") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    return parse(text, str(path))


@cache
def _lark() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start="program", propagate_positions=True, maybe_placeholders=True)


def _span(item: Meta | Token) -> Span:
    if isinstance(item, Meta) and item.empty:  # pragma: no cover - every rule has at least one token
        return ast.NOWHERE
    return Span(item.line or 0, item.column or 0, item.end_line or 0, item.end_column or 0)


@v_args(meta=True)
class _TreeBuilder(Transformer_NonRecursive[Token, Any]):
    """One method per grammar rule, called bottom up. Not recursive: a long chain of `let` is no problem."""

    def program(self, meta: Meta, children: list[Any]) -> ast.Program:
        *functions, body = children
        return ast.Program(tuple(functions), body, _span(meta))

    def function(self, meta: Meta, children: list[Any]) -> ast.Function:
        _, name, _, parameters, body, _ = children
        return ast.Function(str(name), parameters, body, _span(meta), _span(name))

    # Patterns

    def name_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.NamePattern(str(children[0]), _span(meta))

    def wildcard_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.WildcardPattern(_span(meta))

    def unit_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.UnitPattern(_span(meta))

    def tuple_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return ast.TuplePattern(tuple(children), _span(meta))

    def record_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        names, patterns = zip(*children, strict=True)
        return ast.RecordPattern(names, patterns, _span(meta))

    def field_pattern(self, meta: Meta, children: list[Any]) -> tuple[str, ast.Pattern]:
        token, _, pattern = children
        name = _field_name(token)
        if pattern is None and token.type == "STRING":
            raise ParseError(
                f"`{token}` cannot be a name of the program", _span(token), f"bind it: `{token} = name`"
            )
        return name, pattern or ast.NamePattern(name, _span(token))

    def grouped_pattern(self, meta: Meta, children: list[Any]) -> ast.Pattern:
        return cast(ast.Pattern, children[0])

    # Leaves

    def name(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Name(str(children[0]), _span(meta))

    def qualified(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Name(str(children[0]), _span(meta))

    def number(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Number(float(children[0]), _span(meta), str(children[0]))

    def string(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.String(str(children[0])[1:-1], _span(meta))

    def true(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Boolean(True, _span(meta))

    def false(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Boolean(False, _span(meta))

    def unit(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Unit(_span(meta))

    def resample(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Resample(_span(meta))

    # Compounds

    def arguments(self, meta: Meta, children: list[Any]) -> tuple[ast.Expr, ...]:
        return tuple(children)

    def empty_list(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.List((), _span(meta))

    def list_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.List(children[0], _span(meta))

    def fields(self, meta: Meta, children: list[Any]) -> list[tuple[Token, ast.Expr]]:
        return children

    def field_value(self, meta: Meta, children: list[Any]) -> tuple[Token, ast.Expr]:
        name, _, value = children
        return name, value

    def record(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return _record(children[0], None, meta)

    def changed_record(self, meta: Meta, children: list[Any]) -> ast.Expr:
        base, _, fields = children
        return _record(fields, ast.Name(str(base), _span(base)), meta)

    def field(self, meta: Meta, children: list[Any]) -> ast.Expr:
        record, token = children
        where = _span(token)
        where = Span(where.line, where.column + 1, where.end_line, where.end_column)
        return ast.Field(record, str(token)[1:].strip('"'), _span(meta), where)

    def lambda_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, parameters, body = children
        return ast.Lambda(parameters, body, _span(meta))

    def grouped(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return cast(ast.Expr, children[0])

    def tuple_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        first, rest = children
        return ast.Tuple((first, *rest), _span(meta))

    def unary(self, meta: Meta, children: list[Any]) -> ast.Expr:
        operator, operand = children
        return ast.Unary(cast(ast.UnaryOperator, str(operator)), operand, _span(meta))

    def binary(self, meta: Meta, children: list[Any]) -> ast.Expr:
        left, operator, right = children
        return ast.Binary(cast(ast.BinaryOperator, str(operator)), left, right, _span(meta))

    def chained(self, meta: Meta, children: list[Any]) -> ast.Expr:
        second = children[3]
        hint = "comparisons do not chain; join two of them with `&&`"
        raise ParseError(f"unexpected `{second}` after a comparison", _span(second), hint)

    def callee(self, meta: Meta, children: list[Any]) -> Token:
        return cast(Token, children[0])

    def call(self, meta: Meta, children: list[Any]) -> ast.Expr:
        callee, arguments = children
        return ast.Call(str(callee), arguments or (), _span(meta))

    def index(self, meta: Meta, children: list[Any]) -> ast.Expr:
        return ast.Call("List.nth", tuple(children), _span(meta))

    def fold(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, function, elements, start = children
        return ast.Fold(function, elements, start, _span(meta))

    def distribution(self, meta: Meta, children: list[Any]) -> ast.Distribution:
        name, arguments = children
        return ast.Distribution(str(name), arguments or (), _span(meta))

    def observe(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, distribution, value = children
        return ast.Observe(distribution, value, _span(meta))

    def if_(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, condition, _, then, _, otherwise = children
        return ast.If(condition, then, otherwise, _span(meta))

    def let(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, pattern, _, value, _, body = children
        return ast.Let(pattern, value, body, _span(meta))

    def annotation(self, meta: Meta, children: list[Any]) -> str:
        return str(children[0])

    def assume(self, meta: Meta, children: list[Any]) -> ast.Expr:
        _, annotation, name, _, distribution, _, body = children
        return ast.Assume(annotation, str(name), distribution, body, _span(meta), _span(name))


def _field_name(token: Token) -> str:
    return str(token)[1:-1] if token.type == "STRING" else str(token)


def _record(fields: list[tuple[Token, ast.Expr]], base: ast.Expr | None, meta: Meta) -> ast.Expr:
    names = [_field_name(token) for token, _ in fields]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ParseError(f"the field `{name}` is given twice", _span(fields[place][0]))
    return ast.Record(tuple(names), tuple(value for _, value in fields), base, _span(meta))


# Errors --------------------------------------------------------------------------------


def _explain(error: UnexpectedInput, source: Source) -> ParseError:
    if isinstance(error, UnexpectedCharacters):
        span = Span(error.line, error.column, error.line, error.column + 1)
        return ParseError(
            f"unexpected character `{error.char}`", span, _character_hint(error, source), source=source
        )
    if isinstance(error, UnexpectedToken):
        token, expected = error.token, set(error.accepts or error.expected)
        if token.type == "$END":
            return ParseError(
                f"the program ends too early; expected {_spoken(expected)}", _end_of(source),
                _end_hint(expected), source=source,
            )  # fmt: skip
        return ParseError(
            f"unexpected `{token}`; expected {_spoken(expected)}",
            _span(token),
            _token_hint(token, error.token_history, expected),
            source=source,
        )
    assert isinstance(error, UnexpectedEOF)
    return ParseError("the program ends too early", _end_of(source), source=source)


def _end_of(source: Source) -> Span:
    lines = source.text.rstrip().splitlines() or [""]
    return Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)


def _spoken(expected: set[str]) -> str:
    names = set(expected)
    phrases = []
    if names >= _EXPRESSION_STARTS:
        names -= _EXPRESSION_STARTS | {
            "OBSERVE",
            "RESAMPLE",
            "STRING",
            "QUALIFIED",
            "NOT",
            "VAL",
            "FUN",
            "LBRACE",
        }
        phrases.append("an expression")
    if names >= _OPERATORS:
        names -= _OPERATORS
        phrases.append("an operator")
    terminals = {terminal.name: terminal.pattern for terminal in _lark().terminals}
    for name in sorted(names):
        pattern = terminals.get(name)
        phrases.append(_SPOKEN.get(name) or (f"`{pattern.value}`" if pattern is not None else name.lower()))
    return " or ".join(phrases) if len(phrases) < 3 else ", ".join(phrases[:-1]) + " or " + phrases[-1]


def _character_hint(error: UnexpectedCharacters, source: Source) -> str | None:
    rest = source.line(error.line)[error.column - 1 :]
    hints = {
        "~": "a random variable is written `let x <- gaussian(0, 1) in ...`",
        "!=": "inequality is written `<>`",
        ";": "steps are chained with `let () = ... in`",
        "'": 'strings are written with double quotes: "data.csv"',
        '"': "this string is not closed on its line",
        "&": "`and` is written `&&`",
        "|": "`or` is written `||`",
        "%": "there is no remainder operator",
        "^": "there is no power operator; write `x * x`, or `exp(n * log(x))`",
    }
    return next((hint for start, hint in hints.items() if rest.startswith(start)), None)


def _token_hint(token: Token, history: Sequence[Token] | None, expected: set[str]) -> str | None:
    text, previous = str(token), history[-1] if history else ""
    if str(previous) in KEYWORDS and "NAME" in expected and len(expected) == 1:
        return f"`{previous}` is a keyword; choose another name"
    if text in KEYWORDS and "NAME" in expected and not expected >= _EXPRESSION_STARTS:
        return f"`{text}` is a keyword; choose another name"
    if text == "=" and expected >= _EXPRESSION_STARTS:
        return "equality is written with a single `=`"
    if "ELSE" in expected:
        return "every `if` needs an `else`; use `else ()` to do nothing"
    if text in {"and", "or"}:
        return f"`{text}` is written `{'&&' if text == 'and' else '||'}`"
    if "IN" in expected:
        return "a `let` or `val` needs `in` before what follows it"
    return None


def _end_hint(expected: set[str]) -> str | None:
    if "RPAR" in expected:
        return "a `(` is not closed"
    if "RBRACE" in expected:
        return "a `{` is not closed"
    if "RSQB" in expected:
        return "a `[` is not closed"
    if "ELSE" in expected:
        return "every `if` needs an `else`"
    if "IN" in expected:
        return "a `let` or `val` needs `in` and then an expression"
    if expected >= _EXPRESSION_STARTS:
        return "a program ends with the expression whose value it returns"
    return None
