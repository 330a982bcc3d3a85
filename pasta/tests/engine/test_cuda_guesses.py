"""Drafts of a device that goes ahead: it waits where a guess is worth it, and the answers are the same."""

from __future__ import annotations

from typing import Any

import pytest
from test_cuda_following import PROMPTS, make  # noqa: F401  (a fixture)
from test_drafts import Oracle

from pasta.decoding.api import generate_all
from pasta.decoding.drafts import Guess


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Any:
    """One that counts how often it might go ahead."""
    return request.getfixturevalue("make")()


class Doubtful(Oracle):
    """An oracle that is sure of its guesses for a while, and then for a while it is not, and so on."""

    def draft(self, thread: int, most: int, least_odds: float) -> Guess:
        guess = super().draft(thread, most, least_odds)
        return guess if sum(self._put.values()) // 7 % 2 else Guess(guess.tokens, [0.0] * len(guess.tokens))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.9, "top_p": 0.95, "seed": 3},
        {"parallelism": 0.0},
        {"max_tokens": 23},
        {"max_thread_tokens": 6},
        {"max_threads": 2},
        {"stop": "e"},
    ],
    ids=str,
)
def test_drafts_by_turns_with_going_ahead(
    engine: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device goes ahead while no guess is worth waiting for, and waits where one is: the same answers."""
    monkeypatch.setattr("pasta.decoding.request.Drafter", Doubtful)
    monkeypatch.setattr(Oracle, "answers", {})
    monkeypatch.setattr(engine, "row_cost", 1e-6)
    monkeypatch.setattr(engine, "wait_cost", 0.3)
    options = {"parallelism": 4.0, "max_tokens": 90, **options}
    saved = 0
    for prompts in (PROMPTS, PROMPTS[:1]):
        without = generate_all(engine, prompts, drafts=False, **options)
        Oracle.answers.update({answer.prompt_ids: answer for answer in without})
        engine.counts.clear()
        drafted = generate_all(engine, prompts, drafts=True, **options)
        assert [answer.tree for answer in drafted] == [answer.tree for answer in without]
        assert [answer.finish_reason for answer in drafted] == [answer.finish_reason for answer in without]
        assert engine.counts[True] > 5
        saved += sum(answer.steps for answer in without) - sum(answer.steps for answer in drafted)
    assert saved > 0 or "max_thread_tokens" in options  # threads so short have nothing to guess
    assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize("wait_cost", [0.0, 1e9])
def test_what_a_wait_costs_decides(engine: Any, wait_cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "row_cost", 1e-6)
    monkeypatch.setattr(engine, "wait_cost", wait_cost)
    without, drafted = (
        generate_all(engine, PROMPTS, parallelism=0.0, max_tokens=120, drafts=drafts) for drafts in (False, True)
    )
    assert [answer.tree for answer in drafted] == [answer.tree for answer in without]
    saved = sum(answer.steps for answer in without) - sum(answer.steps for answer in drafted)
    assert saved > 15 if wait_cost == 0 else saved == 0
