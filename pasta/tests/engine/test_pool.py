"""The KV pool under random use: no slot has two owners, and none is lost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pasta.engine.base import OutOfSlots
from pasta.engine.pool import PAGE, KvPool, Pages


def pool_of(slots: int) -> KvPool:
    return KvPool(slots, torch.device("cpu"))


def slots_of(pages: Pages) -> list[int]:
    chosen = pages.select()
    return list(range(chosen.start, chosen.stop)) if isinstance(chosen, slice) else chosen.tolist()


class PoolMachine(RuleBasedStateMachine):
    """Requests that come, grow and go."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool_of(9 * PAGE)
        self.held: dict[Pages, list[int]] = {}

    @rule()
    def come(self) -> None:
        self.held[Pages(self.pool)] = []

    @precondition(lambda self: self.held)
    @rule(data=st.data(), tokens=st.integers(1, 3 * PAGE))
    def grow(self, data: st.DataObject, tokens: int) -> None:
        pages, slots = data.draw(st.sampled_from(list(self.held.items())))
        for _ in range(tokens):
            room = pages.used % PAGE != 0 or self.pool.free_slots > 0
            if room:
                slots.append(pages.append())
            else:
                with pytest.raises(OutOfSlots):
                    pages.append()
                assert pages.used == len(slots), "a refusal takes nothing"

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        pages = data.draw(st.sampled_from(list(self.held)))
        pages.free()
        pages.free()  # twice is once
        del self.held[pages]

    @invariant()
    def no_slot_is_shared(self) -> None:
        taken = [slot for slots in self.held.values() for slot in slots]
        assert len(set(taken)) == len(taken)
        assert all(0 <= slot < self.pool.slots for slot in taken)

    @invariant()
    def what_is_read_is_what_was_written_in_order(self) -> None:
        for pages, slots in self.held.items():
            if slots:
                assert slots_of(pages) == slots

    @invariant()
    def none_is_lost(self) -> None:
        pages = sum(-(-len(slots) // PAGE) for slots in self.held.values())
        assert self.pool.free_slots == self.pool.slots - PAGE * pages


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase


def test_a_pool_is_whole_pages() -> None:
    assert [pool_of(slots).slots for slots in (1, PAGE, PAGE + 1)] == [PAGE, PAGE, 2 * PAGE]


def test_a_request_alone_lies_together() -> None:
    pages = Pages(pool_of(4 * PAGE))
    for _ in range(3 * PAGE):
        pages.append()
    assert pages.select() == slice(0, 3 * PAGE)


def test_layers_have_their_own_shapes() -> None:
    pool = pool_of(2 * PAGE)
    narrow, wide = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 8)
    keys, values = pool.layer(0, narrow, wide)
    assert keys.shape == (2, 2 * PAGE, 4) and values.shape == (2, 2 * PAGE, 8)
    assert pool.layer(0, narrow, wide)[0] is keys
    assert pool.layer(1, narrow, wide)[0] is not keys
    assert not keys.any() and not values.any(), "a masked slot must hold a number"
