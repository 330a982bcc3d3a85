"""How each request wants its tokens chosen, in tables on the device that the kernels of a choice read."""

from __future__ import annotations

import math

import torch
import triton.language as tl

from pasta.core.params import SamplingParams

MAX_BIASES = 128  # of one request; more are added outside the graph
FIELDS = tl.constexpr(7)  # of a request's parameters, in the order of `numbers_of`


class Level:
    """What a step's rows need at the most; a graph does no more."""

    GREEDY = 0  # the best of the logits as they are
    DRAW = 1  # penalties, biases, temperature, min-p
    TOP_P = 2
    TOP_K = 3
    OUTSIDE = 4  # more biases than the tables hold: chosen outside the graph


def level_of(params: SamplingParams) -> int:
    if len(params.logit_bias) > MAX_BIASES:
        return Level.OUTSIDE
    if params.greedy:
        return Level.GREEDY
    if params.temperature == 0:
        return Level.DRAW
    return Level.TOP_K if params.top_k > 0 else Level.TOP_P if params.top_p < 1 else Level.DRAW


class Parameters:
    """The parameters of every request that may be open, by its index, on the device."""

    def __init__(self, requests: int, device: torch.device):
        usual = numbers_of(SamplingParams())
        self.numbers = torch.tensor(usual).to(device).repeat(requests, 1)
        self.bias_tokens = torch.full((requests, MAX_BIASES), -1, dtype=torch.int32, device=device)
        self.bias_values = torch.zeros(requests, MAX_BIASES, dtype=torch.float32, device=device)
        self._told = [usual] * requests  # what stands there

    def tell(self, index: int, params: SamplingParams) -> None:
        """Notes the parameters of a request that opens."""
        numbers, device = numbers_of(params), self.numbers.device
        if self._told[index] != numbers:
            self._told[index] = numbers
            self.numbers[index] = torch.tensor(numbers).to(device, non_blocking=True)
        if numbers[-1]:
            tokens, biases = zip(*params.logit_bias, strict=True)
            self.bias_tokens[index, : len(tokens)] = torch.tensor(tokens).to(device, non_blocking=True)
            self.bias_values[index, : len(biases)] = torch.tensor(biases).to(device, non_blocking=True)


def numbers_of(params: SamplingParams) -> tuple[float, ...]:
    """As the kernels read them: `FIELDS` of them, the number of biases last."""
    temperature = max(params.temperature, 1e-30) if params.temperature > 0 else 0.0  # float32 has no 1e-50
    biases = len(params.logit_bias) if len(params.logit_bias) <= MAX_BIASES else 0
    return (
        temperature, float(params.top_k), params.top_p, params.min_p,
        params.repetition_penalty, params.parallelism, float(biases),
    )  # fmt: skip


def words_of(size: int) -> int:
    """How many words of 32 bits hold a bit for each token."""
    return math.ceil(size / 32)
