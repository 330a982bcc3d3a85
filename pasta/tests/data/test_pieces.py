import pytest
from data_texts import CODE, LIST, PARAGRAPHS
from hypothesis import given
from hypothesis import strategies as st

from pasta.data.pieces import Kind, pieces

parts = st.sampled_from(
    (
        *("1. one item of a list\n", "2. another item\n", "- a bullet\n", "  - below it\n", "A sentence. And more.\n"),
        *("# Title\n", "Dr. No came at 3.5 p.m. today.", "```\ncode\n```\n", "| a | b |\n", "**Bold**\n", "Heading:\n"),
        *("\n", " "),
    )
)


@given(st.lists(parts | st.text(max_size=6), max_size=14).map("".join))
def test_pieces_lie_in_order_and_leave_only_markers_and_white_space(text):
    at = 0
    for piece in pieces(text):
        assert at <= piece.start < piece.end <= len(text)
        between = text[at : piece.start].strip()
        assert len(between) <= 5 or piece.kind is Kind.ITEM
        at = piece.end
    assert not text[at:].strip()


def bodies(text):
    return [(piece.kind, text[piece.start : piece.end]) for piece in pieces(text)]


def test_numbers_stay_with_the_parent_and_the_space_with_the_item():
    found = bodies(LIST)
    assert [kind for kind, _ in found] == [Kind.HEADING, Kind.ITEM, Kind.ITEM, Kind.ITEM, Kind.SENTENCE]
    assert found[1][1].startswith(" **Light**")
    assert found[3][1].endswith("the ground.")
    gap = LIST[pieces(LIST)[1].end : pieces(LIST)[2].start]
    assert gap == "\n2."


def test_an_item_holds_the_bullets_and_paragraphs_below_it():
    text = "1. One:\n- a\n- b\n\n2. Two:\n- c\n\nmore of two\n\n3. Three:\n- d\n\nThe end is here."
    found = bodies(text)
    assert [body.strip() for _, body in found] == [
        "One:\n- a\n- b",
        "Two:\n- c\n\nmore of two",
        "Three:\n- d",
        "The end is here.",
    ]


def test_code_is_fixed_or_inside_an_item():
    assert "```python" in bodies(CODE)[1][1]
    assert bodies("Look:\n\n```\nx = 1\n```\n\nDone now.")[1] == (Kind.FIXED, "```\nx = 1\n```")
    assert bodies("| a | b |\n| 1 | 2 |")[0][0] is Kind.FIXED
    assert bodies("$$x = 1$$")[0][0] is Kind.FIXED


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Who came at 5 p.m. sharp. Nobody saw him.", 2),
        ("It costs 3.50 in the U.S. today. Really? Yes!", 3),
        ('He said "Go." Then he left.', 2),
        ("It is 45. Shops open now.", 2),
        ("No end", 1),
    ],
)
def test_sentences(text, count):
    found = pieces(text)
    assert len(found) == count
    assert "".join(text[piece.start : piece.end] for piece in found) == text


def test_paragraphs_are_regions():
    assert [piece.region for piece in pieces(PARAGRAPHS)] == [0, 1, 2, 3]


def test_a_roman_number_begins_a_line():
    text = "II. Methods of the study are these.\nThey are few."
    assert [text[piece.start : piece.end] for piece in pieces(text)] == [
        "II. Methods of the study are these.",
        "They are few.",
    ]
