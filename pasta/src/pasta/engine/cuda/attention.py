"""Attention of a decoding step: the rows of an answer read its keys and values once, each sees what its thread may see.

Its plain PyTorch twin is `reference.attend`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last

MERGED = 16_384  # numbers that a program of the attention merges at once, where it merges its tile's splits itself
TILE_LANES = 64  # rows times query heads of a key head that a program of the attention takes
WARPS, STAGES = 4, 3  # of such a program
NOTHING = tl.constexpr(-1e30)  # the score of what is not seen; finite, because infinities have no difference


@triton.jit(do_not_specialize=["tile_count"])
def _build_mask(
    tiles, places, positions, sees, slot_segments, slot_positions, block_tables, mask, window, tile_count,
    WORDS: tl.constexpr, MAX_BLOCKS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    MASK_WORDS: tl.constexpr, ROWS: tl.constexpr, STRIDE: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """What each row sees of 32 places of its request, as a word: bit i for the i-th of them."""
    tile = tl.program_id(0)
    first = tl.load(tiles + tile)
    count = tl.load(tiles + tile_count + tile)
    request = tl.load(tiles + 2 * tile_count + tile)
    length = tl.load(tiles + 3 * tile_count + tile)
    if count == 0:
        return
    row = tl.arange(0, ROWS)
    real = row < count
    bit = tl.arange(0, 32)
    own = tl.load(places + first + row, mask=real, other=-1)
    if WINDOW:
        position = tl.load(positions + first + row, mask=real, other=0)
        reach = tl.load(window)
    for word in range(tl.program_id(1), tl.cdiv(length, 32), STRIDE):
        place = word * 32 + bit
        held = place < length
        block = tl.load(block_tables + request * MAX_BLOCKS + place // BLOCK_SIZE, mask=held, other=0)
        slot = block * BLOCK_SIZE + place % BLOCK_SIZE
        segment = tl.load(slot_segments + slot, mask=held, other=0)
        bits = tl.load(sees + (first + row)[:, None] * WORDS + (segment >> 5)[None, :], mask=real[:, None], other=0)
        seen = (bits >> (segment & 31)[None, :]) & 1
        seen = tl.where(held[None, :] & (place[None, :] <= own[:, None]), seen, 0)
        if WINDOW:  # a key that stands ahead, as a block's may after its join, is as near as can be
            behind = position[:, None] - tl.load(slot_positions + slot, mask=held, other=0)[None, :]
            seen = tl.where(behind < reach, seen, 0)
        tl.store(mask + (first + row) * MASK_WORDS + word, tl.sum(seen << bit[None, :], 1), mask=real)


@triton.jit(do_not_specialize=["tile_count"])
def _attend(
    query, keys, values, partial, peaks, sums, done, out, tiles, block_tables, mask, scale, query_stride, tile_count,
    MERGE: tl.constexpr, MAX_BLOCKS: tl.constexpr, BLOCK_SIZE: tl.constexpr, MASK_WORDS: tl.constexpr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, PITCH: tl.constexpr, WIDTH: tl.constexpr,
    GROUP: tl.constexpr, LANES: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
    HEADS_MERGED: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """One program: the rows of one tile (threads of one answer), one key head, one stretch of its slots.

    With MERGE, not 0, a tile has one row, and the last of its programs to be done merges the stretches into `out`, so
    many at once; `done` counts them, from 0 and back to 0. Nobody waits: whoever is not the last ends.
    """
    wait_for_the_last(BESIDE)
    tile = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.program_id(2)
    first = tl.load(tiles + tile)
    count = tl.load(tiles + tile_count + tile)
    request = tl.load(tiles + 2 * tile_count + tile)
    length = tl.load(tiles + 3 * tile_count + tile)
    if count == 0:
        return
    stretch = tl.cdiv(tl.cdiv(length, SPLITS), 32) * 32
    begin = split * stretch
    end = tl.minimum(begin + stretch, length)

    # Row r of the tile and query head g of the group share this key head: lane = r * GROUP + g.
    lane = tl.arange(0, LANES)
    row = first + lane // GROUP
    real = lane < count * GROUP
    column = tl.arange(0, WIDTH)
    inside = column < SIZE
    q_head = head * GROUP + lane % GROUP
    own = ((row * HEADS + q_head) * SPLITS + split).to(tl.int64)  # (row, query head, split)
    if begin >= length:  # a short answer leaves splits without work
        if MERGE == 0:
            tl.store(peaks + own, tl.full([LANES], NOTHING, tl.float32), mask=real)
        return
    q = tl.load(
        query + (row * query_stride + q_head * SIZE)[:, None] + column[None, :],
        mask=real[:, None] & inside[None, :],
        other=0.0,
    )
    bit = tl.arange(0, 32)

    peak = tl.full([LANES], NOTHING, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    sum_ = tl.zeros([LANES, WIDTH], tl.float32)
    table = block_tables + request * MAX_BLOCKS
    block = tl.load(table + begin // BLOCK_SIZE)  # 32 places lie in one
    for start in range(begin, end, 32):
        # No branch and no lookup of its own in here: either would keep the compiler from fetching ahead.
        held = start + bit < end
        slot = (block * BLOCK_SIZE + start % BLOCK_SIZE + bit).to(tl.int64)
        block = tl.load(table + tl.minimum(start + 32, length - 1) // BLOCK_SIZE)  # of the places after these
        k = tl.load(
            keys + (slot[None, :] * KV_HEADS + head) * PITCH + column[:, None],
            mask=held[None, :] & inside[:, None],
            other=0.0,
        )
        v = tl.load(
            values + (slot[:, None] * KV_HEADS + head) * PITCH + column[None, :],
            mask=held[:, None] & inside[None, :],
            other=0.0,
        )
        word = tl.load(mask + row * MASK_WORDS + start // 32, mask=real, other=0)
        seen = ((word[:, None] >> bit[None, :]) & 1) != 0
        score = tl.where(seen, tl.dot(q, k, input_precision=PRECISION) * scale, NOTHING)
        new_peak = tl.maximum(peak, tl.max(score, 1))
        shrink = tl.exp(peak - new_peak)
        # A row that has seen nothing yet has no peak, and would count what is hidden from it.
        weight = tl.where(seen, tl.exp(score - new_peak[:, None]), 0.0)
        sum_ = sum_ * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision=PRECISION)
        total = total * shrink + tl.sum(weight, 1)
        peak = new_peak

    let_the_next_come(BESIDE)
    tl.store(peaks + own, peak, mask=real)
    tl.store(sums + own, total, mask=real)
    tl.store(partial + own[:, None] * SIZE + column[None, :], sum_, mask=real[:, None] & inside[None, :])
    if MERGE > 0:
        working = tl.cdiv(length, stretch)
        tl.debug_barrier()  # all warps have stored; the atomic releases that, and acquires what the others released
        if tl.atomic_add(done + tile * KV_HEADS + head, 1, sem="acq_rel", scope="gpu") == working - 1:
            tl.store(done + tile * KV_HEADS + head, 0)  # for the next launch
            target = first * HEADS + head * GROUP
            _merge_row(partial, peaks, sums, out, target, working, GROUP, SIZE, WIDTH, SPLITS, HEADS_MERGED, MERGE)


@triton.jit
def _merge_row(
    partial, peaks, sums, out, first, working,
    GROUP: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Merges the splits that have worked, of a group of heads from the first on; reads past the nearest cache."""
    lane = tl.arange(0, LANES)
    column = tl.arange(0, WIDTH)
    real = lane < GROUP
    inside = column < SIZE
    top = tl.full([LANES], NOTHING, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    value = tl.zeros([LANES, WIDTH], tl.float32)
    for start in range(0, working, PARTS):
        split = start + tl.arange(0, PARTS)
        held = real[:, None] & (split < working)[None, :]
        place = ((first + lane)[:, None] * SPLITS + split[None, :]).to(tl.int64)
        peak = tl.load(peaks + place, mask=held, other=NOTHING, cache_modifier=".cg")
        sum_ = tl.load(sums + place, mask=held, other=0.0, cache_modifier=".cg")
        part = tl.load(
            partial + place[:, :, None] * SIZE + column[None, None, :],
            mask=held[:, :, None] & inside[None, None, :],
            other=0.0,
            cache_modifier=".cg",
        )
        new_top = tl.maximum(top, tl.max(peak, 1))
        shrink = tl.exp(top - new_top)
        weight = tl.exp(peak - new_top[:, None])
        total = total * shrink + tl.sum(sum_ * weight, 1)
        value = value * shrink[:, None] + tl.sum(part * weight[:, :, None], 1)
        top = new_top
    target = out + (first + lane).to(tl.int64)[:, None] * SIZE + column[None, :]
    tl.store(target, (value / total[:, None]).to(out.dtype.element_ty), mask=real[:, None] & inside[None, :])


@triton.jit
def _merge(
    partial, peaks, sums, out, SIZE: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, BESIDE: tl.constexpr
):  # fmt: skip
    wait_for_the_last(BESIDE)
    place = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    column = tl.arange(0, WIDTH)
    inside = column < SIZE
    peak = tl.load(peaks + place * SPLITS + split)
    seen = peak > NOTHING  # the others saw nothing, and may have written nothing
    weight = tl.exp(peak - tl.max(peak, 0))
    total = tl.sum(tl.load(sums + place * SPLITS + split, mask=seen, other=0.0) * weight, 0)
    parts = tl.load(
        partial + (place * SPLITS + split)[:, None] * SIZE + column[None, :],
        mask=seen[:, None] & inside[None, :],
        other=0.0,
    )
    let_the_next_come(BESIDE)
    value = tl.sum(parts * weight[:, None], 0) / total
    tl.store(out + place * SIZE + column, value.to(out.dtype.element_ty), mask=inside)


class Attention:
    """Split attention over a paged pool, with its scratch memory, for steps of at most `rows` rows.

    The threads of an answer come in tiles of up to `tile_rows`; a tile reads the answer's keys once.
    """

    def __init__(
        self, rows: int, tiles: int, heads: int, kv_heads: int, size: int, *, block_size: int, max_blocks: int,
        words: int, device: torch.device, processors: int, splits: int | None = None,
        window: torch.Tensor | None = None, beside: int = 0,
    ):  # fmt: skip
        self._launched = launched(beside)  # how kernels of a layer are
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        self.group = heads // kv_heads
        self.width = max(16, triton.next_power_of_2(size))
        self.tiles, self.block_size, self.max_blocks, self.words = tiles, block_size, max_blocks, words
        self.tile_rows = rows_in_a_tile(rows, self.group)
        self.lanes = max(16, triton.next_power_of_2(self.tile_rows * self.group))
        assert block_size % 32 == 0, "the places of a word of the mask lie in one block"
        self.mask_words = max_blocks * block_size // 32
        wanted = max(1, 3 * processors // (tiles * kv_heads))  # more than twice: a short answer leaves some idle
        self.splits = splits or min(64, max(1, triton.next_power_of_2(wanted + 1) // 2))
        places = rows * heads * self.splits
        self.window = window  # one number: how far back some layers see, in positions
        self.mask = torch.zeros(rows * self.mask_words, dtype=torch.int32, device=device)
        self.near_mask = self.mask if window is None else torch.zeros_like(self.mask)  # of those layers
        self.partial = torch.zeros(places * size, dtype=torch.float32, device=device)
        self.peaks = torch.zeros(places, dtype=torch.float32, device=device)
        self.sums = torch.ones(places, dtype=torch.float32, device=device)
        self.done = torch.zeros(tiles * kv_heads, dtype=torch.int32, device=device)  # programs of a tile and key head
        self.heads_merged = triton.next_power_of_2(self.group)
        # One row is merged by the last of its programs, which takes less time than another kernel; several are not.
        self.merge = min(self.splits, max(1, MERGED // (self.heads_merged * self.width))) if rows == 1 else 0

    def build_mask(
        self,
        *,
        tiles: torch.Tensor,
        places: torch.Tensor,
        sees: torch.Tensor,
        slot_segments: torch.Tensor,
        block_tables: torch.Tensor,
        positions: torch.Tensor | None = None,
        slot_positions: torch.Tensor | None = None,
    ) -> None:
        """Works out who sees what: once a step, before the first layer.

        tiles (4, tiles): first row, number of rows, request, and slots that the request holds. places: each row's
        own in its request. sees (rows, words): each row's bit set of segments. slot_segments: by slot of the pool.
        block_tables (requests, max_blocks). With a window also positions, of each row, and by slot of the pool.
        """
        self._step = (tiles, block_tables)
        stride = min(self.mask_words, 64)
        for mask in {id(mask): mask for mask in (self.mask, self.near_mask)}.values():
            near = mask is not self.mask
            _build_mask[(self.tiles, stride)](
                tiles, places, positions if near else places, sees, slot_segments,
                slot_positions if near else slot_segments, block_tables, mask, self.window if near else mask,
                self.tiles, WORDS=self.words, MAX_BLOCKS=self.max_blocks, BLOCK_SIZE=self.block_size,
                MASK_WORDS=self.mask_words, ROWS=triton.next_power_of_2(self.tile_rows), STRIDE=stride, WINDOW=near,
                num_warps=1,
            )  # fmt: skip

    def __call__(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        out: torch.Tensor,
        scale: float,
        *,
        near: bool = False,
    ) -> None:
        """query and out (rows, heads, size), keys and values (slots, kv heads, size); `near`: within the window.

        A query's rows may lie apart, and so may the heads of keys and values, all of them alike.
        """
        _attend[(self.tiles, self.kv_heads, self.splits)](
            query, keys, values, self.partial, self.peaks, self.sums, self.done, out, *self._step,
            self.near_mask if near else self.mask, scale, query.stride(0), self.tiles,
            MERGE=self.merge, HEADS_MERGED=self.heads_merged,
            MAX_BLOCKS=self.max_blocks, BLOCK_SIZE=self.block_size, MASK_WORDS=self.mask_words,
            HEADS=self.heads, KV_HEADS=self.kv_heads, SIZE=self.size, PITCH=keys.stride(1), WIDTH=self.width,
            GROUP=self.group, LANES=self.lanes, SPLITS=self.splits,
            PRECISION="ieee" if query.dtype == torch.float32 else "tf32", num_warps=WARPS, num_stages=STAGES,
            **self._launched,
        )  # fmt: skip
        if self.merge:
            return
        _merge[(query.shape[0] * self.heads,)](
            self.partial, self.peaks, self.sums, out,
            SIZE=self.size, WIDTH=self.width, SPLITS=self.splits, num_warps=2, **self._launched,
        )  # fmt: skip


def rows_in_a_tile(rows: int, group: int) -> int:
    """How many threads of an answer share one reading of its keys."""
    return min(rows, max(1, TILE_LANES // group))
