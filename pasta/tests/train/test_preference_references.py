"""The reference of stage two: of every response once, under the policy that drew it, however processes overtake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pasta.core.layout import Layout
from pasta.core.vocabulary import Vocabulary
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_loss import Policy
from pasta.train.preference_round import Round
from pasta.train.preference_run import references
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
