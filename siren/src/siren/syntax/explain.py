"""What was wrong with a text that does not parse: the place, what was expected, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.tree import Meta

from siren.errors import ParseError, Source, Span, did_you_mean
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


def span_of(item: Meta | Token) -> Span:
    """Where something stands; every rule of the grammar has at least one token."""
    return Span(item.line or 0, item.column or 0, item.end_line or 0, item.end_column or 0)


def explain(error: UnexpectedInput, source: Source, grammar: Lark) -> ParseError:
    if isinstance(error, UnexpectedCharacters):
        span = Span(error.line, error.column, error.line, error.column + 1)
        return ParseError(
            f"unexpected character `{error.char}`", span, _character_hint(error, source), source=source
        )
    if isinstance(error, UnexpectedToken):
        token, expected = error.token, set(error.accepts or error.expected)
        if token.type == "$END":
            return ParseError(
                f"the program ends too early; expected {_spoken(expected, grammar)}", _end_of(source),
                _end_hint(expected), source=source,
            )  # fmt: skip
        return ParseError(
            f"unexpected `{token}`; expected {_spoken(expected, grammar)}",
            span_of(token),
            _observe_hint(token, source) or _token_hint(token, error.token_history, expected),
            source=source,
        )
    assert isinstance(error, UnexpectedEOF)
    return ParseError("the program ends too early", _end_of(source), source=source)


def _end_of(source: Source) -> Span:
    lines = source.text.rstrip().splitlines() or [""]
    return Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)


def _spoken(expected: set[str], grammar: Lark) -> str:
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
    terminals = {terminal.name: terminal.pattern for terminal in grammar.terminals}
    for name in sorted(names):
        pattern = terminals.get(name)
        phrases.append(_SPOKEN.get(name) or (f"`{pattern.value}`" if pattern is not None else name.lower()))
    return " or ".join(phrases) if len(phrases) < 3 else ", ".join(phrases[:-1]) + " or " + phrases[-1]


_POWER = "there is no power operator; write `x * x`, or `pow(x, n)`"


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
        "%": "there is no remainder operator; write `x - n * floor(x / n)`",
        "^": _POWER,
    }
    return next((hint for start, hint in hints.items() if rest.startswith(start)), None)


def _observe_hint(token: Token, source: Source) -> str | None:
    """Where the distribution stands, something else may: the value, a name or a constant."""
    if not re.search(r"\bobserve\s*\(\s*([A-Za-z_]\w*\s*)?$", source.text[: token.start_pos]):
        return None
    return "the distribution comes first, then the value: `observe(gaussian(0, 1), 3)`"


def _token_hint(token: Token, history: Sequence[Token] | None, expected: set[str]) -> str | None:
    text, previous = str(token), history[-1] if history else ""
    if str(previous) in KEYWORDS and "NAME" in expected and len(expected) == 1:
        return f"`{previous}` is a keyword; choose another name"
    if text in KEYWORDS and "NAME" in expected and not expected >= _EXPRESSION_STARTS:
        return f"`{text}` is a keyword; choose another name"
    if text == "=" and expected >= _EXPRESSION_STARTS:
        return "equality is written with a single `=`"
    if text == "*" and previous == "(":
        return "a comment that begins with `(*` ends with `*)`; this one does not end"
    if text == previous == "*":
        return _POWER
    if text == "in" and "$END" in expected:
        return "an `in` belongs to a `let` or a `val`: a random variable is `let x <- gaussian(0, 1) in ...`"
    if "ELSE" in expected:
        return "every `if` needs an `else`; use `else ()` to do nothing"
    if text in {"and", "or"}:
        return f"`{text}` is written `{'&&' if text == 'and' else '||'}`"
    if "IN" in expected:
        return "a `let` or `val` needs `in` before what follows it"
    if str(previous) in {"for", "while"}:
        return "loops are `fold(step, list, start)`: `step` makes the next state of an element and a state"
    if token.type == "NAME":  # after a name: that may be a misspelt keyword
        return did_you_mean(str(previous), KEYWORDS)
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
