"""Judges by name, and the baseline."""

import pytest

from pasta.errors import UsageError
from pasta.judge.base import Comparison
from pasta.judge.open import open_judge


def test_the_longer_answer_wins():
    judge = open_judge("length")
    asked = [Comparison("Why?", "ab", "abc"), Comparison("Why?", "abc", "ab"), Comparison("Why?", "ab", "xy")]
    assert judge.compare(asked) == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("spec", ["", "oracle", "reward:", "features", "llm:gpt", "length:3"])
def test_a_wrong_name_says_which_there_are(spec):
    with pytest.raises(UsageError, match="llm:MODEL@BASE_URL"):
        open_judge(spec)
