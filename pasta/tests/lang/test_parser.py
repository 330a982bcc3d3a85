import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lang_strategies import cuts, merged_responses, responses, sources

import pasta.lang.parser
from pasta.lang import LangError, Parser, Promise, Response, Span, Sync, Text, check, parse, print_response


def read(pieces):
    """The tree of a text, or the error; both with all places."""
    parser = Parser()
    for piece in pieces:
        parser.feed(piece)
    try:
        return repr(parser.close())
    except LangError as error:
        return error.code, error.message, error.start, error.end, error.line, error.column


@given(st.data())
def test_how_a_text_is_cut_makes_no_difference(data):
    source = data.draw(sources | responses.map(print_response))
    assert read(data.draw(cuts(source))) == read([source])


@given(responses)
def test_parse_undoes_print(response):
    assert parse(print_response(response)) == response


@given(sources)
def test_print_gives_a_valid_text_back_in_canonical_spelling(source):
    try:
        response = parse(source)
    except LangError:
        return
    canonical = print_response(response)
    assert parse(canonical) == response
    assert print_response(parse(canonical)) == canonical


@given(st.binary(max_size=200) | sources.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_raise_anything_but_lang_error(source):
    try:
        assert isinstance(parse(source), Response)
    except LangError as error:
        assert error.line is not None and error.column is not None
        assert "\n" not in str(error)


@given(sources)
def test_parse_raises_the_first_error_that_check_lists(source):
    errors = [diagnostic for diagnostic in check(source) if diagnostic.is_error]
    try:
        parse(source)
    except LangError as error:
        assert (error.code, error.message, error.start) == (
            errors[0].code,
            errors[0].message,
            errors[0].span.start,
        )
    else:
        assert not errors


@given(merged_responses)
def test_places_point_at_the_source(response):
    source = print_response(response)

    def visit(nodes):
        for node in nodes:
            written = source[node.span.start : node.span.end]
            match node:
                case Text():
                    assert parse(written) == Response((node,))
                case Sync():
                    assert written == "<sync/>"
                case Promise():
                    assert written.startswith("<promise ") and written.endswith("/>")
                    visit(node.block)

    visit(parse(source).nodes)


def test_the_example_of_the_paper():
    source = (
        '<promise topic="coordinates" tokens=2 /><async>(2, -2) and (10, 4).</async>'
        '<promise topic="length formula" tokens=2 /><async>√((x2 - x1)²).</async><sync/> So, 10.'
    )
    assert parse(source) == Response(
        (
            Promise("coordinates", 2, (Text("(2, -2) and (10, 4)."),)),
            Promise("length formula", 2, (Text("√((x2 - x1)²)."),)),
            Sync(),
            Text(" So, 10."),
        )
    )


@pytest.mark.parametrize(
    "tag",
    [
        '<promise topic="a b" tokens=2/>',
        '<promise topic="a b" tokens=2 />',
        "<promise topic='a b' tokens='2'/>",
        '<promise  tokens = "2"\ttopic = "a b"\t/>',
    ],
)
def test_spellings_of_a_promise(tag):
    assert parse(tag) == Response((Promise("a b", 2),))


@pytest.mark.parametrize(
    "text",
    [
        "<",
        "<<",
        "a < b",
        "<b>",
        "<asynchronous>",
        "<sync-all/>",
        "<sync:x>",
        "<promised",
        "<Sync/>",
        "< sync/>",
        "\\sync",
    ],
)
def test_what_is_text(text):
    assert parse(text) == Response((Text(text),))
    assert print_response(Response((Text(text),))) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<sync/>", "<\\sync/>"),
        ("<\\sync/>", "<\\\\sync/>"),
        ("</async>", "<\\/async>"),
        ("<\\/async", "<\\\\/async"),
        ("<<promise", "<<\\promise"),
        ("<\\b>", "<\\b>"),
        ("<sync", "<\\sync"),
        ("<syncs", "<syncs"),
    ],
)
def test_escapes(text, written):
    assert print_response(Response((Text(text),))) == written
    assert parse(written) == Response((Text(text),))


def test_an_empty_text_is_an_empty_response():
    assert parse("") == parse(b"") == Response(())


def test_bytes_that_are_not_utf8():
    with pytest.raises(LangError) as caught:
        parse("one\né ".encode() + b"\xff")
    error = caught.value
    assert (error.code, error.line, error.column, error.start) == ("E100", 2, 3, 6)
    assert "byte 0xFF at offset 7" in error.message


def test_an_error_says_where_and_what():
    with pytest.raises(LangError) as caught:
        parse('one\n two <promise topic="x" tokens=0/>')
    error = caught.value
    assert (error.code, error.line, error.column) == ("E106", 2, 32)
    assert str(error).startswith("line 2, column 32: E106 tokens='0': expected a whole number of tens from 1 to 99 (")


def test_a_closed_parser_takes_no_more():
    parser = Parser()
    parser.feed("a")
    assert parser.close() == parser.close() == Response((Text("a"),))
    with pytest.raises(ValueError, match="closed"):
        parser.feed("b")


@pytest.mark.parametrize(
    "source",
    [
        "<\\" + "\\" * 200_000,
        "<promise " + "x" * 200_000,
        "<" * 50_000,
        "<promise" + " a=1" * 50_000 + "/>",
        "<async>" * 10_000,
        "<async>a" * 10_000 + "</async>" * 10_000,
        '<promise topic="x" tokens=1/><async>' * 5_000,
        '<promise topic="x" tokens=1/>' * 5_000 + "<async></async>",
        '<promise topic="x" tokens=1/>' + " " * 100_000 + "<async>",
    ],
    ids=["backslashes", "unfinished", "openers", "attributes", "unclosed", "no-promise", "deep", "bare", "gap"],
)
def test_nothing_takes_more_than_linear_time(source):
    start = time.process_time()  # not the clock on the wall: other programs may run
    letters, whole = read(source), read([source])
    assert letters == whole
    assert time.process_time() - start < 10  # quadratic would take minutes


def test_deep_nesting_is_an_error_and_not_a_crash():
    depth = 20_000
    source = '<promise topic="x" tokens=1/><async>' * depth + "</async>" * depth
    assert [diagnostic.code for diagnostic in check(source)] == ["E115"]


def test_the_example_in_the_docstring():
    results = doctest.testmod(pasta.lang.parser, optionflags=doctest.ELLIPSIS)
    assert results.attempted and not results.failed


def test_span_of_text_includes_its_escapes():
    assert parse("<\\sync/>a<sync/>").nodes[0].span == Span(0, 9)
