"""The step `train` before it trains: references, of every response once, under the policy that drew it; what fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pasta.core.layout import Layout
from pasta.core.vocabulary import Vocabulary
from pasta.data.lines import read_lines, write_lines
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_loss import Policy
from pasta.train.preference_round import Round
from pasta.train.preference_run import references, run
from pasta.train.team import Team
from support import byte_tokenizer

WANTED: Any = {(0, number): None for number in range(7)}


class Counting:
    """Stands for a learner: its log probabilities are numbers of samples, and it notes what it was asked for."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary(byte_tokenizer())
        self.vocabulary.add_tags()
        self.config = PreferenceConfig(
            model="m", output="o", prompts="p", judge="length", baseline="b", parallelism="0,2", temperature=0.8
        )
        self.asked: list[tuple[int, int]] = []
        self.policy: Policy | None = None

    def plan(self, responses: Mapping[Any, Layout], pairs: Any) -> None:
        assert set(responses) == set(WANTED)

    def score(self, layouts: Mapping[Any, Any], policy: Policy) -> Iterator[dict[Any, float]]:
        self.policy = policy
        self.asked += layouts
        for key in layouts:
            yield {key: -float(key[1])}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_what_others_wrote_already_changes_no_share(tmp_path: Path, order: tuple[int, ...]) -> None:
    """One process is done before the next begins."""
    each, found, asked = Round(tmp_path, "m", (1.0,)), {}, []
    for rank in order:
        learner: Any = Counting()
        found = references(learner, WANTED, each, Team(rank, 3), [])
        asked += learner.asked
    assert found == {key: -float(key[1]) for key in WANTED}
    assert sorted(asked) == sorted(WANTED)
    again: Any = Counting()
    assert references(again, WANTED, each, Team(), []) == found and not again.asked


def test_another_response_under_the_same_number_is_asked_for(tmp_path: Path) -> None:
    """As a beginning is another where more samples, or other settings, say how it goes on."""
    each = Round(tmp_path, "m", (1.0,))
    references(Counting(), WANTED, each, Team(), [])  # type: ignore[arg-type]
    learner: Any = Counting()
    references(learner, {**WANTED, (0, 3): "another"}, each, Team(), [])
    assert learner.asked == [(0, 3)]
    (tmp_path / "reference.jsonl").write_text('{"index": 0, "sample": 3, "log_prob": -3.0}\n')  # as before they said so
    learner = Counting()
    assert references(learner, WANTED, each, Team(), [])[0, 3] == -3.0
    assert (0, 3) not in learner.asked


def test_the_policy_is_pushed_towards_promises(tmp_path: Path) -> None:
    """As the engine's `parallelism` pushes it."""
    learner: Any = Counting()
    references(learner, WANTED, Round(tmp_path, "m", (1.0,)), Team(), [])
    assert learner.policy == Policy(0.8, (0.0, 2.0), opens=learner.vocabulary.tags.promise)


def test_pairs_that_are_left_out_are_counted(tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str]) -> None:
    (prompts := tmp_path / "prompts.jsonl").write_text('{"prompt": "1?"}\n{"prompt": "2?"}\n')
    config = PreferenceConfig(
        prompts=str(prompts), output=str(tmp_path / "out"), model=base, baseline=base, judge="length", device="cpu",
        max_length=512, held_out=0.0, save_steps=0, samples=4, max_tokens=60, lambdas="1", steps="sample",
    )  # fmt: skip
    run(config)
    drawn = [*read_lines(tmp_path / "out" / "round-1" / "samples.jsonl")]

    def pair(best: dict[str, Any], worst: dict[str, Any], times: int = 1) -> dict[str, Any]:
        sides = {"chosen": best, "rejected": worst}
        scores = {f"{side}_score": {"sample": row["sample"]} for side, row in sides.items()}
        tokens = {f"{side}_tokens": times * row["tokens"] for side, row in sides.items()}
        ended = {f"{side}_ended": False for side in sides}
        return {"index": best["index"], "prompt": best["prompt"], "n": 4, **scores, **tokens, **ended}

    one, other = ([row for row in drawn if row["index"] == index] for index in (0, 1))
    write_lines(tmp_path / "out" / "round-1" / "pairs-1.jsonl", [pair(*one[:2]), pair(*other[:2], times=20)])
    capsys.readouterr()
    run(dataclasses.replace(config, steps="train"))
    told = capsys.readouterr().err
    assert "1 pair is left out: longer than 512 tokens together" in told and "1 pairs, 0 held out" in told
