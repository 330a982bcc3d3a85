"""A burst reads text in one go; its rows are those of lanes that read every token as it comes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.engine.vllm.burst import Burst
from pasta.engine.vllm.plan import PLACE, REQUEST, Plan, Rows, Span, cut_into_tiles
from pasta.engine.vllm.sampler import Answer, Choice, LaneSampler
from pasta.engine.vllm.terms import Terms
from support import byte_tokenizer

SIZE = 512


class Twins:
    """Answers in bursts, and beside each one that takes token by token what the burst is given."""

    def __init__(self, seed: int, count: int, room: int = 4096, **params: Any):
        vocabulary = Vocabulary(byte_tokenizer())
        vocabulary.add_tags()
        self.sampler = LaneSampler(vocabulary, SIZE, torch.device("cpu"), Taught())
        self.draw = random.Random(seed)
        assert vocabulary.tags is not None and self.sampler.grammar is not None
        self.allowed = self.sampler.grammar.allowed
        self.tags = vocabulary.tags
        given = SamplingParams(**{"positions": Positions(), "max_tokens": 300, **params})
        terms = Terms(given, 1000, 511, min(vocabulary.eos))
        prompts = [[5] * self.draw.randint(1, 40) for _ in range(count)]
        self.ours, self.slow = ([self.sampler.answer(terms, prompt, (), room) for prompt in prompts] for _ in range(2))
        self.pending = [0] * count
        self.streams: list[list[int]] = [[] for _ in range(count)]
        self.steps = self.forks = 0

    def token(self, answer: Answer, lane: int) -> int:
        """Mostly text; now and then whatever else may come."""
        allowed = np.flatnonzero(self.allowed[answer.lanes.deciding[lane].expect]).tolist()
        tags = [token for token in allowed if token in self.tags.all]
        text = [token for token in allowed if token not in self.tags.all and token not in self.sampler.vocabulary.eos]
        if tags and (not text or self.draw.random() < 0.15):
            return self.draw.choice(tags)
        ends = [token for token in allowed if token in self.sampler.vocabulary.eos]
        return ends[0] if ends and self.draw.random() < 0.01 else self.draw.choice(text)

    def burst(self, steps: int) -> list[int]:
        """One of vLLM's steps; the requests that go on after it."""
        live = [index for index, answer in enumerate(self.slow) if not answer.lanes.finished]
        streams = []
        for index in live:
            chosen = [self.token(self.slow[index], lane) for lane in range(len(self.slow[index].lanes.deciding))]
            streams.append(self.ours[index].take(list(enumerate(chosen))))
            self.take(index, chosen)
            assert streams[-1] == self.streams[index][-len(streams[-1]) :]
        begun = [len(self.streams[index]) - len(stream) for index, stream in zip(live, streams, strict=True)]
        room = self.draw.choice([20, 1000])
        burst = Burst([self.ours[index] for index in live], streams, [self.ours[i].lanes.held + room for i in live])

        def decide(rows: Rows, deciding: list[int], choices: list[Choice] | None) -> list[int]:
            self.steps += 1
            going = [live[request] for request in rows.spans[2].tolist()]
            slow = [self.slow[index].lanes for index in going]
            spans = [
                Span(lanes, lanes.held - self.pending[index], self.pending[index])
                for index, lanes in zip(going, slow, strict=True)
            ]
            expected = Rows.of(spans)
            expected.numbers[:, REQUEST] = np.repeat(rows.spans[2], rows.spans[1])
            expected.spans[2] = rows.spans[2]
            np.testing.assert_array_equal(rows.spans, expected.spans)
            np.testing.assert_array_equal(rows.numbers, expected.numbers)
            assert rows.numbers[deciding, PLACE].tolist() == [lane.place for lanes in slow for lane in lanes.deciding]
            if choices is not None:
                assert [choice.position for choice in choices] == [e.position for lanes in slow for e in lanes.deciding]
            tokens = []
            for index in going:
                chosen = [self.token(self.slow[index], lane) for lane in range(len(self.slow[index].lanes.deciding))]
                self.take(index, chosen)
                tokens += chosen
            return tokens

        burst.run(steps - 1, decide, seconds=1e9)
        for index, first, member in zip(live, begun, burst.members, strict=True):
            assert member.stream == self.streams[index][first:]
            assert member.pending == self.pending[index]
            assert self.ours[index].lanes.deciding == self.slow[index].lanes.deciding
            assert self.ours[index].lanes.positions == self.slow[index].lanes.positions
            assert self.ours[index].lanes.interpreter.tree() == self.slow[index].lanes.interpreter.tree()
        return live

    def take(self, index: int, chosen: list[int]) -> None:
        stream = self.slow[index].take(list(enumerate(chosen)))
        self.forks += self.tags.open in stream
        self.streams[index] += stream
        self.pending[index] = len(stream)


@pytest.mark.parametrize(
    "options",
    [{}, {"max_threads": 2}, {"max_thread_tokens": 9, "temperature": 1.0}, {"repetition_penalty": 1.1}, {"room": 120}],
    ids=["roomy", "turns", "drawn, short threads", "penalised", "little room"],
)
def test_rows_are_those_of_lanes_that_read_every_token(options: dict[str, Any]) -> None:
    forks = 0
    for seed in range(6):
        twins = Twins(seed, count=5, **options)
        while twins.burst(16):
            pass
        assert all(answer.lanes.finished for answer in twins.ours)
        forks += twins.forks
        assert twins.steps > 20
    assert forks > 30


def test_a_tile_holds_rows_of_one_request() -> None:
    spans = np.array([[0, 1, 8], [1, 7, 3], [4, 2, 0], [90, 20, 3]], dtype=np.int32)
    tiles = cut_into_tiles(spans, 3).T.tolist()
    assert tiles == [[0, 1, 4, 90], [1, 3, 2, 20], [4, 3, 2, 20], [7, 1, 2, 20], [8, 3, 0, 3]]
    assert cut_into_tiles(spans, 7) is spans


def test_what_a_plan_held_before_is_idle() -> None:
    plan = Plan(8)
    plan.fill(Rows.of([Span(None, 0, 6), Span(None, 3, 2)]), tile_rows=2)
    assert plan.tiles[1].tolist() == [2, 2, 2, 2, 0, 0, 0, 0]
    plan.fill(Rows.of([Span(None, 5, 1)]), tile_rows=2)
    assert plan.tiles[:, 0].tolist() == [0, 1, 0, 6] and not plan.tiles[1, 1:].any()
    assert plan.places[0] == 5 and not plan.own.any()
