"""Reading preferences, and dealing prompts into folds."""

import json
import math

import pytest

from pasta.errors import UsageError
from pasta.judge.preferences import deal, prompt_key, read_contests


def test_answers_are_gathered_by_prompt(data):
    contests = read_contests(data, "teacher")
    assert len(contests) == 20
    assert {contest.reference.model for contest in contests} == {"teacher"}
    assert {answer.model for answer in contests[0].answers} == {"able", "fair", "poor", "lost"}
    assert contests[0].reference.preference == 0.5 and contests[0].reference.logit == 0
    assert len(read_contests(data, "teacher", limit=3)) == 3


def test_what_reads_zero_is_out_of_sight(tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [("ref", 1.5), ("a", 1.0), ("b", 1.0001), ("c", 2.0)]
    path.write_text("".join(
        json.dumps({"instruction": "Q", "generator": name, "output": name, "preference": p}) + "\n" for name, p in rows
    ))  # fmt: skip
    (contest,) = read_contests(str(path), "ref")
    a, b, c = contest.answers
    assert (a.is_censored, b.is_censored, c.is_censored) == (True, False, True)
    assert a.logit < b.logit < 0 < c.logit
    assert math.isclose(a.logit, -c.logit)


@pytest.mark.parametrize(("change", "said"), [
    ({"preference": 0.3}, "expected 1"), ({"output": None}, "row 1"), ({"preference": "1"}, "row 1"),
])  # fmt: skip
def test_a_row_that_is_none_is_named(tmp_path, change, said):
    path = tmp_path / "p.jsonl"
    row = {"instruction": "Q", "generator": "a", "output": "x", "preference": 1.2}
    path.write_text(json.dumps({**row, **change}) + "\n")
    with pytest.raises(UsageError, match=said):
        read_contests(str(path), "ref")


def test_without_the_reference_nothing_can_be_learned(data):
    with pytest.raises(UsageError, match="nobody"):
        read_contests(data, "nobody")


def test_prompts_without_the_reference_are_counted(tmp_path, capsys):
    rows = [("a?", "ref"), ("a?", "x"), ("b?", "x"), ("c?", "ref")]
    told = [{"instruction": asked, "generator": who, "output": "o", "preference": 1.5} for asked, who in rows]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    assert [contest.prompt for contest in read_contests(str(tmp_path / "p.jsonl"), "ref")] == ["a?"]
    assert "of 3 prompts 2 are left out: no answer of 'ref', or none of another" in capsys.readouterr().err


def test_folds_are_even_and_do_not_depend_on_the_order(data):
    contests = read_contests(data, "teacher")
    folds = deal(contests, 2)
    assert sorted(folds.values()) == [0] * 10 + [1] * 10
    assert deal(contests[::-1], 2) == folds
    assert folds[prompt_key(f"  {contests[0].prompt}\n")] == folds[prompt_key(contests[0].prompt)]
