"""The likeliest token of each row, under the grammar: what a greedy step chooses. Its twin is in `reference.py`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from pasta.engine.cuda.beside import launched, let_the_next_come, wait_for_the_last
from pasta.engine.cuda.parameters import FIELDS

TEMPERATURE, PARALLELISM = tl.constexpr(0), tl.constexpr(5)  # among a request's parameters: `parameters.numbers_of`


@triton.jit
def _argmax_in_block(
    logits, forbidden, states, requests, numbers, biased, values, tokens, size, stride, shut_stride,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, CONSTRAIN: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.program_id(1)
    own = numbers + tl.load(requests + row) * FIELDS
    if tl.load(own + TEMPERATURE) > 0:  # its token is drawn
        return
    token = block * BLOCK + tl.arange(0, BLOCK)
    held = token < stride  # a round number, so that several are read at once; beyond `size` stands anything
    value = tl.load(logits + row.to(tl.int64) * stride + token, mask=held, other=float("-inf")).to(tl.float32)
    value = tl.where(token < size, value, float("-inf"))
    if CONSTRAIN:
        state = tl.load(states + row)
        shut = tl.load(forbidden + state.to(tl.int64) * shut_stride + token, mask=token < shut_stride, other=1)
        value += tl.where(token == biased, tl.load(own + PARALLELISM), 0.0)
        value = tl.where(shut != 0, float("-inf"), value)
    let_the_next_come(BESIDE)
    best, place = tl.max(value, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(values + row * BLOCKS + block, best)
    tl.store(tokens + row * BLOCKS + block, block * BLOCK + place)


@triton.jit
def _argmax_of_blocks(
    values, tokens, forced, out, BLOCKS: tl.constexpr, WIDTH: tl.constexpr, FORCE: tl.constexpr,
    BESIDE: tl.constexpr,
):  # fmt: skip
    wait_for_the_last(BESIDE)
    row = tl.program_id(0)
    block = tl.arange(0, WIDTH)
    value = tl.load(values + row * BLOCKS + block, mask=block < BLOCKS, other=float("-inf"))
    place = tl.argmax(value, 0, tie_break_left=True)
    best = tl.load(tokens + row * BLOCKS + place)
    if FORCE:
        told = tl.load(forced + row)
        best = tl.where(told >= 0, told, best)
    tl.store(out + row, best.to(tl.int64))


def masked_argmax(
    logits: torch.Tensor,
    forbidden: torch.Tensor | None,
    states: torch.Tensor,
    requests: torch.Tensor,
    numbers: torch.Tensor,
    biased: int,
    *,
    forced: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    beside: int = 0,
) -> torch.Tensor:
    """The best token of each row that its state allows, with the parallelism of the row's request on one token.

    logits (rows, tokens), forbidden (states, tokens), states and requests (rows), biased: the token; numbers (requests,
    fields): as `parameters.Parameters` keeps them. forced (rows): a token to take whatever the logits say, or -1.
    Of a row with a temperature nothing is said but what is forced.
    """
    rows, size = logits.shape
    block = 2048
    blocks = triton.cdiv(size, block)
    values = torch.empty(rows * blocks, dtype=torch.float32, device=logits.device)
    tokens = torch.empty(rows * blocks, dtype=torch.int32, device=logits.device)
    if out is None:
        out = torch.empty(rows, dtype=torch.int64, device=logits.device)
    table = forbidden if forbidden is not None else logits
    _argmax_in_block[(rows, blocks)](
        logits, table, states, requests, numbers, biased, values, tokens, size, logits.stride(0), table.stride(0),
        BLOCKS=blocks, BLOCK=block, CONSTRAIN=forbidden is not None, num_warps=8, **launched(beside),
    )  # fmt: skip
    _argmax_of_blocks[(rows,)](
        values, tokens, forced if forced is not None else tokens, out,
        BLOCKS=blocks, WIDTH=triton.next_power_of_2(blocks), FORCE=forced is not None, num_warps=1,
        **launched(beside),
    )  # fmt: skip
    return out
