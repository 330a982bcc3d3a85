import pytest

from siren.errors import DataError, ParseError
from siren.syntax import check, flat, format_text, parse, parse_file


def same(left: str, right: str) -> bool:
    return parse(left).body == parse(right).body


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("1 + 1 < 3", "(1 + 1) < 3"),
        ("1 + 1 = 2", "(1 + 1) = 2"),
        ("a < b + c", "a < (b + c)"),
        ("a * b < c", "(a * b) < c"),
        ("a - b - c", "(a - b) - c"),
        ("a + b - c", "(a + b) - c"),
        ("a - b * c", "a - (b * c)"),
        ("a / b / c", "(a / b) / c"),
        ("-a * b", "(-a) * b"),
        ("a * -b", "a * (-b)"),
        ("a -1", "a - 1"),
        ("a <-1", "a < (-1)"),
        ("a :: b :: nil", "a :: (b :: [])"),
        ("1 + 2 :: nil", "(1 + 2) :: nil"),
        ("not a = b", "not (a = b)"),
        ("not a && b", "(not a) && b"),
        ("a || b && c", "a || (b && c)"),
        ("a < b && c > d", "(a < b) && (c > d)"),
        ("if a then b else c + d", "if a then b else (c + d)"),
        ("let x = 1 in x + 2", "let x = 1 in (x + 2)"),
        ("let x <- gaussian(0, 1) in x * x", "let x <- gaussian(0, 1) in (x * x)"),
        ("1 + if a then b else c", "1 + (if a then b else c)"),
        ("let a, b = f() in a", "let (a, b) = f() in a"),
        ("let ((a)) = 1 in a", "let a = 1 in a"),
        ("1. + .5 + 1e3", "1 + 0.5 + 1000"),
        ("a (* in * the ( way *) + b # and after", "a + b"),
    ],
)
def test_precedence_and_spelling(text: str, meaning: str) -> None:
    assert same(text, meaning)


def test_positions() -> None:
    program = parse("let x = 1 in\n  x + foo(2)")
    addition = program.body.body
    assert str(addition.span) == "2:3"
    assert (addition.right.span.column, addition.right.span.end_column) == (7, 13)


def test_file_with_functions_and_both_comments() -> None:
    program = parse("(* c *) val f = fun (a, (b, _)) -> a in # d\nval g = fun () -> 1. in\nf(1, (2, 3))")
    assert [function.name for function in program.functions] == ["f", "g"]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", "1:1", "ends too early", "a program ends with the expression"),
        ("(1, 2", "1:6", "ends too early", "not closed"),
        ("[1, 2", "1:6", "ends too early", "not closed"),
        ("if a then b", "1:12", "ends too early; expected", "`else`"),
        ("let x = 1 x", "1:11", "unexpected `x`", "needs `in`"),
        ("let sample = 1 in 2", "1:12", "unexpected `=`", "`sample` is a keyword"),
        ("let in = 1 in 2", "1:5", "unexpected `in`", "`in` is a keyword"),
        ("a == b", "1:4", "unexpected `=`", "single `=`"),
        ("a != b", "1:3", "unexpected character `!`", "`<>`"),
        ("1 < 2 < 3", "1:7", "unexpected `<`", "do not chain"),
        ("let x = 1 in 0 < x < 2", "1:20", "unexpected `<`", "do not chain"),
        ("let x ~ gaussian(0, 1) in x", "1:7", "`~`", "let x <- gaussian"),
        ("(* no end", "1:2", "unexpected `*`", "this one does not end"),
        ("lett x <- gaussian(0, 1) in x", "1:6", "unexpected `x`", "did you mean `let`?"),
        ("let sampl x <- gaussian(0, 1) in x", "1:11", "unexpected `x`", "did you mean `sample`?"),
        ("observe(3, gaussian(0, 1))", "1:9", "unexpected `3`", "the distribution comes first"),
        ("observe(true, bernoulli(0.5))", "1:9", "unexpected `true`", "the distribution comes first"),
        ("observe(y, gaussian(0, 1))", "1:10", "unexpected `,`", "the distribution comes first"),
        ("observe(ys[0], gaussian(0, 1))", "1:11", "unexpected `[`", "the distribution comes first"),
        ("f(1,)", "1:5", "expected an expression", None),
        ("1\n+\n* 2", "3:1", "unexpected `*`", None),
        ("for y in ys do 1", "1:5", "unexpected `y`", "loops are `fold"),
        ("let x = 1 in while x < 3 do x", "1:20", "unexpected `x`", "loops are `fold"),
    ],
)
def test_errors_say_where_and_what_to_do(text: str, place: str, message: str, hint: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "p.si")
    assert str(caught.value.span) == place
    assert message in caught.value.message
    assert hint is None or (caught.value.hint is not None and hint in caught.value.hint)


def test_rendered_error_has_line_and_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse("let x = 1 in\nx ** 2", "p.si")
    assert str(caught.value).splitlines() == [
        "p.si:2:4: syntax: unexpected `*`; expected an expression",
        "   2 | x ** 2",
        "     |    ^",
        "  hint: there is no power operator; write `x * x`, or `pow(x, n)`",
    ]


def test_a_file_that_begins_with_a_mark_or_is_no_text(tmp_path) -> None:
    path = tmp_path / "p.si"
    path.write_bytes(b"\xef\xbb\xbf1 +\r\n 2")
    assert flat(parse_file(path).body) == "1 + 2"
    path.write_bytes(b"# caf\xe9\n1")
    with pytest.raises(DataError, match="byte 6 is not UTF-8") as caught:
        parse_file(path)
    assert caught.value.hint == "save the program as UTF-8 text"


def test_missing_file_is_a_user_error(tmp_path) -> None:
    with pytest.raises(DataError, match="no such file"):
        parse_file(tmp_path / "none.si")


def test_deep_trees() -> None:
    for text in (
        "+".join(["1"] * 2000),
        "if true then 1 else " * 400 + "2",
        "-" * 500 + "1",
        "(" * 500 + "1" + ")" * 500,
    ):
        assert check(parse(text)) == ()
        formatted = format_text(text)
        assert format_text(formatted) == formatted


def test_long_chain_of_lets() -> None:
    text = "".join(f"let x{i} = {i} in\n" for i in range(3000)) + "x0"
    program = parse(text)
    assert flat(program.body.value) == "0"
