import pytest
from hypothesis import given
from lang_strategies import merged_responses, sources

from pasta.lang import LangError, Response, Sync, Text, check, fix, parse, plain, print_response

BLOCK = "<async>one two three four five</async>"


def words(text: str) -> int:
    return len(text.split())


@given(sources)
def test_fixing_leaves_nothing_fixable_and_makes_no_new_errors(source):
    fixed, applied = fix(source, words)
    assert (fixed == source) == (not applied)
    left = check(fixed, words)
    assert not any(diagnostic.fix for diagnostic in left)
    errors = sum(diagnostic.is_error for diagnostic in check(source))
    assert sum(diagnostic.is_error for diagnostic in left) <= errors
    assert fix(fixed, words) == (fixed, [])


@given(merged_responses)
def test_fixing_changes_no_letter_of_the_answer(response):
    fixed, _ = fix(print_response(response), words)
    assert plain(parse(fixed)) == plain(response)


@given(sources)
def test_fixing_a_valid_text_changes_no_letter_of_the_answer(source):
    try:
        response = parse(source)
    except LangError:
        return
    assert plain(parse(fix(source, words)[0])) == plain(response)


@pytest.mark.parametrize(
    ("source", "fixed"),
    [
        (f'<promise topic="x" tokens=1/{BLOCK} a', f'<promise topic="x" tokens=1/>{BLOCK} a'),
        (f'<promise topic="x" tokens=1>{BLOCK} a', f'<promise topic="x" tokens=1/>{BLOCK} a'),
        (f'<promise topic="x" tokens=1 / >{BLOCK} a', f'<promise topic="x" tokens=1/>{BLOCK} a'),
        (f"<promise topic=x tokens=01>{BLOCK} a", f'<promise topic="x" tokens=1/>{BLOCK} a'),
        (f"a\n<promise topic=' x ' tokens=1/>\n {BLOCK} a", f'a\n\n <promise topic="x" tokens=1/>{BLOCK} a'),
        (f'<promise topic="x" tokens=1/>{BLOCK} a<sync>', f'<promise topic="x" tokens=1/>{BLOCK} a<sync/>'),
        ("a<sync/><sync/><sync/>b", "ab"),
        ("a<sync>b", "ab"),
    ],
)
def test_fixes(source, fixed):
    assert fix(source)[0] == fixed


@pytest.mark.parametrize(
    "source",
    [
        "<async>a</async>",
        "a</async>",
        '<promise topic="x" tokens=1/><async>a',
        f'<promise topic="y" tokens=1/> b <promise topic="x" tokens=1/>{BLOCK}',
        '<promise topic="x" tokens=200/> a',
        "<sync",
        "</async",
        "<async/>",
    ],
)
def test_what_could_be_meant_in_more_than_one_way_is_left_alone(source):
    assert fix(source) == (source, [])


def test_removing_a_sync_never_makes_a_tag_of_the_texts_around_it():
    source = print_response(Response((Text("<"), Sync(), Sync(), Text("sync/>"))))
    assert source == "<<sync/><sync/>sync/>"
    assert fix(source)[0] == "<\\sync/>"


def test_many_fixes_take_few_rounds():
    text, applied = fix("a<sync/>" * 3000)
    assert text == "a" * 3000
    assert len(applied) == 3000


def test_what_was_fixed_is_told_in_order():
    _, applied = fix(f"<promise topic=x tokens=1 />{BLOCK} a<sync> b<sync/>")
    assert [diagnostic.code for diagnostic in applied] == ["E105", "E102", "W201"]


def test_bytes_that_are_not_utf8():
    with pytest.raises(LangError, match="E100"):
        fix(b"\xff")
