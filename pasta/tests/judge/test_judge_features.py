"""The linear judge."""

import json
import random

import pytest
from test_spoil import LIST

from pasta.errors import CorruptModel, UsageError
from pasta.judge.base import Comparison
from pasta.judge.features import NAMES, FeatureJudge, features, fit
from pasta.judge.open import open_judge
from pasta.judge.preferences import Answer, Contest, prompt_key
from pasta.judge.reward import Fold
from pasta.judge.spoil import double, loop


def contest(number: int) -> Contest:
    rng = random.Random(number)
    text = LIST.replace("garden", f"garden {number}")
    prompt = f"What helps garden {number} grow?"
    bad = [loop(text, rng), double(text, rng), f"I'm sorry, I cannot say {number}."]
    answers = [Answer(prompt, f"bad{k}", spoiled, 0.01) for k, spoiled in enumerate(bad)]
    return Contest(prompt, Answer(prompt, "ref", text, 0.5), (*answers, Answer(prompt, "good", text + " Done.", 0.6)))


@pytest.fixture(scope="module")
def judge():
    linear = [fit([contest(n) for n in range(20) if n % 2 != k], 0.5, 0.25) for k in (0, 1)]
    return FeatureJudge(
        linear, [Fold("", 0.0, 1.0, 1.0)] * 2, {prompt_key(contest(n).prompt): n % 2 for n in range(20)}
    )


def test_it_knows_repetition(judge):
    other = contest(99)
    for answer in other.answers[:3]:
        (won,) = judge.compare([Comparison(other.prompt, other.reference.text, answer.text)])
        assert won < 0.5, answer.model


def test_written_and_read_it_is_the_same(judge, tmp_path):
    judge.write(tmp_path / "features.json")
    read = open_judge(f"features:{tmp_path / 'features.json'}")
    asked = [Comparison(c.prompt, c.reference.text, a.text) for c in map(contest, (3, 4, 99)) for a in c.answers]
    assert read.compare(asked) == pytest.approx(judge.compare(asked))


def test_without_the_control_length_counts(judge, tmp_path):
    """What the control takes off, it takes off the longer answer."""
    sloped = FeatureJudge(judge.linear, [Fold("", 0.7, 1.0, 1.0)] * 2, judge.prompts)
    sloped.write(tmp_path / "features.json")
    level, raw = (open_judge(f"{kind}:{tmp_path / 'features.json'}") for kind in ("features", "features-raw"))
    assert (level.name, raw.name) == ("features", "features-raw")
    short, long = contest(3).reference.text, contest(3).reference.text * 3
    asked = [Comparison(contest(3).prompt, short, long)]
    assert raw.compare(asked) == judge.compare(asked) and level.compare(asked) < raw.compare(asked)


def test_a_prompt_is_scored_by_the_fold_that_did_not_see_it(judge):
    pair = (contest(3).prompt, contest(3).answers[0].text)
    assert judge.log_odds(pair) == judge.linear[1].reward(pair)
    unknown = (contest(99).prompt, contest(99).answers[0].text)
    assert judge.log_odds(unknown) == pytest.approx(sum(one.reward(unknown) for one in judge.linear) / 2)


def test_empty_and_odd_texts_have_features():
    for text in ("", "\n\n", "!!!", "汉字 and more", "a" * 10000):
        assert len(features("Why?", text)) == len(NAMES)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"features": ["length"]}')
    with pytest.raises(CorruptModel, match="pasta train judge"):
        open_judge(f"features:{tmp_path / 'x.json'}")


@pytest.mark.parametrize(("edit", "told"), [
    (lambda record: record["folds"][1]["weights"].pop(), r"weights are .*, expected a list of 22 numbers"),
    (lambda record: record["folds"][0]["weights"].__setitem__(2, "0.5"), r"words_a_sentence is '0.5', expected a num"),
    (lambda record: record["folds"][0].update(weights=None), "weights are None"),
    (lambda record: record["folds"][0].update(scale=float("nan")), "scale is nan, expected a number"),
    (lambda record: record["folds"][0].update(scale=10**400), "int too large"),
    (lambda record: record["folds"][0].pop("raw_scale"), "it has no 'raw_scale'"),
    (lambda record: record["folds"].__setitem__(0, [1]), "list indices"),
    (lambda record: record.update(folds=[]), r"folds are \[\], expected a list of one or more"),
    (lambda record: record.update(folds={}), r"folds are \{\}"),
    (lambda record: record["folds"].pop(), "is of fold 1, expected 0 to 0"),
    (lambda record: record.update(prompts={"a": "0"}), "prompt a is of fold '0'"),
    (lambda record: record.update(prompts={"a": -1}), "prompt a is of fold -1"),
    (lambda record: record.update(prompts=["a"]), "prompts are"),
])  # fmt: skip
def test_an_edited_file_is_refused_with_what_is_wrong_in_it(judge, tmp_path, edit, told):
    path = tmp_path / "features.json"
    judge.write(path)
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))
    with pytest.raises(CorruptModel, match=rf"features.json is no judge of features: .*{told}.*pasta train judge"):
        open_judge(f"features:{path}")


def test_a_folder_is_told_which_file_to_name(judge, tmp_path):
    judge.write(tmp_path / "features.json")
    with pytest.raises(UsageError, match=rf"is a folder, .*name the judge features:{tmp_path}/features\.json"):
        open_judge(f"features:{tmp_path}")


def test_a_file_that_is_nested_without_end_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(CorruptModel, match="recursion"):
        open_judge(f"features:{tmp_path / 'x.json'}")


def test_half_a_character_is_compared(judge):
    assert 0 < judge.compare([Comparison("Why \ud800?", "Because.", "Half \udc00 of it.")])[0] < 1
