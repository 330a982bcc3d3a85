from __future__ import annotations

import pytest

from pasta.errors import UsageError
from pasta.eval.tasks import CHECKS, built_in, holds, last_number, score
from pasta.tasks.question import Question

RIGHT_AND_WRONG = [
    ({"kind": "bullets", "count": 2}, "Here:\n- one\n* two", "- one\n- two\n- three"),
    ({"kind": "numbered", "count": 2}, "1. a\n**2.** b", "1. a"),
    ({"kind": "words", "least": 2, "most": 3}, "one two", "one two three four"),
    ({"kind": "sentences", "most": 1}, "It is blue.", "It is. Yes."),
    ({"kind": "contains", "words": ["Hive", "bee"]}, "A bee in a hive.", "Bees in a hive."),
    ({"kind": "contains", "words": ["so"], "times": 2}, "so so", "so"),
    ({"kind": "excludes", "words": ["snow"]}, "Cold and snowy.", "Snow falls."),
    ({"kind": "no_commas"}, "a b", "a, b"),
    ({"kind": "lower_case"}, "all small 3!", "Not small"),
    ({"kind": "upper_case"}, "MIND THE GAP!", "MIND the GAP"),
    ({"kind": "ends_with", "phrase": "That is all."}, "Hm. That is all.", "That is all. Bye."),
    ({"kind": "starts_with", "phrase": "Certainly"}, "Certainly, a poem", "A poem, certainly"),
    ({"kind": "json", "keys": ["a"]}, '```json\n{"a": 1}\n```', '{"b": 1}'),
    ({"kind": "json", "keys": ["a"]}, '{"a": [[]]}', '{"a": ' + 100_000 * "["),
    ({"kind": "paragraphs", "count": 2}, "a\n\nb", "a\nb"),
    ({"kind": "quoted"}, '"Arr!"', "Arr!"),
    ({"kind": "angular_title"}, "<<Rain>>\nDrop", "Rain"),
    ({"kind": "placeholders", "least": 2}, "[name] and [date]", "[name]"),
]


@pytest.mark.parametrize(("check", "right", "wrong"), RIGHT_AND_WRONG, ids=lambda value: str(value)[:30])
def test_a_condition_holds_or_not(check: dict, right: str, wrong: str) -> None:
    assert holds(check, right) and not holds(check, wrong)


def test_every_kind_of_condition_is_tested_here_and_used() -> None:
    assert {check["kind"] for check, *_ in RIGHT_AND_WRONG} == set(CHECKS)
    questions = built_in("constraints")
    used = [check for question in questions for check in question.row["checks"]]
    assert {check["kind"] for check in used} == set(CHECKS)
    assert len(questions) == 60
    for check in used:  # no condition has an option that its check does not take
        holds(check, "text")


def test_scores() -> None:
    both = Question("0", "p", {"checks": [{"kind": "no_commas"}, {"kind": "words", "most": 1}]})
    assert score(both, "one two") == 0.5
    assert score(Question("0", "p", {"answer": 12}), "It is 3, so 12.") == 1
    assert score(Question("0", "p", {"answer": "Two steps.\n#### 1,200"}), "That makes $1,200.") == 1
    assert score(Question("0", "p", {"answer": 12}), "no idea") == 0
    assert score(Question("0", "p", {}), "anything") is None
    assert last_number("-3.5") == -3.5


def test_word_problems_are_the_same_in_every_run_and_right() -> None:
    problems = built_in("arithmetic")
    assert problems == built_in("arithmetic") and len(problems) == 60
    first = problems[0]
    a, b = (int(word) for word in first.prompt.split() if word.isdigit())
    assert first.row["answer"] == a + b
    left = problems[10]
    a, b = (int(word) for word in left.prompt.split() if word.isdigit())
    assert left.row["answer"] == a - b


def test_an_unknown_condition_is_named() -> None:
    with pytest.raises(UsageError, match="unknown check 'rhymes'"):
        holds({"kind": "rhymes"}, "x")
