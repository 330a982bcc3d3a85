"""The steps `score` and `pairs` over samples that are written down: the same prompts as another run, any topic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pasta.data.lines import read_lines, write_lines
from pasta.errors import PastaError, UsageError
from pasta.judge.features import NAMES, FeatureJudge, Linear
from pasta.judge.reward import Fold
from pasta.train.pairs import make_pairs
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_round import rounds
from pasta.train.preference_run import run
from pasta.train.score import Score

PROMISE, LENGTH, OPEN, CLOSE = 90, 91, 92, 93
TEXTS = {
    "Rivers": "Water runs down from the hills to the sea and shapes the land it crosses.",
    "Deserts": "Dry sand and rock stretch far under a burning sun with hardly any rain.",
    "Forests": "Trees grow close together, and many animals live in their shade all year.",
    "Large cities and their streets": "People built houses and markets where trade routes once met.",
}
DIGESTS = ["caef9808421e76fb", "7faa29b981a4dd9d"]
GOOD, AGAIN = ["Rivers", "Deserts", "Forests"], ["Rivers", "Deserts", "Rivers"]
LONG = ["Rivers", "Deserts", "Large cities and their streets"]


def answer(index: int, number: int, topics: Sequence[str], path: int = 20) -> dict[str, Any]:
    annotated, tokens = "Some:", list[Any]()
    for place, topic in enumerate(topics):
        annotated += f'\n{place}.<promise topic="{topic}" tokens=3/><async> {TEXTS[topic]}</async>'
        tokens += [place, PROMISE, *range(10, 10 + len(topic.split())), LENGTH, [OPEN, 50 + place, CLOSE]]
    return {
        "index": index, "sample": number, "promise": PROMISE, "prompt": f"Places {index}?", "annotated": annotated,
        "text": " ".join(TEXTS[topic] for topic in topics), "tokens": tokens, "content_tokens": 60,
        "critical_path": path, "threads": 4, "finish_reason": "stop",
    }  # fmt: skip


#: Of five prompts: the first three have a best and a worst, the fourth two that are alike, the fifth only faults.
SAMPLES = [
    *(answer(0, number, topics) for number, topics in enumerate((AGAIN, GOOD, LONG))),
    answer(1, 0, GOOD), answer(1, 1, GOOD, path=40),
    answer(2, 0, GOOD), answer(2, 1, LONG),
    answer(3, 0, GOOD), answer(3, 1, GOOD, path=21),
    answer(4, 0, LONG), answer(4, 1, AGAIN),
]  # fmt: skip


def choose(tmp_path: Path, name: str = "out", samples: Sequence[dict[str, Any]] = SAMPLES, **changes: Any) -> Path:
    """Scores the samples and makes pairs of them; returns the file of pairs."""
    output, prompts = tmp_path / name, tmp_path / "prompts.jsonl"
    (output / "round-1").mkdir(parents=True, exist_ok=True)
    write_lines(prompts, ({"prompt": f"Places {index}?"} for index in range(5)))
    write_lines(output / "round-1" / "samples.jsonl", samples)
    write_lines(output / "baseline.jsonl", (answer(index, 0, GOOD, path=60) for index in range(5)))
    usual = {"prompts": str(prompts), "output": str(output), "judge": "length", "steps": "score,pairs",
             "lambdas": "0.5", "clean": True, "min_gap": 0.5}  # fmt: skip
    run(PreferenceConfig(**{**usual, **changes}))
    return output / "round-1" / "pairs-0.5.jsonl"


def prompts_of(pairs: Path) -> list[int]:
    return sorted({row["index"] for row in read_lines(pairs)})


def test_pairs_come_out_byte_for_byte_as_ever(tmp_path: Path) -> None:
    """Whoever has scores and pairs of an earlier version goes on with the same ones."""
    pairs = choose(tmp_path)
    digests = [hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in (pairs, pairs.with_name("scores.jsonl"))]
    assert digests == DIGESTS
    assert "any_topic" not in json.loads(pairs.with_name("scoring.json").read_text())


def test_alike_answers_have_one_form_and_each_form_its_share(tmp_path: Path) -> None:
    """Of five answers to a prompt three are lists, of which one does not fork, and two are plain."""

    def written(index: int, number: int, text: str, path: int) -> dict[str, Any]:
        return {**answer(index, number, [], path), "annotated": text, "text": text, "tokens": [50]}

    plain, listed = TEXTS["Rivers"], "\n".join(f"{place}. {text}" for place, text in enumerate(TEXTS.values(), 1))
    samples = []
    for index in range(200):
        forks = [{**answer(index, number, GOOD, 20 + number), "text": listed} for number in range(2)]
        samples += [*forks, written(index, 2, listed, 60), written(index, 3, plain, 10), written(index, 4, plain, 60)]
    scores = [Score(row["index"], row["sample"], 60 / row["critical_path"], 1.0, 0.0, (), {}) for row in samples]
    pairs = make_pairs(samples, scores, 1.0, alike=True)
    sides = [(row["chosen_score"]["sample"], row["rejected_score"]["sample"], row["n"]) for row in pairs]
    assert set(sides) == {(0, 2, 3), (3, 4, 2)}, "a list that forks against one that does not, and plain texts"
    assert 90 < sides.count((0, 2, 3)) < 150, "three of five"
    assert make_pairs(samples, reversed(scores), 1.0, alike=True) == pairs
    told = {"text": "\n\n".join(TEXTS.values())}  # as a story
    stories = [{**written(0, number, "", 60 - number), **told, "annotated": told["text"]} for number in range(2)]
    stories += [{**answer(0, number, GOOD, 20 - number), **told} for number in (2, 3)]
    scored = [Score(0, row["sample"], 60 / row["critical_path"], 1.0, 0.0, (), {}) for row in stories]
    (only,) = make_pairs(stories, scored, 1.0, alike=True)
    assert (only["chosen_score"]["sample"], only["rejected_score"]["sample"]) in {(1, 0), (3, 2)}, "not (3, 0)"
    apart = make_pairs(samples, scores, 1.0)
    assert {(row["chosen_score"]["sample"], row["n"]) for row in apart} == {(3, 5)}


def test_the_same_prompts_as_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = choose(tmp_path)
    assert prompts_of(own) == [0, 1, 2], "of the fourth the two are too near"
    before = own.read_bytes()
    samples = [row for row in SAMPLES if row["index"] in (1, 3)] + [answer(4, 0, GOOD), answer(4, 1, AGAIN)]
    other = choose(tmp_path, "other", samples, min_gap=0.0)
    assert prompts_of(other) == [1, 3, 4]
    for place in (tmp_path / "other", other):
        capsys.readouterr()
        held = choose(tmp_path, same_prompts_as=str(place), steps="pairs")
        assert prompts_of(held) == [1, 3], "min_gap leaves out none of them"
        assert f"3 prompts as in {place}, 1 of them without a pair here" in capsys.readouterr().err
    assert choose(tmp_path, steps="pairs").read_bytes() == before


def test_the_same_prompts_as_a_run_without_pairs(tmp_path: Path) -> None:
    choose(tmp_path, "other", [row for row in SAMPLES if row["index"] == 3], min_gap=0.0)
    with pytest.raises(
        UsageError, match=r"same_prompts_as is .*/none, but .*/none holds no pairs \(run the step pairs"
    ):
        choose(tmp_path, same_prompts_as=str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"round-1/pairs-1.jsonl holds no pairs"):
        choose(tmp_path, same_prompts_as=str(tmp_path / "other"), lambdas="1")
    with pytest.raises(PastaError, match=r"no pairs come of 2 samples \(none of their prompts has a pair in "):
        some = [row for row in SAMPLES if row["index"] == 1]
        choose(tmp_path, "apart", some, same_prompts_as=str(tmp_path / "other"))


def test_any_topic_lets_a_topic_read_badly(tmp_path: Path) -> None:
    def faults(pairs: Path) -> dict[tuple[int, int], list[str]]:
        rows = read_lines(pairs.with_name("scores.jsonl"))
        return {(row["index"], row["sample"]): row["faults"] for row in rows if row["faults"]}

    repeats = ["blocks repeat", "topics repeat"]
    badly = ["topics read badly"]
    held = choose(tmp_path)
    assert faults(held) == {(0, 0): repeats, (0, 2): badly, (2, 1): badly, (4, 0): badly, (4, 1): repeats}
    free = choose(tmp_path, "free", any_topic=True)
    assert faults(free) == {(0, 0): repeats, (4, 1): repeats}
    assert prompts_of(free) == [0, 1, 4], "of the third both are as good; of the fifth one is now sound"
    with pytest.raises(UsageError, match=r"holds scores of \{'any_topic': True\}, now they are \{'any_topic': None\}"):
        choose(tmp_path, "free")
    with pytest.raises(UsageError, match=r"holds scores of \{'any_topic': None\}, now they are \{'any_topic': True\}"):
        choose(tmp_path, any_topic=True)


@pytest.mark.parametrize("changed", [{"clean": False}, {"shortest": 0.85}, {"overlap": 0.5}, {"any_topic": True}])
def test_pairs_by_other_settings_than_the_scores_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    """They would come out of faults that were never looked for, and without a word."""
    pairs = choose(tmp_path)
    before = pairs.read_bytes()
    with pytest.raises(UsageError, match=rf"holds scores of .*{next(iter(changed))}.*score all anew"):
        choose(tmp_path, steps="pairs", **changed)
    assert choose(tmp_path, steps="pairs", judge="").read_bytes() == before


def linear_judge(folder: Path, weight: float) -> str:
    folder.mkdir(parents=True)
    fold = Fold("", 0.0, 1.0, 1.0)
    FeatureJudge([Linear([weight, *[0.0] * (len(NAMES) - 1)])], [fold], {}).write(folder / "features.json")
    return f"features:{folder / 'features.json'}"


def test_scores_of_two_judges_are_not_mixed(tmp_path: Path) -> None:
    one, other = linear_judge(tmp_path / "one", 1.0), linear_judge(tmp_path / "other", -1.0)
    pairs = choose(tmp_path, judge=one, min_gap=0.0)
    before = pairs.with_name("scores.jsonl").read_bytes()
    for judge in (other, one.replace("features:", "features-raw:"), "length"):
        with pytest.raises(UsageError, match=r"holds scores of {'judge': 'features:features\.json#"):
            choose(tmp_path, judge=judge, min_gap=0.0)
    (tmp_path / "one").rename(tmp_path / "moved")
    choose(tmp_path, judge=f"features:{tmp_path / 'moved' / 'features.json'}", min_gap=0.0)
    choose(tmp_path, judge="", steps="pairs", min_gap=0.0)
    assert pairs.with_name("scores.jsonl").read_bytes() == before


def test_scores_from_before_the_kind_of_a_judge_was_written_down_go_on(tmp_path: Path) -> None:
    one, other = linear_judge(tmp_path / "one", 1.0), linear_judge(tmp_path / "two", 1.0)
    scoring = choose(tmp_path, judge=one, min_gap=0.0).with_name("scoring.json")
    known = json.loads(scoring.read_text())
    assert known.pop("scored_by") == one
    scoring.write_text(json.dumps({**known, "judge": "features.json"}))
    for judge in (one, other):  # which was once all that was known of them
        choose(tmp_path, judge=judge, min_gap=0.0)
    choose(tmp_path, judge="", steps="pairs", min_gap=0.0)
    with pytest.raises(UsageError, match=r"holds scores of {'judge': 'features\.json'}, now they are"):
        choose(tmp_path, judge="length", min_gap=0.0)


def test_whose_scores_a_model_learned_from_is_told_whatever_the_last_command_named(tmp_path: Path) -> None:
    one = linear_judge(tmp_path / "one", 1.0)
    pairs = choose(tmp_path, judge=one, min_gap=0.0)

    def told(**changes: Any) -> str:
        config = PreferenceConfig(**{"prompts": "p", "output": str(tmp_path / "out"), "steps": "train", **changes})
        return next(rounds(config)).scored_by(config)

    assert told() == told(judge="length") == one
    scoring = pairs.with_name("scoring.json")
    known = json.loads(scoring.read_text())
    scoring.write_text(json.dumps({"judge": "features.json", "short": known["short"]}))  # as it once was
    assert told() == told(judge="length") == "features.json"
    assert told(judge=one) == one
    scoring.unlink()
    assert told(judge=one) == one and told() == ""
