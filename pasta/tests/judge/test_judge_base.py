"""Judges by name, and the baseline."""

import pytest

from pasta.errors import CorruptModel, UsageError
from pasta.judge.base import Comparison
from pasta.judge.learn import make_model
from pasta.judge.open import open_judge
from pasta.judge.reward import RewardModel
from support import byte_tokenizer, tiny_model


def test_the_longer_answer_wins():
    judge = open_judge("length")
    asked = [Comparison("Why?", "ab", "abc"), Comparison("Why?", "abc", "ab"), Comparison("Why?", "ab", "xy")]
    assert judge.compare(asked) == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("spec", ["", "oracle", "reward:", "features", "llm:gpt", "length:3"])
def test_a_wrong_name_says_which_there_are(spec):
    with pytest.raises(UsageError, match="llm:MODEL@BASE_URL"):
        open_judge(spec)


def test_weights_that_are_cut_short_are_named(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    for load in (make_model, lambda folder: RewardModel(folder, device="cpu").rewards([("Why?", "So.")])):
        with pytest.raises(CorruptModel, match=r"model\.safetensors is damaged or cut short"):
            load(str(tmp_path))
