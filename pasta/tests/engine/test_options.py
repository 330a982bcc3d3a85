"""What a caller may set, through the whole engine: the dial of parallelism, budgets, caps, sequential decoding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from pasta.core.grammar import Expect
from pasta.decoding.api import generate, stream
from pasta.decoding.events import TokenPut
from pasta.lang import check
from support import PilotedEngine, tiny_engine

PROMPT = "Compare cats and dogs."
MUCH = 1e4


@pytest.fixture(scope="module")
def engine() -> PilotedEngine:
    return tiny_engine(slots=8192)


def test_a_number_of_any_kind_is_the_number(engine: PilotedEngine) -> None:
    """An engine that met a fraction in its first step would have failed for everybody."""
    half = {"temperature": 0.5, "top_p": 0.5, "min_p": 0.5, "repetition_penalty": 0.5, "parallelism": 0.5}
    fractions = {name: Fraction(value) for name, value in half.items()}
    whole = {name: np.int64(7) for name in ("seed", "max_tokens", "top_k", "logprobs")}
    result = generate(engine, PROMPT, **fractions, **whole)  # type: ignore[arg-type]
    assert result.tree == generate(engine, PROMPT, **half, **dict.fromkeys(whole, 7)).tree  # type: ignore[arg-type]


def first(engine: PilotedEngine, **options: float) -> int:
    return next(stream(engine, PROMPT, max_tokens=20, **options)).events[0].token


def test_parallelism_is_added_to_the_logit_that_opens_a_promise(engine: PilotedEngine) -> None:
    assert engine.grammar is not None
    promise = engine.grammar.tags.promise
    engine.seen.clear()
    first(engine)
    logits = engine.seen[0].logits
    allowed = torch.from_numpy(engine.grammar.allowed[Expect.TEXT_PROMISE])
    allowed[promise] = False
    needed = (logits[allowed].max() - logits[promise]).item()
    assert first(engine, parallelism=needed - 0.01) != promise
    assert first(engine, parallelism=needed + 0.01) == promise


def test_parallelism_leaves_every_other_odd_as_it_was(engine: PilotedEngine) -> None:
    """A negative bias takes promises away and changes no other choice, drawn ones included."""
    plain = generate(engine, PROMPT, max_tokens=60, temperature=1.0, seed=4, plain=True)
    biased = generate(engine, PROMPT, max_tokens=60, temperature=1.0, seed=4, parallelism=-MUCH)
    assert len(biased.threads) == 1
    assert biased.threads[0].token_ids == plain.threads[0].token_ids


@pytest.mark.parametrize("seed", range(3))
def test_even_a_huge_bias_gives_a_clean_response_within_its_budget(engine: PilotedEngine, seed: int) -> None:
    result = generate(engine, PROMPT, parallelism=MUCH, temperature=1.0, seed=seed, max_tokens=300, max_threads=5)
    assert len(result.threads) > 3
    assert decoded(result) <= 300
    assert not [found for found in check(result.annotated) if found.code.startswith("E")]
    assert engine.pool.free_slots == engine.pool.slots


def decoded(result) -> int:
    """Tokens that cost a draw: all but `<async>`, and the closing tags that a limit put."""
    return sum(len(thread.token_ids) - (2 if thread.parent is not None else 0) for thread in result.threads)


def test_plain_never_promises(engine: PilotedEngine) -> None:
    result = generate(engine, PROMPT, parallelism=MUCH, plain=True, max_tokens=40)
    assert len(result.threads) == 1
    assert result.annotated == result.text or "<\\" in result.annotated


@pytest.mark.parametrize("tokens", [1, 2, 17])
def test_a_budget_is_used_up_to_the_token(tokens: int) -> None:
    engine = tiny_engine(tags=False)
    result = generate(engine, PROMPT, max_tokens=tokens)
    assert (result.finish_reason, len(result.threads[0].token_ids), result.steps) == ("length", tokens, tokens)


def test_a_thread_has_a_cap_of_its_own(engine: PilotedEngine) -> None:
    whole = generate(engine, PROMPT, parallelism=MUCH, max_tokens=200)
    result = generate(engine, PROMPT, parallelism=MUCH, max_tokens=200, max_thread_tokens=9)
    children = [thread for thread in result.threads if thread.parent is not None]
    assert children and all(len(thread.token_ids) <= 9 + 2 for thread in children)
    assert result.finish_reason == "length" and whole.text.startswith(result.text)


def test_the_context_is_never_left() -> None:
    engine = tiny_engine(context=64)
    result = generate(engine, PROMPT, max_tokens=500)
    assert result.finish_reason in ("length", "stop")
    assert all(position <= 64 for thread in result.threads for position in thread.position_ids)  # a tag that a cut put
    events = [event for output in stream(engine, PROMPT, max_tokens=500) for event in output.events]
    assert max(event.position for event in events if isinstance(event, TokenPut)) < 64


@pytest.mark.parametrize("cut", [slice(0, 1), slice(6, 7), slice(3, 6), slice(20, 24)], ids=str)
def test_a_stop_string_cuts_before_itself(cut: slice) -> None:
    engine = tiny_engine(tags=False)
    whole = generate(engine, PROMPT, max_tokens=60)
    stop = whole.text[cut]
    assert stop
    result = generate(engine, PROMPT, max_tokens=60, stop=["never in it", stop])
    assert result.text == whole.text[: whole.text.find(stop)]
    assert result.finish_reason == "stop"
    assert result.steps < whole.steps
    assert engine.pool.free_slots == engine.pool.slots
