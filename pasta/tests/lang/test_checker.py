import time

import pytest
from hypothesis import given
from lang_strategies import merged_responses, sources

from pasta.lang import RULES, check, estimate, parse, print_response


def words(text: str) -> int:
    return len(text.split())


def findings(source, count=None):
    return [f"{d.line}:{d.column} {d.code}" for d in check(source, count)]


BLOCK = "<async>one two three four five</async>"
PROMISE = f'<promise topic="x" tokens=1/>{BLOCK}'


@given(sources)
def test_every_diagnostic_is_one_line_at_a_place_in_the_text(source):
    lines = source.split("\n")
    places = []
    for diagnostic in check(source, words):
        assert diagnostic.code in RULES
        assert diagnostic.hint
        assert diagnostic.message.isprintable()
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(source)
        assert 1 <= diagnostic.line <= len(lines)
        assert 1 <= diagnostic.column <= len(lines[diagnostic.line - 1]) + 1
        places.append(diagnostic.span.start)
    assert places == sorted(places)


@given(merged_responses)
def test_what_is_printed_has_no_errors(response):
    assert not any(diagnostic.is_error for diagnostic in check(print_response(response)))


@given(sources)
def test_warnings_wait_until_there_are_no_errors(source):
    assert len({diagnostic.is_error for diagnostic in check(source)}) <= 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <sync", ["1:3 E101"]),
        ("<promise\n", ["1:1 E101"]),
        ("<promise\r\n", ["1:1 E101"]),
        ("<async<async>", ["1:1 E101", "1:1 E111", "1:1 E113", "1:7 E111", "1:7 E113"]),
        ("</promise>", ["1:1 E102"]),
        ("</sync>", ["1:1 E102"]),
        ("<sync x/>", ["1:1 E102"]),
        ("<promise/>", ["1:1 E103", "1:1 E103"]),
        ("<promise tokens=1/>", ["1:1 E103"]),
        ('<promise topic="x"tokens=1/>', ["1:19 E104"]),
        ('<promise topic="x" topic="y" tokens=1/>', ["1:20 E104"]),
        ("<promise topic=\"x' tokens=1/>", ["1:9 E104"]),
        ('<promise topic="a\tb" tokens=1/>', ["1:16 E105"]),
        ("<promise topic='a\"b' tokens=1/>", ["1:16 E105"]),
        ('<promise topic="x" tokens=1.5/>', ["1:27 E106"]),
        ('<promise topic="x" tokens=ten/>', ["1:27 E106"]),
        ('<promise topic="x" tokens=""/>', ["1:27 E106"]),
        ('<promise topic="x" tokens=²/>', ["1:27 E106"]),
        ('<promise topic="" tokens=0/>', ["1:16 E105", "1:26 E106"]),
    ],
)
def test_broken_tags(source, expected):
    assert findings(source) == expected


def test_one_mistake_is_reported_once():
    """A promise that is not understood still has its block, and its block is still read."""
    assert findings(f'<promise topic="x" tokens=0/>{BLOCK}') == ["1:27 E106"]
    assert findings(f'<promise topic="x" tokens=1/ {BLOCK}') == ["1:1 E101"]
    assert findings(f'<promise topic="x"/><async><sync></async>{PROMISE}') == ["1:1 E103", "1:28 E102"]


def test_blocks():
    assert findings("<async></async></async>") == ["1:1 E111", "1:16 E112"]
    assert findings(f'<promise topic="x" tokens=1/>a{BLOCK}') == ["1:31 E111"]
    assert findings(f'{PROMISE}<promise topic="y" tokens=1/>') == ["1:68 E114"]
    assert findings('<promise topic="y" tokens=1/><promise topic="z" tokens=1/> b') == []
    nested = '<promise topic="x" tokens=1/><async>\n<promise topic="y" tokens=1/> b</async>'
    assert findings(nested) == ["2:1 E114"]
    assert findings('<promise topic="x" tokens=1/><async><promise topic="y" tokens=1/><async>') == [
        "1:30 E113",
        "1:66 E113",
    ]


def test_a_sync_needs_an_open_child_of_its_own_thread():
    assert findings(f"{PROMISE} a<sync/> b") == []
    assert findings(f"{PROMISE} a<sync/> b<sync/>") == ["1:79 W201"]
    inner = f'<promise topic="out" tokens=1/><async>{PROMISE} a</async><sync/> b'
    assert "W201" not in "".join(findings(inner))
    other = f'{PROMISE} a <promise topic="z" tokens=1/><async>one two three four five<sync/></async> b'
    assert findings(other) == [f"1:{other.index('<sync/>') + 1} W201"]
    assert findings('<promise topic="x" tokens=1/> a<sync/> b') == []


