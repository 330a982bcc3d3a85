"""Drafts on a GPU: the same answers with and without, and as the engine on the CPU gives them."""

from __future__ import annotations

import copy

import pytest
import torch
from test_cuda import tiny_trained_model
from test_drafts import PROMPTS, Oracle, both, oracle, steps  # noqa: F401  (a fixture)

from pasta.decoding.api import generate_all
from pasta.engine.native import NativeEngine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.usefixtures("oracle")
def test_drafts_on_a_gpu(family: str) -> None:
    """Forks, nested forks and syncs, several requests at once; float32.

    Other rows in a step round otherwise. So what is sampled is drawn with a seed by which no draw comes closer than
    1.9e-5 to the border of two tokens; with another, one at 4e-7 fell on either side.
    """
    from pasta.engine.cuda.engine import CudaEngine

    model, vocabulary = tiny_trained_model(family, 10)
    cpu = NativeEngine(copy.deepcopy(model), vocabulary, slots=8192)
    gpu = CudaEngine(model.cuda(), vocabulary, slots=8192)
    cpu.max_segments = gpu.max_segments
    gpu.row_cost, gpu.wait_cost = 1e-6, 0.0
    saved = 0
    for parallelism, temperature in ((0.0, 0.0), (2.0, 0.0), (6.0, 0.0), (2.0, 0.4), (6.0, 0.4)):
        limit = 60 if temperature else 160
        options = {"parallelism": parallelism, "temperature": temperature, "max_tokens": limit, "seed": 12}
        without, drafted = both(gpu, PROMPTS, **options)
        saved += steps(without) - steps(drafted)
        if temperature == 0:
            assert [result.tree for result in drafted] == [
                result.tree for result in generate_all(cpu, PROMPTS, drafts=False, **options)
            ]
    assert saved > 100
    assert Oracle.answers
