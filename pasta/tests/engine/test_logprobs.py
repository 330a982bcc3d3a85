"""Logprobs: of the model's own distribution, whatever else the parameters say, and only where they are asked for."""

from __future__ import annotations

import math

import pytest
import torch

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.engine.base import TokenLogprobs
from pasta.engine.sampling import token_logprobs
from support import tiny_engine


def test_against_the_definition() -> None:
    logits = torch.randn(4, 30, generator=torch.Generator().manual_seed(0)).bfloat16()
    tokens, counts = [3, 29, 7, 0], [2, None, 0, 5]
    for row, found in enumerate(token_logprobs(logits, tokens, counts)):
        count = counts[row]
        if count is None:
            assert found is None
            continue
        values = [float(value) for value in logits[row]]
        total = math.log(sum(math.exp(value) for value in values))
        order = sorted(range(30), key=lambda token: -values[token])[:count]
        assert isinstance(found, TokenLogprobs)
        assert found.logprob == pytest.approx(values[tokens[row]] - total, abs=1e-5)
        assert [value for _, value in found.top] == pytest.approx([values[token] - total for token in order], abs=1e-5)
        assert len(found.top) == count


def test_more_than_there_are_tokens() -> None:
    (found,) = token_logprobs(torch.zeros(1, 3), [1], [20])
    assert found is not None and len(found.top) == 3


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_penalties_grammar_and_temperature_do_not_change_them(temperature: float) -> None:
    engine = tiny_engine()
    prompt = engine.vocabulary.encode("Why is the sky blue?")
    plain = engine.open(prompt, Expect.TEXT, SamplingParams())
    asked = SamplingParams(temperature=temperature, repetition_penalty=1.5, parallelism=3.0, logprobs=4)
    thread = engine.open(prompt, Expect.LENGTH, asked)
    decoded = {each.thread: each for each in engine.step()}
    assert decoded[plain].logprobs is None
    token, found = decoded[thread].token, decoded[thread].logprobs
    with torch.inference_mode():
        engine.model.set_attn_implementation("eager")
        expected = engine.model(input_ids=torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    assert isinstance(token, int) and found is not None
    assert found.logprob == pytest.approx(float(expected[token]), abs=1e-4)
    best = expected.topk(4)
    assert [token for token, _ in found.top] == best.indices.tolist()
    assert [value for _, value in found.top] == pytest.approx(best.values.tolist(), abs=1e-4)
