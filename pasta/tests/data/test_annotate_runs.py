"""From dependences, given here by hand, to runs of blocks."""

from itertools import pairwise

import pytest
from data_texts import LIST
from hypothesis import given
from hypothesis import strategies as st

from pasta.core.vocabulary import Vocabulary
from pasta.data.example import Example
from pasta.data.independence import probes_of
from pasta.data.plan import Block, Plan
from pasta.data.probes import Probe
from pasta.data.runs import Element, Run, choose, grow, weigh
from pasta.data.units import cut
from support import byte_tokenizer

WORDS = "apples bread cheese dates eggs flour".split()
PROSE = " ".join(f"The shop sells {word} in brown bags." for word in WORDS)


def answer_of(text):
    example = Example(0, ({"role": "user", "content": "Tell me."},), text)
    return cut(example, Vocabulary(byte_tokenizer()), max_units=24, min_tokens=12, max_prompt=64)


def rises(needs):
    """A unit that needs an earlier one loses two nats a letter where it does not see it."""

    def rise(probe, unit):
        hidden = set(range(probe.start, probe.first))
        return 1000.0 if hidden & needs.get(unit, set()) else 0.0

    return rise


def blocks(answer, start, needs, **options):
    sizes = {"window": 16, "ahead": 4, **options}
    grown = grow(answer, start, rises(needs), 0.1, **sizes)
    assert not grown.wanted
    return [(element.first, element.last) for element in grown.elements]


def test_independent_sentences_are_blocks_of_their_own():
    assert blocks(answer_of(PROSE), 0, {}) == [(n, n) for n in range(6)]


def test_a_sentence_that_needs_the_one_before_joins_its_block():
    assert blocks(answer_of(PROSE), 1, {3: {2}, 4: {3}}) == [(1, 1), (2, 4), (5, 5)]


def test_a_sentence_that_needs_an_earlier_block_takes_all_between_along():
    assert blocks(answer_of(PROSE), 0, {4: {2}}) == [(0, 0), (1, 1), (2, 4), (5, 5)]
    assert blocks(answer_of(PROSE), 0, {3: {0}}) == [(0, 3), (4, 4), (5, 5)]


def test_a_list_item_joins_nothing_so_the_run_ends_before_it():
    answer = answer_of(LIST)
    assert blocks(answer, 1, {3: {2}}) == [(1, 1), (2, 2)]
    assert blocks(answer, 2, {3: {2}}) == [(2, 2)]


def test_a_conclusion_that_needs_the_items_comes_after_the_sync():
    assert blocks(answer_of(LIST), 1, {4: {1, 2, 3}}) == [(1, 1), (2, 2), (3, 3)]


def test_a_sentence_that_says_that_it_leans_back_is_believed():
    leaning = PROSE.replace("The shop sells dates", "It also sells dates")
    assert blocks(answer_of(leaning), 1, {}) == [(1, 1), (2, 3), (4, 4), (5, 5)]
    summing = PROSE.replace("The shop sells dates", "Overall, the shop sells dates")
    assert blocks(answer_of(summing), 1, {}) == [(1, 1), (2, 2)]
    assert blocks(answer_of(LIST), 1, {}) == [(1, 1), (2, 2), (3, 3)]  # "With these in place, …"


def test_what_is_not_known_is_asked_for():
    answer = answer_of(PROSE)
    grown = grow(answer, 0, lambda probe, unit: None, 0.1, window=16, ahead=3)
    assert grown.wanted == tuple(Probe(0, k, k) for k in (1, 2, 3))


def test_the_first_sentence_alone_is_no_run():
    answer = answer_of(PROSE)
    assert weigh(answer, [Element(0, 0, True, 0.0)]) == []
    [pair, triple] = weigh(answer, [Element(n, n, True, 0.0) for n in range(3)])
    assert 0 < pair.saved < triple.saved


@st.composite
def candidate_runs(draw):
    runs = []
    for _ in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 4))
        last = draw(st.integers(first + 1, 5))
        elements = (Element(first, first, True, 0.0), Element(first + 1, last, True, 0.0))
        runs.append(Run(elements, draw(st.integers(1, 60)), draw(st.sampled_from([0.0, 0.5, 3.0, 20.0]))))
    return runs


@given(candidate_runs(), st.sampled_from([0.0, 1.0, 5.0, 100.0]))
def test_the_choice_is_within_the_budget_and_does_not_overlap(runs, allowed):
    chosen = choose(answer_of(PROSE), runs, allowed, min_saved=1)
    assert sum(run.rise for run in chosen) <= allowed
    assert all(first.last < second.first for first, second in pairwise(chosen))
    free = [run for run in runs if run.rise == 0]
    if free:
        assert sum(run.saved for run in chosen) >= 1
    if sum(run.rise for run in runs) <= allowed:  # then only time counts
        assert sum(run.saved for run in chosen) == most_saved(runs)


def most_saved(runs, at=0):
    later = [run for run in runs if run.first >= at]
    return max((run.saved + most_saved(runs, run.last + 1) for run in later), default=0)


@pytest.mark.parametrize(("syncs", "starts"), [((), [1, 1, 1]), ((2,), [1, 1, 3])])
def test_a_plan_as_probes(syncs, starts):
    answer = answer_of(LIST)
    pieces = [unit.piece for unit in answer.units]
    plan = Plan(
        tuple(Block(piece.start, piece.end) for piece in pieces[1:4]), tuple(pieces[index].end for index in syncs)
    )
    assert [(probe.start, probe.first) for probe in probes_of(answer, plan)] == list(
        zip(starts, (1, 2, 3), strict=True)
    )
