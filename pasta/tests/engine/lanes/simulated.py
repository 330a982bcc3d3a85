"""vLLM's contract without vLLM: blocks, chunks, preemption, one stream of tokens for each request; on the CPU.

The plug-in's own parts run here as they do in a worker (`LaneSampler`, `Plan`, `deciding_rows`); attention is the
kernels' plain twin, and the model transformers' own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from pasta.core.vocabulary import Vocabulary
from pasta.engine.cuda import reference
from pasta.engine.vllm.engine import Output, VllmEngine
from pasta.engine.vllm.plan import Plan, Rows, Span, deciding_rows
from pasta.engine.vllm.sampler import Answer, Choice, LaneSampler
from pasta.engine.vllm.terms import Terms
from pasta.models.taught import taught_of

BLOCK = 16
NAME = "pasta-simulated-vllm"


@dataclass(eq=False)
class Running:
    """A request as vLLM's scheduler knows it."""

    name: str
    prompt: tuple[int, ...]
    terms: str
    tokens: list[int]
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    answer: Answer | None = None  # the worker's; gone when it is preempted


class Simulated:
    """A `Core`. `budget` is what a step computes at the most; `preempts` is how likely a request loses its blocks."""

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        budget: int = 64,
        preempts: float = 0.0,
        room: int = 2048,
        blocks: int = 512,
        seed: int = 0,
    ):
        model.set_attn_implementation(NAME)
        self.model, self.budget, self.preempts, self.room = model.eval(), budget, preempts, room
        self.max_model_len = room
        size = int(model.get_output_embeddings().weight.shape[0])
        self.sampler = LaneSampler(vocabulary, size, torch.device("cpu"), taught_of(model))
        self.random = random.Random(seed)
        self.free = list(range(blocks))
        self.random.shuffle(self.free)
        self.blocks = blocks
        self.running: dict[str, Running] = {}
        self.slot_segments = torch.zeros(blocks * BLOCK, dtype=torch.int32)
        self.store: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.preempted = 0
        self.steps = 0
        # Every choice, by its thread's path and its number there, and the logits from which it was made.
        self.seen: list[tuple[tuple[int, ...], int, torch.Tensor]] = []
        self.pilot: Callable[[tuple[int, ...], int], int | None] = lambda path, index: None

    def add(self, request: str, prompt: Sequence[int], terms: str, cache_salt: str | None) -> None:
        self.running[request] = Running(request, tuple(prompt), terms, list(prompt))

    def abort(self, request: str) -> None:
        self._release(self.running.pop(request))

    def check(self) -> None:
        pass

    def step(self) -> list[Output]:
        self.steps += 1
        for request in self.running.values():
            if request.computed and self.random.random() < self.preempts:
                self.preempted += 1
                self._release(request)
        scheduled = self._schedule()
        spans = [Span(request.answer.lanes, request.computed, count) for request, count in scheduled if request.answer]
        logits = self._forward([request for request, _ in scheduled], Rows.of(spans))
        return self._sample([request for request, _ in scheduled], spans, logits)

    # -- the scheduler ------------------------------------------------------------------------------------

    def _schedule(self) -> list[tuple[Running, int]]:
        budget, out = self.budget, []
        for request in self.running.values():
            count = min(budget, len(request.tokens) - request.computed)
            if count == 0:
                continue
            budget -= count
            while len(request.blocks) * BLOCK < request.computed + count:
                request.blocks.append(self.free.pop())
            if request.answer is None:
                stream = request.tokens[len(request.prompt) :]
                request.answer = self.sampler.answer(Terms.read(request.terms), request.prompt, stream, self.room)
            out.append((request, count))
        return out

    def _release(self, request: Running) -> None:
        self.free += request.blocks
        self.random.shuffle(self.free)
        request.blocks, request.computed, request.answer = [], 0, None

    # -- the worker ---------------------------------------------------------------------------------------

    def _forward(self, requests: list[Running], step: Rows) -> torch.Tensor:
        """The logits of every row; a row names its request by its index."""
        plan = Plan(len(step.numbers))
        plan.fill(step, tile_rows=3)
        held = [[*each.prompt, *each.tokens[len(each.prompt) :]] for each in requests]
        tokens = [
            int(token) if own else held[request][place]
            for own, token, request, place in zip(plan.own, plan.tokens, plan.requests, plan.places, strict=True)
        ]
        positions = np.where(plan.own == 1, plan.positions, plan.places)
        tables = torch.zeros(len(requests), max(len(each.blocks) for each in requests), dtype=torch.int32)
        for index, each in enumerate(requests):
            tables[index, : len(each.blocks)] = torch.tensor(each.blocks)
        owners = torch.from_numpy(plan.requests.copy()).long()
        place = torch.from_numpy(plan.places.copy()).long()
        slots = tables[owners, place // BLOCK].long() * BLOCK + place % BLOCK
        self.slot_segments[slots] = torch.from_numpy(plan.segments.copy())
        lengths = _lengths(plan, len(requests))
        _Step.now = _Step(self, slots, {
            "requests": owners, "lengths": lengths, "places": place,
            "sees": torch.from_numpy(plan.sees.copy()), "slot_segments": self.slot_segments, "block_tables": tables,
            "block_size": BLOCK,
        })  # fmt: skip
        with torch.inference_mode():
            output = self.model(
                input_ids=torch.tensor([tokens]), position_ids=torch.from_numpy(positions).long()[None], use_cache=False
            )
        return output.logits[0]

    def _sample(self, requests: list[Running], spans: list[Span], logits: torch.Tensor) -> list[Output]:
        out = []
        for request, span, own in zip(requests, spans, deciding_rows(spans), strict=True):
            request.computed = span.end
            assert request.answer is not None
            if not own:
                continue
            choices = [Choice(request.answer, index) for index, _ in own]
            mine = logits[[row for _, row in own]]
            tokens = self.sampler.choose(mine, choices)
            for place, choice in enumerate(choices):
                thread = choice.answer.lanes.interpreter.threads[choice.lane.thread]
                self.seen.append((thread.path, thread.sampled, mine[place]))
                forced = self.pilot(thread.path, thread.sampled)
                tokens[place] = tokens[place] if forced is None else forced
            stream = request.answer.take([(index, token) for (index, _), token in zip(own, tokens, strict=True)])
            if not stream:
                continue
            request.tokens += stream
            ended = stream[-2:] == [request.answer.lanes.end] * 2
            out.append(Output(request.name, stream, ended))
            if ended:
                self._release(self.running.pop(request.name))
        return out


def _lengths(plan: Plan, requests: int) -> torch.Tensor:
    """How many slots each request holds, as the tiles say."""
    lengths = torch.zeros(requests, dtype=torch.int32)
    for first, count, request, length in plan.tiles.T.tolist():
        if count:
            assert first >= 0
            lengths[request] = length
    return lengths


class _Step:
    now: Any = None

    def __init__(self, core: Simulated, slots: torch.Tensor, reading: dict[str, Any]):
        self.core, self.slots, self.reading, self.calls = core, slots, reading, 0


def _attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any) -> tuple[Any, None]:
    step = _Step.now
    layer, step.calls = step.calls, step.calls + 1
    store = step.core.store
    if layer not in store:
        shape = (step.core.blocks * BLOCK, key.shape[1], key.shape[3])
        store[layer] = (torch.full(shape, float("nan")), torch.full(shape, float("nan")))
    keys, values = store[layer]
    keys[step.slots] = key[0].transpose(0, 1)
    values[step.slots] = value[0].transpose(0, 1)
    out = reference.attend(query[0].transpose(0, 1).contiguous(), keys, values, scaling, **step.reading)
    return out[None], None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)


def simulated_engine(model: PreTrainedModel, vocabulary: Vocabulary, **options: Any) -> tuple[VllmEngine, Simulated]:
    core = Simulated(model, vocabulary, **options)
    size = int(model.get_output_embeddings().weight.shape[0])
    context = int(model.config.max_position_embeddings)
    taught = taught_of(model)
    return VllmEngine(core, vocabulary, size=size, context=context, taught=taught, name="simulated"), core
