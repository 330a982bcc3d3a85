"""The choice of tokens in a captured step, against the sampler of the other engines."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from test_cuda import error, tiny_trained_model
from test_cuda_head import spread

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.decoding.api import generate_all
from pasta.engine.native import NativeEngine
from pasta.engine.rounding import EightBits
from pasta.engine.sampling import choose, distribution

# Triton's interpreter runs the kernels on a CPU, slowly: TRITON_INTERPRET=1.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device"),
]
on_a_gpu = pytest.mark.skipif(INTERPRETED, reason="needs a CUDA device")

WAYS = [
    SamplingParams(),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=1e-30),
    SamplingParams(temperature=0.7, top_p=0.9),
    SamplingParams(temperature=3.0, top_p=0.3),
    SamplingParams(temperature=1.3, top_k=20),
    SamplingParams(temperature=1.0, top_k=1),
    SamplingParams(temperature=1.0, top_k=100_000),
    SamplingParams(temperature=0.7, min_p=0.05),
    SamplingParams(temperature=1.0, min_p=1.0),
    SamplingParams(temperature=1.0, top_k=50, top_p=0.8, min_p=0.01),
    SamplingParams(repetition_penalty=1.4),
    SamplingParams(temperature=0.9, top_p=0.95, repetition_penalty=0.8, logit_bias=((3, 4.0), (4000, 6.0))),
]


def pack(flags: torch.Tensor) -> torch.Tensor:
    whole = torch.nn.functional.pad(flags, (0, -flags.shape[-1] % 32))
    return torch.from_numpy(np.packbits(whole.numpy(), axis=-1, bitorder="little").view(np.int32)).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [4_128, 4_095] if INTERPRETED else [96, 49_152, 49_539, 128_256, 152_039])
@pytest.mark.parametrize("cut", ["FINE", "COARSE"])
def test_tokens_are_those_of_the_slow_sampler(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, size: int, cut: str
) -> None:
    """Every way at once, a row of each, with ties (bfloat16 has many), a grammar, masks and tokens that were seen."""
    from pasta.engine.cuda import reference, sampling
    from pasta.engine.cuda.parameters import Level, Parameters
    from pasta.engine.cuda.sampling import Rows, Sampler

    monkeypatch.setattr(sampling, "MANY", 0 if cut == "COARSE" else 1 << 62)
    random = torch.Generator().manual_seed(size)
    repeats = 2 if INTERPRETED else 10
    ways = WAYS * repeats
    logits = (torch.randn(len(ways), size, generator=random) * 3).to(dtype)
    forbidden = torch.rand(3, size, generator=random) < torch.tensor([[0.0], [0.3], [0.9]])
    seen = torch.rand(len(ways), size, generator=random) < 0.2
    spared = torch.rand(size, generator=random) < 0.1
    allowed = torch.rand(len(ways), size, generator=random) < 0.7
    allowed[::2] = True
    own = torch.randint(0, size, (len(ways),), generator=random, dtype=torch.int32)
    states = torch.randint(0, 3, (len(ways),), generator=random, dtype=torch.int32)
    draws = torch.rand(len(ways), generator=random)
    parameters = Parameters(len(WAYS), torch.device(DEVICE))
    for index, way in enumerate(WAYS):
        parameters.tell(index, way)
    requests = torch.arange(len(ways), dtype=torch.int32) % len(WAYS)
    with_penalty = torch.tensor([way.repetition_penalty != 1 for way in ways])
    table = pack(seen)
    sampler = Sampler(
        parameters, forbidden=spread(forbidden.to(torch.uint8), 0), promise=7, seen=table, spared=pack(spared)
    )
    rows = Rows(
        own.to(DEVICE), states.to(DEVICE), requests.to(DEVICE), draws.to(DEVICE),
        torch.where(with_penalty, torch.arange(len(ways)), -1).int().to(DEVICE), pack(allowed),
    )  # fmt: skip
    tokens = sampler(spread(logits, 1000), rows, Level.TOP_K).cpu()

    seen[torch.arange(len(ways)), own.long()] = True
    seen &= ~spared
    logits, seen, forbidden, allowed = (each.to(DEVICE) for each in (logits, seen, forbidden, allowed))
    noted = table.cpu()
    different = 0
    for row, way in enumerate(ways):
        scores = reference.adjust(
            logits[row], penalty=way.repetition_penalty, seen=seen[row],
            biases={token: bias for token, bias in way.logit_bias if token < size},
            forbidden=forbidden[states[row]], promise=7, parallelism=way.parallelism, allowed=allowed[row],
        )  # fmt: skip
        (expected,) = choose(scores[None], [way], [float(draws[row])])
        assert way.temperature == 0 or distribution(scores[None], way)[0, tokens[row]] > 0
        different += int(tokens[row]) != expected
        if way.repetition_penalty != 1:  # the step noted what it was fed
            assert int(noted[row, own[row] // 32]) >> int(own[row] % 32) & 1
    # A draw may fall within rounding of the edge between two tokens.
    assert different <= len(ways) / 100


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.temperature > 1e-3 and way.repetition_penalty == 1], ids=str
)
def test_frequencies(way: SamplingParams) -> None:
    from pasta.engine.cuda.parameters import Parameters, level_of
    from pasta.engine.cuda.sampling import Rows, Sampler

    size, count = 40, 40 if INTERPRETED else 20_000
    logits = torch.randn(size, generator=torch.Generator().manual_seed(3)).mul(2).round(decimals=1)
    parameters = Parameters(1, torch.device(DEVICE))
    parameters.tell(0, way)
    zeros = torch.zeros(count, dtype=torch.int32, device=DEVICE)
    draws = torch.rand(count, generator=torch.Generator().manual_seed(4)).to(DEVICE)
    sampler = Sampler(parameters, forbidden=None, promise=-1, seen=None, spared=None)
    tokens = sampler(
        logits.repeat(count, 1).to(DEVICE), Rows(zeros, zeros, zeros, draws, zeros - 1), level_of(way)
    ).tolist()
    expected = distribution(logits[None], way)[0].double()
    expected *= count / expected.sum()
    found = Counter(tokens)
    assert all(expected[token] > 0 for token in found)
    likely = [token for token in range(size) if expected[token] >= 5]
    statistic = sum((found[token] - float(expected[token])) ** 2 / float(expected[token]) for token in likely)
    degrees = max(1, len(likely) - 1)
    assert statistic < degrees + 6 * (2 * degrees) ** 0.5 + 6


class Every:
    """Allows every third token."""

    @classmethod
    def fill_all(cls, constraints: Sequence[Constraint], masks: np.ndarray) -> None:
        flags = np.zeros(32 * masks.shape[1], dtype=bool)
        flags[::3] = True
        masks[:] = np.packbits(flags, bitorder="little").view(np.int32)


@on_a_gpu
def test_answers_are_those_of_the_engine_on_the_cpu() -> None:
    """Forks, several requests at once, each with parameters of its own, float32: the same draws, the same answers."""
    from pasta.engine.cuda.engine import CudaEngine

    model, vocabulary = tiny_trained_model("llama", 10)
    engines = [
        NativeEngine(copy.deepcopy(model), vocabulary, slots=8192),
        CudaEngine(model.cuda(), vocabulary, slots=8192),
    ]
    engines[0].max_segments = engines[1].max_segments
    prompts = ["Hello!", "Compare cats and dogs, and say which you like.", "Why?", "Name four fruits."]
    same = answers = threads = 0
    for way in WAYS:
        options = {
            "temperature": way.temperature, "top_k": way.top_k, "top_p": way.top_p, "min_p": way.min_p,
            "repetition_penalty": way.repetition_penalty, "logit_bias": ((3, 2.0),), "parallelism": 2.0,
            "max_tokens": 120, "seed": 5,
        }  # fmt: skip
        cpu, gpu = (generate_all(engine, prompts, **options) for engine in engines)
        same += sum(one.tree == other.tree for one, other in zip(cpu, gpu, strict=True))
        answers += len(prompts)
        threads += sum(len(result.threads) for result in gpu)
    assert threads > 3 * answers
    assert same >= 0.9 * answers  # a draw may fall within rounding of an edge, and all after it is different


@on_a_gpu
def test_masks_beside_rows_without() -> None:
    from pasta.engine.cuda.engine import CudaEngine

    model, vocabulary = tiny_trained_model("llama", 10)
    found = []
    for engine in (
        NativeEngine(copy.deepcopy(model), vocabulary, slots=1024),
        CudaEngine(model.cuda(), vocabulary, slots=1024),
    ):
        prompt = vocabulary.encode("Why?")
        ways = [SamplingParams(), SamplingParams(temperature=0.8, seed=3), SamplingParams(repetition_penalty=1.5)]
        threads = [engine.open(prompt, Expect.TEXT, way) for way in ways for _ in range(2)]
        for thread in threads[::2]:
            engine.constrain(thread, Every())
        chosen = []
        for place in range(len(prompt), len(prompt) + 12):
            tokens = {each.thread: each.token for each in engine.step()}
            chosen.append([tokens[thread] for thread in threads])
            for thread in threads:
                engine.feed(thread, tokens[thread], place, Expect.TEXT)
        assert all(token % 3 == 0 for step in chosen for token in step[::2])
        assert any(token % 3 for step in chosen for token in step[1::2])
        found.append(chosen)
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["fp8", "int8"])
@pytest.mark.parametrize("rows", [1, 17])
def test_eight_bit_weights(kind: str, rows: int) -> None:
    from pasta.engine.cuda.stream import stream
    from pasta.engine.cuda.weight import Weight

    dtype = torch.float32 if INTERPRETED else torch.bfloat16
    torch.manual_seed(rows)
    wide = torch.randn(96, 192) / 192**0.5
    weight = Weight.rounded(wide.to(DEVICE), kind)  # type: ignore[arg-type]
    x = torch.randn(rows, 192).to(dtype)
    rounded = weight.widened(torch.float32).double().cpu()
    assert error(rounded, wide.double()) < (0.03 if kind == "fp8" else 0.01)
    result = x.double() @ rounded.T
    assert error(stream(x.to(DEVICE), weight).cpu(), result) < 1e-2
    gate, up = result.chunk(2, 1)
    assert error(stream(x.to(DEVICE), weight, pairs=True).cpu(), torch.nn.functional.silu(gate) * up) < 1e-2


@pytest.mark.parametrize("kind", ["fp8", "int8", None])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_few_rows(kind: EightBits | None, rows: int) -> None:
    """Without matrix instructions: against float64, for widths of one tile and of several."""
    from pasta.engine.cuda.gemv import cut, gemv
    from pasta.engine.cuda.weight import Weight

    dtype = torch.float32 if INTERPRETED else torch.bfloat16
    torch.manual_seed(rows)
    for columns, width in ((48, 256), (16, 1536)):
        wide = (torch.randn(columns, width) / width**0.5).to(dtype)
        weight = Weight(wide.to(DEVICE)) if kind is None else Weight.rounded(wide.to(DEVICE), kind)
        x = torch.randn(rows, width).to(dtype)
        result = x.double() @ weight.widened(torch.float32).double().cpu().T
        how = cut(weight, rows, pairs=False)
        assert how is not None
        assert error(gemv(x.to(DEVICE), weight, how).cpu(), result) < 1e-2
        how = cut(weight, rows, pairs=True)
        assert (how is None) == (rows > 2)
        if how is None:
            continue
        gate, up = result.chunk(2, 1)
        expected = torch.nn.functional.silu(gate) * up
        assert error(gemv(x.to(DEVICE), weight, how, pairs=True).cpu(), expected) < 1e-2


def test_rows_for_which_there_is_no_cut() -> None:
    from pasta.engine.cuda.gemv import cut
    from pasta.engine.cuda.weight import Weight

    for columns, width, rows, pairs in (
        (16, 512, 3, False),
        (16, 2304, 4, False),
        (4096, 512, 4, False),
        (16, 384, 1, False),
        (12, 512, 1, False),
        (24, 512, 1, True),
    ):
        assert cut(Weight(torch.zeros(columns, width)), rows, pairs=pairs) is None


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("pairs", [False, True])
def test_tiles_fit_into_shared_memory(size: int, pairs: bool) -> None:
    """On a GPU with less of it there are fewer stages, and at last narrower tiles."""
    from pasta.engine.cuda.stream import HOPPER, tiling, within
    from pasta.engine.cuda.weight import Weight

    for width in (1536, 4096):
        for rows, block in ((8, 16), (17, 32), (64, 64)):
            data = torch.zeros(8, width, dtype=torch.bfloat16 if size == 2 else torch.int8)
            wanted = tiling(Weight(data, torch.ones(8) if size == 1 else None), rows, pairs=pairs)
            assert within(HOPPER, wanted, block, size=size, pairs=pairs) == wanted
            for limit in (163 << 10, 99 << 10, 48 << 10):
                cut = within(limit, wanted, block, size=size, pairs=pairs)
                column = cut.columns * size * (2 if pairs else 1) + 2 * block
                assert cut.stages * cut.width * column <= limit
                assert cut.stages >= 2 and width % cut.width == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 65])
@pytest.mark.parametrize("kind", ["fp8", None])
def test_products(kind: EightBits | None, rows: int) -> None:
    """Whichever way is taken, against float64; with a bias, and pairs."""
    from pasta.engine.cuda.products import gated, product
    from pasta.engine.cuda.weight import Weight

    # The interpreter has no bfloat16; float32 goes through cuBLAS alone.
    dtype = torch.float16 if INTERPRETED else torch.bfloat16
    torch.manual_seed(rows)
    wide, bias = (torch.randn(32, 512) / 512**0.5).to(dtype), torch.randn(32).to(dtype)
    weight = Weight(wide.to(DEVICE)) if kind is None else Weight.rounded(wide.to(DEVICE), kind)
    x = torch.randn(rows, 512).to(dtype)
    result = x.double() @ weight.widened(torch.float32).double().cpu().T
    assert error(product(x.to(DEVICE), weight, bias.to(DEVICE)).cpu(), result + bias.double()) < 1e-2
    gate, up = result.chunk(2, 1)
    assert error(gated(x.to(DEVICE), weight).cpu(), torch.nn.functional.silu(gate) * up) < 1e-2


@on_a_gpu
@pytest.mark.parametrize("kind", ["fp8", "int8"])
def test_an_engine_with_eight_bit_weights(kind: EightBits) -> None:
    """As near to the model with the same rounded weights as 16 bits allow."""
    from pasta.engine.cuda.engine import CudaEngine
    from pasta.engine.cuda.weight import Weight

    model, vocabulary = tiny_trained_model("qwen2", 10)
    rounded = copy.deepcopy(model)
    for module in rounded.model.layers.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = Weight.rounded(module.weight.data.bfloat16(), kind).widened(torch.float32)
    exact = NativeEngine(rounded, vocabulary, slots=1024)
    engine = CudaEngine(model.bfloat16().cuda(), vocabulary, slots=4096, eight_bits=kind)
    prompt = vocabulary.encode("Why is the sky blue? Say it in one sentence, please.")
    distances = []
    for length in range(8, len(prompt)):
        logprobs = []
        for one in (exact, engine):
            thread = one.open(prompt[:8], None, SamplingParams(logprobs=20))
            for place in range(8, length):
                one.feed(thread, prompt[place], place, Expect.TEXT if place == length - 1 else None)
            tokens = one.step()
            if tokens:
                assert tokens[0].logprobs is not None
                logprobs.append(dict(tokens[0].logprobs.top))
            one.close(thread)
        if logprobs:
            both = logprobs[0].keys() & logprobs[1].keys()
            distances += [abs(logprobs[0][token] - logprobs[1][token]) for token in both]
    assert len(distances) > 100
    assert float(np.mean(distances)) < 0.1
    assert all(len(result.text) for result in generate_all(engine, ["Hello!", "Why?"], max_tokens=40))
