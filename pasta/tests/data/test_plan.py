"""Plans become well-formed annotations of the same answer, whatever the plan and the text."""

import pytest
from data_texts import count_words
from hypothesis import given
from hypothesis import strategies as st

from pasta.core.positions import Positions
from pasta.data.plan import Block, Plan, PlanError, apply, block_lengths, verified
from pasta.lang import MAX_TOPIC_WORDS, Promise, Sync, check, parse, plain, topic_problem
from pasta.lang.printer import plain_text
from pasta.lang.statistics import merged_length

fragments = st.sampled_from(
    [
        "red apples ",
        "green pears are sweet. ",
        "\n\n",
        "1. ",
        "- ",
        "<sync/>",
        "</async>",
        "<\\async>",
        "é√😀",
        '"',
        "<",
        " ",
    ]
)
texts = st.lists(fragments | st.text(max_size=5), min_size=1, max_size=12).map("".join)


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, Plan]:
    """A text and blocks that nest or lie apart; syncs anywhere."""
    text = draw(texts.filter(bool))
    blocks = []

    def fill(start: int, end: int, depth: int) -> None:
        if depth == 3 or end - start < 1:
            return
        places = sorted(draw(st.lists(st.integers(start, end), max_size=6, unique=True)))
        for first, last in zip(places[::2], places[1::2], strict=False):
            if (first, last) == (start, end) and depth:
                continue
            blocks.append(
                Block(first, last, draw(st.sampled_from(["", "one", 'a "b" <c>', "four words are many", "x"])))
            )
            fill(first, last, depth + 1)

    fill(0, len(text), 0)
    syncs = draw(st.lists(st.integers(0, len(text)), max_size=4))
    return text, Plan(tuple(draw(st.permutations(blocks))), tuple(syncs))


@given(plans())
def test_whatever_the_plan_the_answer_stays_to_the_letter(case):
    text, plan = case
    try:
        response = apply(plan, text, count_words)
    except PlanError as error:
        assert "topic" in str(error)
        return
    written = verified(response, text)
    assert plain(parse(written)) == text
    assert not [found for found in check(written) if found.is_error]
    assert len(list(response.promises())) == len(plan.blocks)
    for promise, _ in response.promises():
        assert topic_problem(promise.topic) is None
        assert len(promise.topic.split()) <= MAX_TOPIC_WORDS
        length = merged_length(promise.block, count_words) + 2
        assert promise.tokens == Positions().length(length)


@given(plans())
def test_siblings_have_different_topics_and_no_sync_is_idle(case):
    text, plan = case
    try:
        response = apply(plan, text, count_words)
    except PlanError:
        return
    codes = {found.code for found in check(verified(response, text))}
    assert not codes & {"W201", "W205"}, codes
    for nodes in [response.nodes, *(promise.block for promise, _ in response.promises())]:
        assert not nodes or not isinstance(nodes[-1], Sync)


def test_a_sync_stands_where_the_plan_says():
    text = "Intro. First block of words. Second block of words. The end."
    first, second = text.index(" First"), text.index(" Second")
    end = text.index(" The end")
    response = apply(Plan((Block(first, second, "a"), Block(second, end, "b")), (end,)), text, count_words)
    kinds = [type(node) for node in response.nodes]
    assert kinds[1:4] == [Promise, Promise, Sync]
    assert plain_text(response.nodes[4:]) == " The end."
    assert block_lengths(response, count_words) == [4, 4]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan((Block(0, 99),)), "not in a text"),
        (Plan((Block(3, 3),)), "not in a text"),
        (Plan((Block(0, 6, "a"), Block(4, 9, "b"))), "overlaps"),
        (Plan((Block(0, 6, "a"), Block(0, 6, "b"))), "overlaps"),
        (Plan((Block(0, 6, "a"),), (99,)), "not in a text"),
        (Plan((Block(0, 3, "same"), Block(4, 6, "SAME"))), "topic"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(plan, message):
    with pytest.raises(PlanError, match=message):
        apply(plan, "ab ab 12 34", count_words)


def test_a_changed_answer_is_never_written():
    response = apply(Plan(), "some text", count_words)
    with pytest.raises(PlanError, match="changes"):
        verified(response, "some other text")
