"""Prompts on a GPU, alone, together and in parts, against the model's own pass. TRITON_INTERPRET=1 runs it on a CPU."""

from __future__ import annotations

import os

import pytest
import torch

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.segments import Thread
from pasta.engine.batch import gather
from pasta.engine.pool import KvPool
from pasta.engine.request import Chunk, Handle, Request, Row
from support import tiny_model

pytest.importorskip("triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (torch.cuda.is_available() or INTERPRETED), reason="needs a CUDA device"),
]
SLOTS = 1024


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_prompts_alone_together_and_in_parts(family: str) -> None:
    from pasta.engine.cuda.fused import FusedDecoder
    from pasta.engine.cuda.prefill import Prefiller

    device = torch.device("cpu" if INTERPRETED else "cuda")
    model = tiny_model(family).eval().to(device)
    decoder, pool = FusedDecoder(model, 512), KvPool(SLOTS, device)
    memory = torch.zeros(len(decoder.layers), 2, SLOTS, decoder.kv_heads, decoder.size, device=device)
    store = [(layer[0], layer[1]) for layer in memory]
    prefiller = Prefiller(decoder, store, torch.zeros(SLOTS, dtype=torch.int32, device=device))

    def opened(ids: list[int]) -> Chunk:
        request = Request(pool, SamplingParams(), None)
        request.open(ids, [])
        last = len(ids) - 1
        row = Row(Handle(request, Thread(request.table)), Expect.TEXT, last, ids[last], last, 0)
        return Chunk(request, 0, len(ids), [row])

    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(0, 250, (length,), generator=generator).tolist() for length in (9, 5, 20)]
    with torch.inference_mode():
        right = {len(ids): model(torch.tensor([ids], device=device)).logits[0, -1] for ids in prompts}

        def check(chunks: list[Chunk], passes: int) -> None:
            runs = prefiller.run(chunks)
            assert len(runs) == passes
            for run in runs:
                for row, logits in zip(run.rows, run.logits, strict=True):
                    assert torch.allclose(logits, right[row.place + 1], atol=1e-4)

        for ids in prompts:
            sent = prefiller._send(gather([opened(ids)]))
            assert all(len(column) == len(ids) and column.data_ptr() % 16 == 0 for column in sent)
            check([opened(ids)], 1)
        check([opened(ids) for ids in prompts], 1)
        request, _, end, rows = opened(prompts[2])
        check([Chunk(request, 0, 12, [])], 1)
        check([Chunk(request, 12, end, rows), opened(prompts[0]), opened(prompts[1])], 2)
