"""Triton kernels of a decoding step. Each has a plain PyTorch twin in `reference.py`, and is tested against it.

A step has few rows (one for each live thread) and is bound by reading: the weights once, and the keys and
values of each answer once, whatever the number of its threads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE_LANES = 64  # rows times query heads of a key head that a program of the attention takes
NOTHING = tl.constexpr(-1e30)  # the score of what is not seen; finite, because infinities have no difference


@triton.jit
def _add_norm(x, residual, weight, out, size, eps, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < size
    value = tl.load(residual + row * size + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(x + row * size + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(residual + row * size + column, value.to(residual.dtype.element_ty), mask=inside)
        value = value.to(residual.dtype.element_ty).to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + eps)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    # transformers rounds to the model's type before it scales
    tl.store(out + row * size + column, value.to(out.dtype.element_ty) * scale, mask=inside)


def add_norm(
    x: torch.Tensor | None, residual: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor
) -> None:
    """residual += x; out = rms_norm(residual) * weight."""
    rows, size = residual.shape
    block = triton.next_power_of_2(size)
    _add_norm[(rows,)](
        x if x is not None else residual, residual, weight, out, size, eps,
        ADD=x is not None, BLOCK=block, num_warps=min(16, max(4, block // 512)),
    )  # fmt: skip


@triton.jit
def _silu_mul(gate_up, out, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    gate = tl.load(gate_up + row * 2 * size + column, mask=inside).to(tl.float32)
    up = tl.load(gate_up + row * 2 * size + size + column, mask=inside)
    silu = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty)
    tl.store(out + row * size + column, silu * up, mask=inside)


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor) -> None:
    """out = silu(gate) * up, where gate and up lie side by side."""
    rows, size = out.shape
    _silu_mul[(rows, triton.cdiv(size, 1024))](gate_up, out, size, BLOCK=1024)


@triton.jit
def _rotate_store(
    qkv, query, keys, values, cosines, sines, positions, slots, q_weight, k_weight, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, TURNED: tl.constexpr, HALF: tl.constexpr,
    NORM: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    head = tl.program_id(1)
    lane = tl.arange(0, HALF)
    inside = lane < SIZE // 2
    # A lane's two columns turn together. Of those that do not turn, which come last, any two may share a lane.
    first = tl.where(lane < TURNED // 2, lane, lane + TURNED // 2)
    second = tl.where(lane < TURNED // 2, lane + TURNED // 2, lane + SIZE // 2)
    base = qkv + row * (HEADS + 2 * KV_HEADS) * SIZE + head * SIZE
    low = tl.load(base + first, mask=inside, other=0.0)
    high = tl.load(base + second, mask=inside, other=0.0)
    slot = tl.load(slots + row).to(tl.int64)
    if head < HEADS + KV_HEADS:
        if NORM:  # Qwen3 and Gemma 3 normalise each head before they rotate
            weight = q_weight
            if head >= HEADS:
                weight = k_weight
            one, two = low.to(tl.float32), high.to(tl.float32)
            scale = tl.rsqrt((tl.sum(one * one, 0) + tl.sum(two * two, 0)) / SIZE + eps)
            one_weight = tl.load(weight + first, mask=inside, other=0.0)
            two_weight = tl.load(weight + second, mask=inside, other=0.0)
            if EXACT:
                low, high = (one * scale * one_weight).to(low.dtype), (two * scale * two_weight).to(high.dtype)
            else:
                low, high = (one * scale).to(low.dtype) * one_weight, (two * scale).to(high.dtype) * two_weight
        position = tl.load(positions + row).to(tl.int64)
        cosine = tl.load(cosines + position * (SIZE // 2) + lane, mask=inside, other=0.0)
        sine = tl.load(sines + position * (SIZE // 2) + lane, mask=inside, other=0.0)
        # Rounded as transformers rounds: each product, then the sum.
        rotated_low = (low * cosine).to(low.dtype) - (high * sine).to(low.dtype)
        rotated_high = (high * cosine).to(low.dtype) + (low * sine).to(low.dtype)
        target = query + row * HEADS * SIZE + head * SIZE
        if head >= HEADS:
            target = keys + (slot * KV_HEADS + head - HEADS) * SIZE
        tl.store(target + first, rotated_low, mask=inside)
        tl.store(target + second, rotated_high, mask=inside)
    else:
        target = values + (slot * KV_HEADS + head - HEADS - KV_HEADS) * SIZE
        tl.store(target + first, low, mask=inside)
        tl.store(target + second, high, mask=inside)


def rotate_store(
    qkv: torch.Tensor,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor],
    positions: torch.Tensor,
    slots: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
    eps: float,
    turned: int | None = None,
) -> None:
    """Rotates queries into `query` and keys into their slots of the pool, and stores the values.

    qkv (rows, (heads + 2 kv heads) * size), query (rows, heads, size), keys and values (slots, kv heads, size),
    rotation: cosines and sines (positions, size / 2). Where only the first columns turn, `turned` says how many; the
    rest of the table is then 1 and 0. Norms in float32 are applied before anything is rounded, as Gemma does.
    """
    rows, heads, size = query.shape
    kv_heads = keys.shape[1]
    q_weight, k_weight = norms if norms is not None else (qkv, qkv)
    _rotate_store[(rows, heads + 2 * kv_heads)](
        qkv, query, keys, values, *rotation, positions, slots, q_weight, k_weight, eps,
        HEADS=heads, KV_HEADS=kv_heads, SIZE=size, TURNED=turned or size, HALF=triton.next_power_of_2(size // 2),
        NORM=norms is not None, EXACT=q_weight.dtype == torch.float32, num_warps=1,
    )  # fmt: skip


@triton.jit
def _scatter_segments(slot_segments, slots, segments, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=0)
    tl.store(slot_segments + slot, tl.load(segments + row, mask=row < rows, other=0), mask=row < rows)


def scatter_segments(slot_segments: torch.Tensor, slots: torch.Tensor, segments: torch.Tensor) -> None:
    """slot_segments[slots] = segments."""
    rows = slots.shape[0]
    _scatter_segments[(triton.cdiv(rows, 256),)](slot_segments, slots, segments, rows, BLOCK=256)


@triton.jit
def _note_rows(
    slot_segments, block_tables, slots, segments, requests, places, hidden, padding_slot, rows,
    NOBODY: tl.constexpr, MAX_BLOCKS: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=padding_slot)
    real = slot != padding_slot
    tl.store(slot_segments + slot, tl.load(segments + row, mask=real, other=0), mask=real)
    request = tl.load(requests + row, mask=real, other=0)
    place = tl.load(places + row, mask=real, other=0)
    tl.store(block_tables + request * MAX_BLOCKS + place // BLOCK_SIZE, slot // BLOCK_SIZE, mask=real)
    gone = tl.load(hidden + row, mask=row < rows, other=padding_slot)
    tl.store(slot_segments + gone, tl.full([BLOCK], NOBODY, tl.int32), mask=gone != padding_slot)


def note_rows(
    slot_segments: torch.Tensor,
    block_tables: torch.Tensor,
    slots: torch.Tensor,
    segments: torch.Tensor,
    requests: torch.Tensor,
    places: torch.Tensor,
    hidden: torch.Tensor,
    *,
    block_size: int,
    padding_slot: int,
    nobody: int,
) -> None:
    """slot_segments[slots] = segments, and block_tables[requests, places // block_size] = slots // block_size.

    Rows that pad a step are left out. `hidden`: other slots, whose segment becomes `nobody`.
    """
    rows = slots.shape[0]
    _note_rows[(triton.cdiv(rows, 256),)](
        slot_segments, block_tables, slots, segments, requests, places, hidden, padding_slot, rows,
        NOBODY=nobody, MAX_BLOCKS=block_tables.shape[1], BLOCK_SIZE=block_size, BLOCK=256,
    )  # fmt: skip


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
    query, keys, values, partial, peaks, sums, tiles, block_tables, mask, scale, query_stride, tile_count,
    MAX_BLOCKS: tl.constexpr, BLOCK_SIZE: tl.constexpr, MASK_WORDS: tl.constexpr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, PITCH: tl.constexpr, WIDTH: tl.constexpr,
    GROUP: tl.constexpr, LANES: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: the rows of one tile (threads of one answer), one key head, one stretch of its slots."""
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
    out = ((row * HEADS + q_head) * SPLITS + split).to(tl.int64)  # (row, query head, split)
    if begin >= length:  # a short answer leaves splits without work
        tl.store(peaks + out, tl.full([LANES], NOTHING, tl.float32), mask=real)
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
    for start in range(begin, end, 32):
        # No branch in here: it would keep the compiler from fetching ahead.
        place = start + bit
        held = place < end
        block = tl.load(block_tables + request * MAX_BLOCKS + place // BLOCK_SIZE, mask=held, other=0)
        slot = (block * BLOCK_SIZE + place % BLOCK_SIZE).to(tl.int64)
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

    tl.store(peaks + out, peak, mask=real)
    tl.store(sums + out, total, mask=real)
    tl.store(partial + out[:, None] * SIZE + column[None, :], sum_, mask=real[:, None] & inside[None, :])


@triton.jit
def _merge(partial, peaks, sums, out, SIZE: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
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
    value = tl.sum(parts * weight[:, None], 0) / total
    tl.store(out + place * SIZE + column, value.to(out.dtype.element_ty), mask=inside)


class Attention:
    """Split attention over a paged pool, with its scratch memory, for steps of at most `rows` rows.

    The threads of an answer come in tiles of up to `tile_rows`; a tile reads the answer's keys once.
    """

    def __init__(
        self, rows: int, tiles: int, heads: int, kv_heads: int, size: int, *, block_size: int, max_blocks: int,
        words: int, device: torch.device, processors: int, splits: int | None = None,
        window: torch.Tensor | None = None,
    ):  # fmt: skip
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        self.group = heads // kv_heads
        self.width = max(16, triton.next_power_of_2(size))
        self.tiles, self.block_size, self.max_blocks, self.words = tiles, block_size, max_blocks, words
        self.tile_rows = rows_in_a_tile(rows, self.group)
        self.lanes = max(16, triton.next_power_of_2(self.tile_rows * self.group))
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
            query, keys, values, self.partial, self.peaks, self.sums, *self._step,
            self.near_mask if near else self.mask, scale, query.stride(0), self.tiles,
            MAX_BLOCKS=self.max_blocks, BLOCK_SIZE=self.block_size, MASK_WORDS=self.mask_words,
            HEADS=self.heads, KV_HEADS=self.kv_heads, SIZE=self.size, PITCH=keys.stride(1), WIDTH=self.width,
            GROUP=self.group, LANES=self.lanes, SPLITS=self.splits,
            PRECISION="ieee" if query.dtype == torch.float32 else "tf32", num_warps=4, num_stages=3,
        )  # fmt: skip
        _merge[(query.shape[0] * self.heads,)](
            self.partial, self.peaks, self.sums, out,
            SIZE=self.size, WIDTH=self.width, SPLITS=self.splits, num_warps=2,
        )  # fmt: skip


def rows_in_a_tile(rows: int, group: int) -> int:
    """How many threads of an answer share one reading of its keys."""
    return min(rows, max(1, TILE_LANES // group))
