"""The default model: one thread at a time gives the same answer, and a limit gives its beginning. Real weights."""

from __future__ import annotations

import random
from itertools import product

import pytest

import pasta

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

THINGS = ["fruits", "rivers", "cities in Europe", "sorting algorithms", "ways to save money", "musical instruments",
          "breakfasts", "habits of good writers", "board games", "reasons to learn to swim"]  # fmt: skip
ASKS = ["Name three {} and describe each.", "Give me five tips about {}.", "Compare two {}.", "What are {}?",
        "Write a short list of {} with a conclusion."]  # fmt: skip
PROMPTS = [ask.format(thing) for ask, thing in product(ASKS, THINGS)]


@pytest.fixture(scope="module")
def model() -> pasta.Model:
    return pasta.load(device="cpu", slots=1 << 16)


@pytest.fixture(scope="module")
def answers(model: pasta.Model) -> list[pasta.Result]:
    found = model.generate_all(PROMPTS, max_tokens=160)
    assert sum(len(result.threads) > 1 for result in found) >= 25
    return found


def test_sequential_is_the_same_answer(model: pasta.Model, answers: list[pasta.Result]) -> None:
    again = model.generate_all(PROMPTS, max_tokens=160, sequential=True)
    different = [a.prompt_ids for a, b in zip(answers, again, strict=True) if a.tree != b.tree]
    assert not different
    forked = [(a, b) for a, b in zip(answers, again, strict=True) if len(a.threads) > 2]
    assert sum(a.steps for a, _ in forked) < 0.75 * sum(b.steps for _, b in forked)


def test_a_limit_gives_the_beginning(model: pasta.Model, answers: list[pasta.Result]) -> None:
    chance = random.Random(0)
    for prompt, whole in list(zip(PROMPTS, answers, strict=True))[:20]:
        limit = chance.randint(1, 150)
        cut = model.generate(prompt, max_tokens=limit)
        assert whole.text.startswith(cut.text), (prompt, limit)
        assert cut.decoded_tokens <= limit
        assert cut.finish_reason == "length" or cut.text == whole.text


def test_stop_strings_and_contexts_give_the_beginning(model: pasta.Model, answers: list[pasta.Result]) -> None:
    chance = random.Random(1)
    small = pasta.load(device="cpu", context=256, slots=1 << 14)
    for prompt, whole in list(zip(PROMPTS, answers, strict=True))[:20]:
        start = chance.randrange(max(1, len(whole.text) - 8))
        stop = whole.text[start : start + 5]
        stopped = model.generate(prompt, max_tokens=160, stop=stop)
        assert stopped.text == whole.text[: whole.text.index(stop)]
        within = small.generate(prompt, max_tokens=160)
        assert whole.text.startswith(within.text), prompt