def test_short_and_empty_blocks():
    def block(body):
        return f'<promise topic="x" tokens=1/><async>{body}</async> and more'

    assert findings(block("")) == findings(block(" \n")) == ["1:1 W202"]
    assert findings(block("one two three four")) == ["1:1 W203"]
    assert findings(block("one two three four five")) == []


def test_topics():
    assert findings(PROMISE.replace("x", "one two three") + " a") == []
    assert findings(PROMISE.replace("x", "one two three four") + " a") == ["1:1 W204"]
    assert findings(f"{PROMISE}\n{PROMISE.replace('x', 'X')}") == ["2:1 W205"]
    cousins = PROMISE.replace("five", f"five {PROMISE} a")
    assert findings(f"{cousins} b") == []


def test_lengths_are_compared_when_tokens_can_be_counted():
    def promise(tokens, words_in_block):
        return f'<promise topic="x" tokens={tokens}/><async>{"word " * words_in_block}</async> and more'

    assert findings(promise(9, 30)) == []
    assert findings(promise(9, 30), words) == ["1:1 W206"]
    assert findings(promise(2, 30), words) == findings(promise(6, 30), words) == []
    assert findings(promise(1, 30), words) == ["1:1 W206"]
    assert findings(promise(2, 8), words) == []
    assert findings(promise(99, 5000), words) == []


@pytest.mark.parametrize(("length", "tokens"), [(0, 1), (8, 1), (9, 2), (18, 2), (19, 3), (5000, 99)])
def test_the_right_length_counts_the_two_tags_and_rounds_up(length, tokens):
    assert estimate(parse("word " * length).nodes, words) == tokens


def test_the_right_length_counts_nested_blocks_and_their_tags():
    nodes = parse('one two <promise topic="x" tokens=1/><async>three</async><sync/>').nodes
    assert estimate(nodes, lambda text: 10 * words(text)) == 5  # 30 + promise 12 + two tags + sync + its own two


@pytest.mark.parametrize("text", ["<Sync/>", "< sync/>", "</ async>", "<ASYNC>", '<Promise topic="x" tokens=1/>'])
def test_text_that_looks_like_a_tag(text):
    assert findings(f"a {text} b") == ["1:3 W207"]


@pytest.mark.parametrize("text", ["<\\sync/>", "<synchronous>", "<a>", "a < sync", "<async-iterator>", "<Sync:x>"])
def test_text_that_does_not(text):
    assert findings(text) == []


def test_a_thread_that_only_waits():
    assert findings(PROMISE) == ["1:1 W208"]
    assert findings(f"{PROMISE} \n<sync/> b") == ["1:1 W208"]
    assert findings(f"{PROMISE} a") == []
    assert findings(f"{PROMISE}{PROMISE.replace('x', 'y')}") == []
    assert findings(f"{PROMISE} a<sync/>{PROMISE.replace('x', 'y')}") == ["1:77 W208"]


def test_the_end_of_a_response_that_a_limit_cut_is_not_judged():
    """A second promise, or text, may have come; a block before the end was whole."""

    def cut(source):
        return [diagnostic.code for diagnostic in check(source, words, cut=True)]

    short = '<promise topic="y" tokens=9/><async>one</async>'
    assert cut(PROMISE) == cut(f"{PROMISE}\n\n") == cut(short) == []
    assert cut(f"{PROMISE}<sync/> b") == ["W208"]
    assert cut(f"{short} and more") == ["W203", "W206"]
    nested = f'<promise topic="out" tokens=2/><async>one two three four {PROMISE}</async>'
    assert cut(nested) == [] and cut(f"{nested} and more") == ["W208"]


def test_columns_count_characters_and_lines_end_at_line_feeds_only():
    assert findings("é√😀 <sync/>") == ["1:5 W201"]
    assert findings("a\r\u2028b<sync/>") == ["1:5 W201"]
    assert findings("a\r\nb\n\n<sync/>") == ["4:1 W201"]


def test_bytes():
    assert findings("é <sync/>".encode()) == ["1:3 W201"]
    assert findings(b"a\n\xc3(") == ["2:1 E100"]


def test_long_white_space_behind_a_bracket_is_read_once():
    started = time.perf_counter()
    assert check("<" + " " * 30_000) == []
    assert time.perf_counter() - started < 5
