"""Logits in aligned rows, whatever the size of the vocabulary, and the likeliest token of each."""

from __future__ import annotations

import os

import pytest
import torch
from test_cuda import error

# Triton's interpreter runs the kernels on a CPU, slowly: TRITON_INTERPRET=1.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device"),
]


def spread(rows: torch.Tensor, beyond: int) -> torch.Tensor:
    """As a step has them: in aligned rows, with something beyond their ends that nobody may look at."""
    from pasta.engine.cuda.head import aligned_rows

    count, size = rows.shape
    out = aligned_rows(count, size, rows.dtype, torch.device(DEVICE))
    stride = out.stride(0)
    out.as_strided((count, stride), (stride, 1)).fill_(beyond)
    return out.copy_(rows)


@pytest.mark.parametrize("rows", [1, 2, 4, 9])
@pytest.mark.parametrize("tokens,width", [(1024, 512), (1027, 512), (64, 576), (203, 256)])
def test_the_head_of_any_vocabulary(rows: int, tokens: int, width: int) -> None:
    """Whichever way is taken, into a given place and a new one. The model keeps its weight, as its embedding does."""
    from pasta.engine.cuda.head import ALIGNED, Head

    dtype = torch.float16 if INTERPRETED else torch.bfloat16
    torch.manual_seed(tokens)
    weight = (torch.randn(tokens, width) / width**0.5).to(DEVICE, dtype)
    module = torch.nn.Linear(width, tokens, bias=False, device="meta")
    module.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
    shared = torch.nn.Embedding(tokens, width, device="meta")
    shared.weight = module.weight
    head = Head(module)
    assert (head.tokens, head.width) == (tokens, width)
    assert module.weight.equal(weight) and shared.weight.equal(weight)
    hidden = torch.randn(rows, width).to(DEVICE, dtype)
    expected = hidden.double() @ weight.double().T
    out = head.space(rows)
    assert head(hidden, out) is out
    for logits in (out, head(hidden)):
        assert logits.shape == (rows, tokens) and logits.stride(0) % ALIGNED == 0
        assert error(logits, expected) < 1e-2


@pytest.mark.parametrize("tokens", [64, 203, 4_093])
@pytest.mark.parametrize("shift", [0.0, -1000.0])  # whatever fills a row would be likelier then
def test_the_likeliest_token_is_one_of_the_vocabulary(tokens: int, shift: float) -> None:
    from pasta.engine.cuda.argmax import masked_argmax
    from pasta.engine.cuda.parameters import Parameters

    random = torch.Generator().manual_seed(tokens)
    rows = 3
    logits = torch.randn(rows, tokens, generator=random) + shift
    forbidden = torch.rand(2, tokens, generator=random) < torch.tensor([[0.1], [0.9]])
    states = torch.tensor([0, 1, 1], dtype=torch.int32)
    numbers = Parameters(1, torch.device(DEVICE)).numbers
    zeros = torch.zeros(rows, dtype=torch.int32, device=DEVICE)
    step = (states.to(DEVICE), zeros, numbers, 0)
    assert masked_argmax(spread(logits, 9), None, *step).tolist() == logits.argmax(1).tolist()
    expected = logits.masked_fill(forbidden[states.long()], -torch.inf).argmax(1)
    assert masked_argmax(spread(logits, 9), spread(forbidden.to(torch.uint8), 0), *step).tolist() == expected.tolist()


def test_of_rows_that_draw_nothing_is_said_but_what_is_forced() -> None:
    from pasta.core.params import SamplingParams
    from pasta.engine.cuda.argmax import masked_argmax
    from pasta.engine.cuda.parameters import Parameters

    parameters = Parameters(2, torch.device(DEVICE))
    parameters.tell(1, SamplingParams(temperature=0.7))
    logits = torch.randn(3, 203, generator=torch.Generator().manual_seed(0))
    requests, states, forced = (
        torch.tensor(each, dtype=torch.int32, device=DEVICE) for each in ([0, 1, 0], [0, 0, 0], [-1, 7, 8])
    )
    chosen = masked_argmax(spread(logits, 9), None, states, requests, parameters.numbers, 0, forced=forced)
    assert chosen.tolist() == [int(logits[0].argmax()), 7, 8]
