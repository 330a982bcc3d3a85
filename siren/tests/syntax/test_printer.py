from hypothesis import given, settings
from programs import expressions

from siren.syntax import ast, flat, parse


@given(expressions)
@settings(max_examples=300, deadline=None)
def test_parsing_what_was_printed_gives_the_same_tree(expr: ast.Expr) -> None:
    assert parse(flat(expr)).body == expr


def test_only_needed_parentheses() -> None:
    for text in [
        "(a + b) * c",
        "a - (b - c)",
        "(a :: b) :: c",
        "not (a && b)",
        "-(a + b)",
        "(if a then b else c) + 1",
    ]:
        assert flat(parse(text).body) == text
