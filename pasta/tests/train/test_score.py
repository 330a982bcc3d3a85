"""Scores and pairs: the paper's formula, the guards, and who is the best and the worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from pasta.judge.base import Comparison, NotJudged, all_judged
from pasta.lang import parse
from pasta.train.pairs import extremes, form_of, given, make_pairs
from pasta.train.score import Guards, Score, faults, quality, redundancy, score, speedup

RIVERS = "Water runs down from the hills to the sea and shapes the land it crosses."
DESERTS = "Dry sand and rock stretch far under a burning sun with hardly any rain."


def answer(*blocks: str) -> str:
    return "".join(
        f'<promise topic="part {n}" tokens=3/><async>{text}</async>' for n, text in enumerate(blocks, start=1)
    )


def sample(number: int, annotated: str = RIVERS, **changes: Any) -> dict[str, Any]:
    row = {
        "index": 0, "sample": number, "prompt": "Describe.", "annotated": annotated, "text": RIVERS,
        "tokens": [number], "content_tokens": 100, "critical_path": 50, "threads": 1, "finish_reason": "stop",
    }  # fmt: skip
    return {**row, **changes}


def baseline(tokens: int, **changes: Any) -> dict[str, Any]:
    return {**sample(0, text=DESERTS, content_tokens=tokens), **changes}


class Fixed:
    """A judge that was told beforehand."""

    name = "fixed"

    def __init__(self, chances: dict[str, float]):
        self.chances = chances
        self.asked: list[Comparison] = []

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        self.asked += comparisons
        return [self.chances[each.reference] for each in comparisons]


def test_the_papers_formula() -> None:
    judge = Fixed({"theirs": 0.6, "gold": 0.2})
    (got,) = score([sample(0)], {0: {"baseline": "theirs", "reference": "gold"}}, {0: baseline(120)}, judge)
    assert got.speedup == 120 / 50
    assert got.quality == pytest.approx((0.8 + 0.1) / (1.2 + 0.1))
    assert got.chances == {"baseline": 0.6, "reference": 0.2}
    for weight in (1, 2, 4, 8):
        assert got.total(weight) == pytest.approx(2.4 + weight * got.quality)
    assert got.total(math.inf) == got.quality
    assert [each.answer for each in judge.asked] == [RIVERS, RIVERS]


def test_quality_grows_with_every_chance_and_stays_finite() -> None:
    chances = [0.0, 0.01, 0.3, 0.5, 0.7, 0.99, 1.0]
    alone = [quality([chance]) for chance in chances]
    assert alone == sorted(alone)
    assert len(set(alone)) == len(alone)
    assert quality([0.5]) == quality([0.5, 0.5]) == 1.0
    assert 0 < quality([0.0, 0.0]) < quality([1.0, 1.0]) < math.inf
    assert all(quality([chance, 0.4]) < quality([chance, 0.41]) for chance in chances)


def test_speed_grows_with_a_shorter_path_but_not_with_a_shorter_answer() -> None:
    guards = Guards(short=0.7)
    speeds = [speedup(100, 100, path, guards) for path in (100, 80, 40, 20)]
    assert speeds == [1.0, 1.25, 2.5, 5.0]
    assert speedup(100, 70, 35, guards) == 100 / 35
    assert speedup(100, 20, 20, guards) == 1.0, "one short sentence is not five times as fast"
    assert speedup(100, 40, 10, guards) == 4.0, "what it gains by forking it keeps"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"finish_reason": "length"}, "cut off"),
        ({"text": "No."}, "empty"),
        ({"text": f"{RIVERS}\n" * 3}, "loops"),
        ({"annotated": answer(RIVERS, DESERTS)}, None),
        ({"annotated": answer(RIVERS, DESERTS, RIVERS.upper())}, "blocks repeat"),
        ({"annotated": answer(f"{RIVERS} {answer(DESERTS)}", "Houses, streets and markets.")}, None),
    ],
)
def test_faults(changes: dict[str, Any], fault: str | None) -> None:
    row = sample(0, **changes)
    assert faults(row, redundancy(parse(row["annotated"])), Guards()) == ((fault,) if fault else ())


@pytest.mark.parametrize(
    ("tokens", "other", "fault"),
    [
        (80, baseline(100), None),
        (79, baseline(100), "too short"),
        (190, baseline(100), None),
        (191, baseline(100), "runs on"),
        (20, baseline(512, finish_reason="length"), None),
        (20, baseline(300, text=f"{RIVERS}\n" * 3), None),
    ],
)
def test_length_is_held_to_the_baselines_where_that_is_sound(
    tokens: int, other: dict[str, Any], fault: str | None
) -> None:
    bounds = Guards(shortest=0.8, longest=1.5)
    row, told = sample(0, content_tokens=tokens), {0: {"baseline": "theirs"}}
    (got,) = score([row], told, {0: other}, Fixed({"theirs": 0.5}), bounds)
    assert got.faults == ((fault,) if fault else ())
    (free,) = score([row], told, {0: other}, Fixed({"theirs": 0.5}))
    assert free.faults == (), "no bound unless there is one"


def test_to_be_brief_is_no_way_to_win() -> None:
    """As a baseline learns it that is treated equally: what it says one after another is faster the less it is."""
    usual, brief = sample(0, content_tokens=100, critical_path=100), sample(1, content_tokens=40, critical_path=40)
    told, judge = {0: {"baseline": "theirs"}}, Fixed({"theirs": 0.5})
    for guards, best in ((Guards(), brief), (Guards(shortest=0.8), usual)):
        pair = extremes(score([usual, brief], told, {0: baseline(90)}, judge, guards), 0.2)
        assert pair and pair[0].sample == best["sample"]


def test_two_pairs_a_prompt() -> None:
    """The best against the worst, which has a fault, and against the worst that has none."""
    samples = [sample(number) for number in range(4)]
    scores = [make(0, 2.0, 1.0), make(1, 3.0, 0.5, "loops"), make(2, 1.0, 1.0), make(3, 1.5, 1.0)]
    pairs = make_pairs(samples, scores, 0.2, clean=True, a_prompt=2)
    assert [(pair["chosen_tokens"], pair["rejected_tokens"], pair["n"]) for pair in pairs] == [
        ([0], [1], 4), ([0], [2], 3),
    ]  # fmt: skip
    assert make_pairs(samples, scores, 0.2, clean=True) == pairs[:1]
    assert make_pairs(samples, scores, 0.2, min_gap=1.1, clean=True, a_prompt=2) == pairs[:1], "too near"
    sound = [each for each in scores if not each.faults]
    assert len(make_pairs(samples, sound, 0.2, clean=True, a_prompt=2)) == 1, "not the same twice"


def test_how_to_fork_is_learned_and_not_when() -> None:
    """`alike`: an answer that is no list and forks is set against such alone, and one form of a prompt is learned."""
    forked = '<promise topic="Rivers" tokens=1/><async>Rivers.</async>'
    samples = [sample(number, annotated=forked if number < 2 else RIVERS) for number in range(5)]
    scores = [make(0, 3.0, 1.0), make(1, 2.0, 1.0), make(2, 1.0, 1.0), make(3, 0.9, 1.0),
              make(4, 0.8, 1.0)]  # fmt: skip
    assert [
        (pair["chosen_tokens"], pair["rejected_tokens"], pair["n"]) for pair in make_pairs(samples, scores, 1.0)
    ] == [([0], [4], 5)], "else it would learn to fork, which is fast"
    pairs = make_pairs(samples, scores, 1.0, clean=True, alike=True)
    assert [(pair["chosen_tokens"], pair["rejected_tokens"], pair["n"]) for pair in pairs] == [([2], [4], 3)]
    pairs = make_pairs(samples[:2], scores[:2], 1.0, clean=True, alike=True)
    assert [(pair["chosen_tokens"], pair["rejected_tokens"], pair["n"]) for pair in pairs] == [([0], [1], 2)]
    assert make_pairs(samples[1:3], scores[1:3], 1.0, alike=True) == [], "one alone has none to be set against"


def test_words_before_a_list_do_not_cost_it_the_comparison() -> None:
    """Else a model begins whatever it is asked with an item, since that saves steps."""
    items = "1. The Nile\n2. The Rhine\n3. The Po"
    forked = '1. <promise topic="Nile" tokens=1/>'
    led = f"Some rivers:\n\n{items}"
    samples = [sample(0, forked, text=items), sample(1, items, text=items), sample(2, led, text=led),
               sample(3, led, text=led)]  # fmt: skip
    scores = [make(0, 4.0, 1.0), make(1, 3.0, 1.0), make(2, 2.0, 1.0), make(3, 1.0, 1.0)]
    assert {form_of(each) for each in samples[:2]} == {("list", True, False)}
    assert {form_of(each) for each in samples[2:]} == {("list", False, False)}
    for some, pair in ((samples[:2], (0, 1)), (samples[2:], (2, 3)), (samples[1:3], None)):
        drawn = scores[some[0]["sample"] : some[-1]["sample"] + 1]
        found = [(each["chosen_tokens"], each["rejected_tokens"]) for each in make_pairs(some, drawn, 1.0, alike=True)]
        assert found == ([([pair[0]], [pair[1]])] if pair else [])
    (either,) = make_pairs(samples, scores, 1.0, alike=True)
    assert (either["chosen_tokens"], either["n"]) in (([0], 2), ([2], 2))


def test_what_makes_an_answer_a_list_is_given() -> None:
    items = "1. The Nile\n2. The Rhine\n3. The Po"
    led = f"Some rivers:\n\n{items}"
    assert given(items) == len("1. ")
    assert given(led) == len("Some rivers:\n\n1. ")
    assert given("The Nile and the Po.") == given("1. The Nile\n2. The Po") == 0, "no list"
    samples = [sample(0, led, text=led), sample(1, led, text=led)]
    scores = [make(0, 2.0, 1.0), make(1, 1.0, 1.0)]
    (pair,) = make_pairs(samples, scores, 1.0, alike=True)
    assert pair["chosen_given"] == pair["rejected_given"] == given(led)
    (pair,) = make_pairs(samples, scores, 1.0)
    assert not {"chosen_given", "rejected_given"} & set(pair), "where forms are compared, they are learned"


def make(number: int, speed: float, good: float, *found: str) -> Score:
    return Score(0, number, speed, good, 0.0, found, {"baseline": 0.5})


def test_lambda_moves_from_speed_to_quality() -> None:
    fast, good, slow = make(0, 4.0, 0.3), make(1, 1.0, 1.0), make(2, 1.2, 0.2)
    best = {weight: extremes([fast, good, slow], weight) for weight in (0.0, 1.0, 8.0, math.inf)}
    assert [pair and (pair[0].sample, pair[1].sample) for pair in best.values()] == [(0, 1), (0, 2), (1, 2), (1, 2)]


def test_a_faulty_sample_never_wins_and_has_no_speed() -> None:
    broken, plain = make(0, 9.0, 5.0, "loops"), make(1, 1.0, 0.5)
    assert broken.total(1.0) == 5.0
    assert extremes([broken, plain], 1.0) == (plain, broken)
    assert extremes([broken, make(1, 1.0, 0.5, "cut off")], 1.0) is None


def test_pairs_hold_what_training_needs() -> None:
    samples = [sample(0), sample(1, finish_reason="length"), sample(2)]
    scores = [make(0, 2.0, 1.0), make(1, 3.0, 0.1, "cut off"), make(2, 1.5, 0.9)]
    (pair,) = make_pairs(samples, scores, 4.0)
    assert (pair["chosen_tokens"], pair["rejected_tokens"], pair["n"]) == ([0], [1], 3)
    assert (pair["chosen_ended"], pair["rejected_ended"]) == (True, False)
    assert pair["chosen_score"]["total"] == 6.0
    assert make_pairs(samples, [make(0, 2.0, 1.0), make(2, 2.0, 1.0)], 4.0) == [], "no pair where all are alike"
    assert make_pairs(samples, scores, 4.0, min_gap=100.0) == []


def test_redundancy_costs_even_where_it_is_no_fault() -> None:
    half = f"{RIVERS} Yet many of the rivers end in deserts, lakes, marshes."
    judge = Fixed({"theirs": 0.5})
    told = {0: {"baseline": "theirs"}}
    both = [sample(0, answer(RIVERS, DESERTS)), sample(1, answer(RIVERS, half))]
    apart, alike = score(both, told, {0: baseline(100)}, judge, Guards(overlap=1.0, cost=0.5))
    assert alike.penalty == pytest.approx(0.5 * alike.redundancy)
    assert alike.penalty > apart.penalty and not alike.faults
    assert alike.total(1) == pytest.approx(alike.speedup + alike.quality - alike.penalty)
    assert Score.from_dict(alike.to_dict()) == alike
    old = {name: value for name, value in alike.to_dict().items() if name != "penalty"}
    assert Score.from_dict(old).penalty == 0, "scores of before are still read"


class Silent:
    """Gives a server's reason in place of a verdict on what it does not know."""

    name = "llm:silent"

    def __init__(self, known: str):
        self.known = known

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        verdicts = [0.75 if each.answer == self.known else None for each in comparisons]
        return all_judged(self.name, verdicts, "status 400: no such words")


def test_a_sample_without_a_verdict_has_no_score(capsys: pytest.CaptureFixture[str]) -> None:
    samples = [sample(0), sample(1, text="Rivers end in the sea, and lakes do not.")]
    told = {0: {"baseline": "Rivers."}}
    (found,) = score(samples, told, {0: baseline(100)}, Silent(samples[1]["text"]))
    assert (found.sample, found.chances) == (1, {"baseline": 0.75})
    told_of = capsys.readouterr().err
    assert "1 of 2 comparisons are not judged: status 400: no such words" in told_of and "again" in told_of
    with pytest.raises(NotJudged, match="2 of 2 comparisons"):
        score(samples, told, {0: baseline(100)}, Silent("another"))
