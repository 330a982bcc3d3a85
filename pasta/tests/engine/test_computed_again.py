"""A request that was closed and is fed again goes on as if nothing had happened, in steps of bounded size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dense import TOLERANCE, pilot
from pasta.core.grammar import Expect
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all
from pasta.engine.base import Decoded
from pasta.engine.batch import Batch
from pasta.engine.cpu import CpuEngine
from pasta.engine.native import NativeEngine
from pasta.models.tags import add_tags
from recording import Recorded
from support import PilotedEngine, byte_tokenizer, tiny_model

PROMPT = "Compare cats and dogs."


class RecordedEngine(Recorded, PilotedEngine):
    """Through transformers' forward pass."""


class RecordedCpuEngine(Recorded, PilotedEngine, CpuEngine):
    """Through the CPU's own."""


def make(kind: type[PilotedEngine]) -> Any:
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    engine = kind(model, vocabulary, slots=8192)
    pilot(engine, 2, 12)
    return engine


def finish_step(engine: NativeEngine, threads: int) -> list[Decoded]:
    """Steps until so many threads have decided."""
    out: list[Decoded] = []
    while len(out) < threads:
        out += engine.step()
    return out


@pytest.mark.parametrize("kind", [RecordedEngine, RecordedCpuEngine])
@pytest.mark.parametrize("positions", ["predicted", "stitched"])
@pytest.mark.parametrize("chunk", [16, 256])
def test_the_same_choices_from_the_same_logits(kind: type, positions: str, chunk: int) -> None:
    """At every fifth step of an answer with nested forks and syncs, drawn at a temperature."""
    first, again = make(kind), make(kind)
    again.chunk = chunk
    result = generate(first, PROMPT, positions=positions, temperature=0.8, seed=5)
    assert len(result.threads) == 6 and result.annotated.count("<sync/>") == 3
    (told,) = first.told.values()
    logits = {(choice.path, choice.index): choice.logits for choice in first.seen}
    most = 0
    for step in range(0, len(told.steps), 5):
        again.seen.clear()
        threads = told.tell(again, step)
        chosen = finish_step(again, len(told.chosen[step]))
        assert {each.thread.path: each.token for each in chosen} == told.chosen[step]
        for choice in again.seen:
            expected = logits[choice.path, choice.index]
            torch.testing.assert_close(choice.logits, expected, rtol=0, atol=TOLERANCE)
        most = max(most, len(chosen))
        again.close(threads[()])
    assert most >= 4, "several threads at once"
    assert again.pool.free_slots == again.pool.slots


def test_it_goes_on_to_the_same_end() -> None:
    first, again = make(RecordedEngine), make(RecordedEngine)
    again.chunk = 16
    generate(first, PROMPT, temperature=0.8, seed=5)
    (told,) = first.told.values()
    middle = len(told.steps) // 2
    threads = told.tell(again, middle)
    for step in range(middle, len(told.steps)):
        chosen = finish_step(again, len(told.chosen[step]))
        assert {each.thread.path: each.token for each in chosen} == told.chosen[step]
        if step + 1 < len(told.steps):
            told.go_on(again, threads, step)


def test_beside_others_no_step_is_large() -> None:
    """Three requests come back at once while another decodes: each step brings it on, and runs a chunk more at most."""
    first, engine = make(RecordedEngine), make(RecordedEngine)
    prompts = [PROMPT, "Why is the sky blue? " * 5, "Hello!"]
    generate_all(first, prompts)
    engine.chunk = 24
    rows: list[tuple[int, int]] = []
    forward = engine._forward

    def counted(batch: Batch, groups: Any) -> torch.Tensor:
        rows.append((len(batch.tokens), len(batch.rows)))
        return forward(batch, groups)

    engine._forward = counted
    other = engine.open(engine.vocabulary.encode("Hi"), Expect.TEXT, next(iter(first.told.values())).params)
    engine.step()
    mains = [told.tell(engine, len(told.steps) - 3)[()] for told in first.told.values()]
    waiting = sum(main.request.waiting for main in mains)
    assert waiting > 10 * engine.chunk
    rows.clear()
    position = 2
    while any(main.request.waiting for main in mains):
        engine.feed(other, 65, position, Expect.TEXT)
        position += 1
        assert other in {each.thread for each in engine.step()}
    assert all(total - deciding <= engine.chunk for total, deciding in rows)
    assert len(rows) <= -(-waiting // engine.chunk) + 1
    for main in (other, *mains):
        engine.close(main)
    assert engine.pool.free_slots == engine.pool.slots
