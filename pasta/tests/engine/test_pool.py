"""The KV pool under random use: no slot has two owners, and none is lost."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pasta.engine import pool as pools
from pasta.engine.base import OutOfSlots
from pasta.engine.block_table import BlockTable
from pasta.engine.free_blocks import FreeBlocks
from pasta.engine.pool import BLOCK_SIZE, KvPool

STATM = Path("/proc/self/statm")


def pool_of(slots: int) -> KvPool:
    return KvPool(slots, torch.device("cpu"))


def slots_of(table: BlockTable) -> list[int]:
    chosen = table.select(len(table.slots))
    return list(range(chosen.start, chosen.stop)) if isinstance(chosen, slice) else chosen.tolist()


class PoolMachine(RuleBasedStateMachine):
    """Requests that come, grow and go."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool_of(9 * BLOCK_SIZE)
        self.held: dict[BlockTable, int] = {}  # and how many tokens they hold

    @rule()
    def come(self) -> None:
        self.held[BlockTable(self.pool)] = 0

    @precondition(lambda self: self.held)
    @rule(data=st.data(), tokens=st.integers(1, 3 * BLOCK_SIZE))
    def grow(self, data: st.DataObject, tokens: int) -> None:
        table, held = data.draw(st.sampled_from(list(self.held.items())))
        before = table.slots.tolist()
        fits = held + tokens <= len(before) + self.pool.free_slots
        assert table.can_hold(held + tokens) == fits
        if fits:
            table.reserve(held + tokens)
            self.held[table] = held + tokens
            assert table.slots.tolist()[: len(before)] == before, "what lies there stays there"
        else:
            with pytest.raises(OutOfSlots, match="KV pool of 576 slots is full"):
                table.reserve(held + tokens)
            assert table.slots.tolist() == before, "a refusal takes nothing"

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(list(self.held)))
        table.free()
        table.free()  # twice is once
        del self.held[table]

    @invariant()
    def no_slot_is_shared(self) -> None:
        taken = [slot for table in self.held for slot in table.slots]
        assert len(set(taken)) == len(taken)
        assert all(0 <= slot < self.pool.slots for slot in taken)

    @invariant()
    def what_is_read_is_what_was_written_in_order(self) -> None:
        for table in self.held:
            if table.slots:
                assert slots_of(table) == table.slots.tolist()

    @invariant()
    def none_is_lost(self) -> None:
        blocks = sum(-(-tokens // BLOCK_SIZE) for tokens in self.held.values())
        assert self.pool.free_slots == self.pool.slots - BLOCK_SIZE * blocks


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase


def test_a_pool_is_whole_blocks() -> None:
    assert [pool_of(slots).blocks for slots in (1, BLOCK_SIZE, BLOCK_SIZE + 1)] == [1, 1, 2]


def test_a_request_alone_lies_together() -> None:
    table = BlockTable(pool_of(4 * BLOCK_SIZE))
    for tokens in range(3 * BLOCK_SIZE - 5):
        table.reserve(tokens)
    assert table.select(100) == slice(0, 100)
    assert len(table.blocks) == 3


def test_requests_that_grow_beside_each_other_lie_together() -> None:
    pool = pool_of(64 * BLOCK_SIZE)
    tables = [BlockTable(pool) for _ in range(8)]
    for blocks in range(1, 5):
        for table in tables:
            table.reserve(blocks * BLOCK_SIZE)
    assert all(isinstance(table.select(4 * BLOCK_SIZE), slice) for table in tables)


def test_a_pool_in_pieces_gives_its_last_block() -> None:
    pool = pool_of(8 * BLOCK_SIZE)
    tables = [BlockTable(pool) for _ in range(8)]
    for table in tables:
        table.reserve(1)
    for table in tables[::2]:
        table.free()
    table = BlockTable(pool)
    table.reserve(4 * BLOCK_SIZE)
    assert pool.free_blocks == 0 and len(set(table.blocks)) == 4
    assert slots_of(table) == table.slots.tolist()


def test_a_pool_in_many_pieces_is_looked_through_once() -> None:
    class Counted(dict[int, int]):
        looks = 0

        def __getitem__(self, key: int) -> int:
            self.looks += 1
            return super().__getitem__(key)

    free = FreeBlocks(4000)
    for block in free.take(4000)[::2]:
        free.add(block)
    free._ends = counted = Counted(free._ends)
    assert len(set(free.take(500))) == 500 and len(free) == 1500
    assert counted.looks < 4 * 2000


def test_one_request_may_hold_so_many_blocks() -> None:
    pool = pool_of(8 * BLOCK_SIZE)
    pool.blocks_each = 2
    table = BlockTable(pool)
    assert table.can_hold(2 * BLOCK_SIZE) and not table.can_hold(2 * BLOCK_SIZE + 1)
    with pytest.raises(OutOfSlots, match=f"one request may hold {2 * BLOCK_SIZE} slots, and this one needs 129"):
        table.reserve(2 * BLOCK_SIZE + 1)
    assert not table.blocks
    table.reserve(2 * BLOCK_SIZE)
    table.free()
    assert pool.free_blocks == 8


def test_idle_blocks_are_room() -> None:
    pool = pool_of(4 * BLOCK_SIZE)
    first = BlockTable(pool)
    first.reserve(3 * BLOCK_SIZE)
    pool.prefix_cache.insert("", [1] * 3 * BLOCK_SIZE, first.blocks)
    other = BlockTable(pool)
    assert not other.can_hold(BLOCK_SIZE + 1), "what a request holds is not"
    first.free()
    assert pool.kept_slots == 3 * BLOCK_SIZE
    assert other.can_hold(4 * BLOCK_SIZE) and not other.can_hold(4 * BLOCK_SIZE + 1)
    other.reserve(4 * BLOCK_SIZE)
    assert pool.kept_slots == 0


def test_layers_have_their_own_shapes() -> None:
    pool = pool_of(2 * BLOCK_SIZE)
    narrow, wide = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 8)
    keys, values = pool.layer(0, narrow, wide)
    assert keys.shape == (2, 2 * BLOCK_SIZE, 4) and values.shape == (2, 2 * BLOCK_SIZE, 8)
    assert pool.layer(0, narrow, wide)[0] is keys
    assert pool.layer(1, narrow, wide)[0] is not keys
    assert not keys.any() and not values.any(), "a masked slot must hold a number"


@pytest.mark.skipif(not STATM.exists(), reason="reads Linux's account of memory")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_main_memory_is_taken_as_it_is_used(dtype: torch.dtype) -> None:
    """Of 500 MB nothing until something is written, and then that alone: in large pages it would be 16 MB."""

    def resident() -> float:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    size = 2**29 // 2 // dtype.itemsize // 8 // 64
    pool, some = pool_of(size), torch.zeros(1, 8, 1, 64, dtype=dtype)
    before = resident()
    keys, values = pool.layer(0, some, some)
    assert (keys.shape, keys.dtype, keys.data_ptr() % 64) == ((8, pool.slots, 64), dtype, 0)
    keys[:, :BLOCK_SIZE] = 1
    assert keys[7, BLOCK_SIZE - 1, 63] == 1 and keys[7, BLOCK_SIZE, 0] == values[0, 0, 0] == 0
    assert resident() - before < 8


@pytest.mark.skipif(not hasattr(mmap, "MADV_NOHUGEPAGE"), reason="a system without large pages")
def test_a_kernel_without_large_pages_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(pools.mmap, "mmap", Refusing)
    assert pools.zeros((2, 3), torch.float32, torch.device("cpu")).tolist() == [[0.0] * 3] * 2


def test_a_system_without_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(pools.mmap, "mmap", full)
    with pytest.raises(MemoryError, match="no 24 bytes for the KV pool: Cannot allocate memory"):
        pools.zeros((2, 3), torch.float32, torch.device("cpu"))
