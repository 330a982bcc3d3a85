"""From logits to tokens inside a captured step, each row with parameters of its own, without a sort of the vocabulary.

What is kept of a distribution is all above a threshold: of x = (best - logit) / temperature, which orders the tokens by
their probability exp(-x). The bits of a positive float order as integers do, so a threshold is found by a search over
integers: seven passes, each of which splits an interval in sixteen and sums up to every split. Few tokens are left in
the later intervals, and the others are passed over. Of tokens that stand at the threshold of top-p itself those of the
lowest numbers are kept, as a stable sort would. Then a token is drawn along the ladder of what is kept, in the order of
the vocabulary: the same token that `pasta.engine.sampling.choose` draws with the same number, but for rounding. That is
the twin of this file.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import AT_ONCE, can_launch_beside, launched, wait_for_the_last
from pasta.engine.cuda.parameters import FIELDS, MAX_BIASES, Level, Parameters, words_of

CHUNK = tl.constexpr(512)  # tokens that a program takes at once
WAYS = tl.constexpr(16)  # into which a pass splits an interval
PASSES = 7
ZERO = tl.constexpr(0x34000000)  # the bits of 2**-23: smaller differences are none
KEYS = tl.constexpr(1 << 28)  # WAYS ** PASSES: beyond x = 104, where exp(-x) is 0


@dataclass(frozen=True, slots=True)
class Cut:
    """How many tokens of a row a program takes, and its warps."""

    tokens: int
    warps: int


FINE, COARSE = Cut(1024, 4), Cut(4096, 8)
MANY = 1 << 21  # logits of a step, from which on there are programs enough


@dataclass(frozen=True, slots=True)
class Rows:
    """What a step knows of each of its rows. `allowed` has a word for each 32 tokens; None: all are."""

    tokens: torch.Tensor  # that they put
    states: torch.Tensor  # what may follow: rows of the grammar's table
    requests: torch.Tensor
    draws: torch.Tensor  # float32, in [0, 1]
    seen: torch.Tensor  # rows of the table of seen tokens; -1: none
    allowed: torch.Tensor | None = None
    forced: torch.Tensor | None = None  # a token to take whatever the logits say, or -1


@triton.jit
def _adjust(
    logits, scores, best_values, best_tokens, tokens, states, requests, numbers, forbidden, promise,
    seen_rows, seen, spared, bias_tokens, bias_values, allowed, size, stride, shut_stride, words,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, BIASES: tl.constexpr,
    CONSTRAIN: tl.constexpr, PENALISE: tl.constexpr, MASK: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    """Penalty, biases, grammar and mask; and the best token of the block."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < size
    held = token < stride  # a round number, so that several are read at once
    value = tl.load(logits + row.to(tl.int64) * stride + token, mask=held, other=float("-inf")).to(tl.float32)
    value = tl.where(inside, value, float("-inf"))
    request = tl.load(requests + row)
    if PENALISE:
        table_row = tl.load(seen_rows + row).to(tl.int64)
        if table_row >= 0:
            penalty = tl.load(numbers + request * FIELDS + 4)
            own = tl.load(tokens + row)
            bits = tl.load(seen + table_row * words + token // 32, mask=inside, other=0)
            exempt = tl.load(spared + token // 32, mask=inside, other=0)
            hit = ((bits >> (token % 32)) & 1) | (token == own).to(tl.int32)
            hit = hit & ~(exempt >> (token % 32))
            value = tl.where((hit & 1) != 0, tl.where(value > 0, value / penalty, value * penalty), value)
            if block == own // BLOCK:  # the others read it as `own`
                place = seen + table_row * words + own // 32
                tl.store(place, tl.load(place) | (1 << (own % 32)))
    count = tl.load(numbers + request * FIELDS + 6).to(tl.int32)
    for index in range(count):
        biased = tl.load(bias_tokens + request * BIASES + index)
        value += tl.where(token == biased, tl.load(bias_values + request * BIASES + index), 0.0)
    if CONSTRAIN:
        state = tl.load(states + row).to(tl.int64)
        shut = tl.load(forbidden + state * shut_stride + token, mask=token < shut_stride, other=1)
        value += tl.where(token == promise, tl.load(numbers + request * FIELDS + 5), 0.0)
        value = tl.where(shut != 0, float("-inf"), value)
    if MASK:
        bits = tl.load(allowed + row.to(tl.int64) * words + token // 32, mask=inside, other=0)
        value = tl.where(((bits >> (token % 32)) & 1) != 0, value, float("-inf"))
    tl.store(scores + row.to(tl.int64) * stride + token, value, mask=held)
    best, place = tl.max(value, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(best_values + row * BLOCKS + block, best)
    tl.store(best_tokens + row * BLOCKS + block, block * BLOCK + place)


@triton.jit
def _peak(best_values, row, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):
    block = tl.arange(0, WIDTH)
    return tl.max(tl.load(best_values + row * BLOCKS + block, mask=block < BLOCKS, other=float("-inf")), 0)


@triton.jit
def _keys(scores, peak, temperature, row, token, stride):
    """How far these tokens are behind the best, and their keys: the same as integers."""
    score = tl.load(scores + row.to(tl.int64) * stride + token, mask=token < stride, other=float("-inf"))
    x = (peak - score) / temperature
    return x, tl.maximum(x.to(tl.int32, bitcast=True) - ZERO, 0)


@triton.jit
def _weights(x, key, min_p):
    """Their probabilities; of the best: 1."""
    weight = tl.exp(-x)
    return tl.where((weight >= min_p) & (key < KEYS), weight, 0.0)


@triton.jit
def _narrow(
    partial, low, below, target, row, rows, wanted,
    passes, FIRST: tl.constexpr, SECOND: tl.constexpr, BY_COUNT: tl.constexpr,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """After so many passes: where the interval begins, the sum up to there, and the sum that is looked for.

    A sum is a count, or a share of all.
    """
    begin = 0
    before = 0.0
    goal = wanted
    if not FIRST:
        block = tl.arange(0, WIDTH)[:, None]
        way = tl.arange(0, WAYS)[None, :]
        place = (((passes - 1) * rows + row) * BLOCKS + block) * WAYS + way
        last = (passes - 1) * rows + row
        before = tl.load(below + last)
        up_to = before + tl.sum(tl.load(partial + place, mask=block < BLOCKS, other=0.0), 0)
        if not BY_COUNT:
            goal = wanted * tl.max(up_to, 0) if SECOND else tl.load(target + row)
        split = tl.minimum(tl.sum((up_to < goal).to(tl.int32), 0), WAYS - 1)
        begin = tl.load(low + last) + (KEYS >> (4 * passes)) * split
        before = tl.maximum(before, tl.max(tl.where(tl.arange(0, WAYS) < split, up_to, 0.0), 0))
    return begin, before, goal


@triton.jit(do_not_specialize=["rows", "passes"])
def _search(
    scores, best_values, requests, numbers, partial, low, below, target, limits, rows, passes, stride,
    FIRST: tl.constexpr, SECOND: tl.constexpr, BY_COUNT: tl.constexpr, LIMITED: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """A pass: sums (or counts) this block's tokens of the interval so far, up to each of its sixteen splits."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.program_id(1)
    place = numbers + tl.load(requests + row) * FIELDS
    temperature = tl.load(place)
    wanted = tl.load(place + (1 if BY_COUNT else 2))
    looked_for = wanted > 0 if BY_COUNT else wanted < 1
    if (temperature == 0) | (looked_for == 0):
        return
    min_p = tl.load(place + 3)
    peak = _peak(best_values, row, BLOCKS, WIDTH)
    begin, before, goal = _narrow(
        partial, low, below, target, row, rows, wanted, passes, FIRST, SECOND, BY_COUNT, BLOCKS, WIDTH
    )
    if block == 0:
        tl.store(low + passes * rows + row, begin)
        tl.store(below + passes * rows + row, before)
        if SECOND:
            tl.store(target + row, goal)
    step = KEYS >> (4 * (passes + 1))
    limit = KEYS
    if LIMITED:
        limit = tl.load(limits + row)
    way = tl.arange(0, WAYS)
    edge = begin + step * (way + 1)  # exclusive
    up_to = tl.zeros([CHUNK, WAYS], tl.float32)
    for start in range(0, BLOCK, CHUNK):
        token = block * BLOCK + start + tl.arange(0, CHUNK)
        x, key = _keys(scores, peak, temperature, row, token, stride)
        within = (key >= begin) & (key < begin + step * WAYS) & (key <= limit)
        if tl.max(within.to(tl.int32), 0) > 0:
            weight = tl.where(within, _weights(x, key, min_p), 0.0)
            if BY_COUNT:
                weight = (weight > 0).to(tl.float32)
            up_to += tl.where(key[:, None] < edge[None, :], weight[:, None], 0.0)
    tl.store(partial + ((passes * rows + row) * BLOCKS + block) * WAYS + way, tl.sum(up_to, 0))


@triton.jit(do_not_specialize=["rows"])
def _settle(
    requests, numbers, partial, low, below, target, limits, rows,
    PASSES: tl.constexpr, BY_COUNT: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """The key at which the search ended; none where nothing was looked for."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    place = numbers + tl.load(requests + row) * FIELDS
    wanted = tl.load(place + (1 if BY_COUNT else 2))
    limit = KEYS
    looked_for = wanted > 0 if BY_COUNT else wanted < 1
    if (tl.load(place) > 0) & looked_for:
        limit, _, _ = _narrow(
            partial, low, below, target, row, rows, wanted, PASSES, False, False, BY_COUNT, BLOCKS, WIDTH
        )
    tl.store(limits + row, limit)


@triton.jit
def _weigh(
    scores, best_values, requests, numbers, count_limits, sum_limits, masses, ties, stride,
    TOP_K: tl.constexpr, TOP_P: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """What a block keeps before the threshold of top-p, and how many tokens stand at it."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.program_id(1)
    place = numbers + tl.load(requests + row) * FIELDS
    temperature = tl.load(place)
    if temperature == 0:
        return
    peak = _peak(best_values, row, BLOCKS, WIDTH)
    token = block * BLOCK + tl.arange(0, BLOCK)
    x, key = _keys(scores, peak, temperature, row, token, stride)
    weight = _weights(x, key, tl.load(place + 3))
    if TOP_K:
        weight = tl.where(key <= tl.load(count_limits + row), weight, 0.0)
    if TOP_P:
        edge = tl.load(sum_limits + row)
        tl.store(ties + row * BLOCKS + block, tl.sum(((key == edge) & (weight > 0)).to(tl.int32), 0))
        weight = tl.where(key < edge, weight, 0.0)
    tl.store(masses + row * BLOCKS + block, tl.sum(weight, 0))


@triton.jit
def _draw(
    scores, best_values, best_tokens, requests, numbers, draws,
    count_limits, sum_limits, target, masses, ties, forced, out, stride,
    TOP_K: tl.constexpr, TOP_P: tl.constexpr, FORCE: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    """One program for each row: the block that its number falls into, and the token in it."""
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.arange(0, WIDTH)
    real = block < BLOCKS
    best = tl.load(best_values + row * BLOCKS + block, mask=real, other=float("-inf"))
    peak, first = tl.max(best, 0, return_indices=True, return_indices_tie_break_left=True)
    chosen = tl.load(best_tokens + row * BLOCKS + first)
    place = numbers + tl.load(requests + row) * FIELDS
    temperature = tl.load(place)
    if (temperature > 0) & (peak > float("-inf")):
        mass = tl.load(masses + row * BLOCKS + block, mask=real, other=0.0)
        kept_ties = 0
        edge = KEYS
        if TOP_P:
            edge = tl.load(sum_limits + row)
            if edge < KEYS:
                tied = tl.load(ties + row * BLOCKS + block, mask=real, other=0)
                weight_of_tie = tl.exp(-tl.where(edge > 0, edge + ZERO, 0).to(tl.float32, bitcast=True))
                missing = (tl.load(target + row) - tl.sum(mass, 0)) / weight_of_tie
                kept_ties = tl.maximum(tl.ceil(missing).to(tl.int32), 1)
                before = tl.cumsum(tied, 0) - tied
                mass += tl.minimum(tl.maximum(kept_ties - before, 0), tied).to(tl.float32) * weight_of_tie
        ladder = tl.cumsum(mass, 0)
        goal = tl.load(draws + row) * tl.sum(mass, 0)
        last = tl.max(tl.where(mass > 0, block, 0), 0)
        at = tl.minimum(tl.min(tl.where((mass > 0) & (ladder > goal), block, WIDTH), 0), last)
        goal -= tl.sum(tl.where(block < at, mass, 0.0), 0)
        token = at * BLOCK + tl.arange(0, BLOCK)
        x, key = _keys(scores, peak, temperature, row, token, stride)
        weight = _weights(x, key, tl.load(place + 3))
        if TOP_K:
            weight = tl.where(key <= tl.load(count_limits + row), weight, 0.0)
        if TOP_P:  # noqa: SIM102 (known when it is compiled)
            if edge < KEYS:
                earlier = tl.load(ties + row * BLOCKS + block, mask=block < at, other=0)
                is_tie = ((key == edge) & (weight > 0)).to(tl.int32)
                rank = tl.sum(earlier, 0) + tl.cumsum(is_tie, 0) - is_tie
                weight = tl.where((key < edge) | ((is_tie != 0) & (rank < kept_ties)), weight, 0.0)
        steps = tl.cumsum(weight, 0)
        last = tl.max(tl.where(weight > 0, token, 0), 0)
        chosen = tl.minimum(tl.min(tl.where((weight > 0) & (steps > goal), token, stride), 0), last)
    if FORCE:
        told = tl.load(forced + row)
        chosen = tl.where(told >= 0, told, chosen)
    tl.store(out + row, chosen.to(tl.int64))


class Sampler:
    """Chooses a token for each row of a captured step.

    forbidden (states, tokens): the grammar's table, None without one; promise: the token that `parallelism` is for.
    seen (threads, words) and spared (words): for the repetition penalty, a bit for each token.
    """

    def __init__(
        self,
        parameters: Parameters,
        *,
        forbidden: torch.Tensor | None,
        promise: int,
        seen: torch.Tensor | None,
        spared: torch.Tensor | None,
    ):
        self.parameters = parameters
        self.forbidden, self.promise = forbidden, promise
        self.seen, self.spared = seen, spared

    def __call__(self, logits: torch.Tensor, rows: Rows, level: int, out: torch.Tensor | None = None) -> torch.Tensor:
        """The tokens, (rows), int64."""
        (count, size), stride = logits.shape, logits.stride(0)
        device, numbers = logits.device, self.parameters.numbers
        cut = FINE if count * size < MANY else COARSE
        blocks = triton.cdiv(size, cut.tokens)
        grid, width = (count, blocks), triton.next_power_of_2(blocks)
        wide = {"BLOCK": cut.tokens, "num_warps": cut.warps}
        launch = {"BLOCKS": blocks, **launched(AT_ONCE.value if can_launch_beside(device) else 0)}

        def space(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        scores, best_values = space(count, stride), space(count, blocks)
        best_tokens = space(count, blocks, dtype=torch.int32)
        out = space(count, dtype=torch.int64) if out is None else out
        masses, ties = space(count, blocks), space(count, blocks, dtype=torch.int32)
        penalise = self.seen is not None
        forbidden = self.forbidden if self.forbidden is not None else logits
        _adjust[grid](
            logits, scores, best_values, best_tokens, rows.tokens, rows.states, rows.requests, numbers,
            forbidden, self.promise,
            rows.seen, self.seen if penalise else rows.seen, self.spared if penalise else rows.seen,
            self.parameters.bias_tokens, self.parameters.bias_values,
            rows.allowed if rows.allowed is not None else rows.seen, size, stride, forbidden.stride(0), words_of(size),
            BIASES=MAX_BIASES, CONSTRAIN=self.forbidden is not None, PENALISE=penalise,
            MASK=rows.allowed is not None, **wide, **launch,
        )  # fmt: skip
        top_k, top_p = level >= Level.TOP_K, level >= Level.TOP_P
        limits: list[torch.Tensor] = []
        targets: list[torch.Tensor] = []
        for by_count in [True] * top_k + [False] * top_p:
            partial, below, target = space(PASSES, count, blocks, WAYS.value), space(PASSES, count), space(count)
            low, limit = space(PASSES, count, dtype=torch.int32), space(count, dtype=torch.int32)
            limited = limits[0] if limits else limit
            for number in range(PASSES):
                _search[grid](
                    scores, best_values, rows.requests, numbers, partial, low, below, target, limited, count, number,
                    stride, FIRST=number == 0, SECOND=number == 1, BY_COUNT=by_count, LIMITED=bool(limits), WIDTH=width,
                    **wide, **launch,
                )  # fmt: skip
            _settle[(count,)](
                rows.requests, numbers, partial, low, below, target, limit, count,
                PASSES=PASSES, BY_COUNT=by_count, WIDTH=width, num_warps=1, **launch,
            )  # fmt: skip
            limits.append(limit)
            targets.append(target)
        count_limit = limits[0] if top_k else out
        sum_limit, target = (limits[-1], targets[-1]) if top_p else (out, out)
        kinds = {"TOP_K": top_k, "TOP_P": top_p, "WIDTH": width, **wide}
        _weigh[grid](
            scores, best_values, rows.requests, numbers, count_limit, sum_limit, masses, ties, stride, **kinds, **launch
        )
        _draw[(count,)](
            scores, best_values, best_tokens, rows.requests, numbers, rows.draws, count_limit, sum_limit, target,
            masses, ties, rows.forced if rows.forced is not None else ties, out, stride,
            FORCE=rows.forced is not None, **kinds, **launch,
        )  # fmt: skip
        return out
