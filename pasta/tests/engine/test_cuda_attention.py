"""Attention of a step against its plain twin in float64; on a CPU through Triton's interpreter: TRITON_INTERPRET=1."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from test_cuda import CASES, error

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype,bound", CASES)
@pytest.mark.parametrize("heads,kv_heads,size", [(9, 3, 64), (32, 8, 128), (8, 8, 96), (4, 1, 256), (12, 2, 128)])
@pytest.mark.parametrize(
    "answers,threads,length",
    [
        (1, 1, 1),
        (1, 1, 1000),
        (1, 16, 700),
        (1, 40, 300),
        (7, 3, 150),
        (5, 1, 33),
        (1, 1, 64),
        (1, 1, 2500),  # more splits than one row merges at once
        (1, 2, 2500),
    ],
)
def test_attention(
    dtype: torch.dtype, bound: float, heads: int, kv_heads: int, size: int, answers: int, threads: int, length: int
) -> None:
    from pasta.engine.cuda import reference
    from pasta.engine.cuda.attention import Attention

    if INTERPRETED and (dtype == torch.bfloat16 or answers * threads * length * heads > 20_000):
        pytest.skip("the interpreter has no bfloat16, and no time")
    block_size, words, device = 64, 16, torch.device(DEVICE)
    generator = torch.Generator(device).manual_seed(heads * length + threads)
    random = {"generator": generator, "device": device}
    lengths = [max(threads, length - 13 * answer) for answer in range(answers)]
    most = -(-max(lengths) // block_size)
    block_tables = torch.randperm(answers * most, **random).view(answers, most).int()
    slots = answers * most * block_size
    rows = answers * threads
    keys, values = (torch.randn(slots, kv_heads, size, **random).to(dtype) for _ in range(2))
    query = torch.randn(rows, heads, size, **random).to(dtype)
    slot_segments = torch.randint(0, 32 * words, (slots,), **random, dtype=torch.int32)
    sees = torch.randint(-(2**31), 2**31 - 1, (rows, words), **random, dtype=torch.int32)
    requests = torch.arange(answers, device=device).repeat_interleave(threads)
    # The last tokens of each answer are this step's; a row sees itself, whatever else.
    places = torch.tensor(
        [lengths[a] - threads + t for a in range(answers) for t in range(threads)], device=device
    ).int()
    own = block_tables[requests, (places // block_size).long()].long() * block_size + places % block_size
    slot_segments[own] = 7
    sees[:, 0] |= 1 << 7

    sizes: dict[str, Any] = {"block_size": block_size, "max_blocks": most, "words": words}
    sizes |= {"device": device, "processors": 132}
    probe = Attention(rows, 1, heads, kv_heads, size, **sizes)
    tiles = [
        (answer * threads + first, min(probe.tile_rows, threads - first), answer, lengths[answer])
        for answer in range(answers)
        for first in range(0, threads, probe.tile_rows)
    ] + [(0, 0, 0, 0)]  # an empty one, as a rounded-up step has
    attention = Attention(rows, len(tiles), heads, kv_heads, size, **sizes)
    out = torch.full_like(query, torch.nan)
    attention.build_mask(
        tiles=torch.tensor(tiles, device=device).int().T.contiguous(),
        places=places, sees=sees, slot_segments=slot_segments, block_tables=block_tables,
    )  # fmt: skip
    for _ in range(3):  # what a launch counts, the next one counts anew
        out.fill_(torch.nan)
        attention(query, keys, values, out, size**-0.5)
    expected = reference.attend(
        query.double(), keys.double(), values.double(), size**-0.5, requests=requests,
        lengths=torch.tensor(lengths), places=places, sees=sees, slot_segments=slot_segments,
        block_tables=block_tables, block_size=block_size,
    )  # fmt: skip
    assert error(out, expected) < bound
