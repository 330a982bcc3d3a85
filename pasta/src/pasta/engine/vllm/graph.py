"""A step of threads alone as one CUDA graph: plan, forward pass, logits, grammar and choice.

vLLM's own graphs hold the forward pass, and its scheduler stands between two of them. Where every request of a step
decodes in threads, the worker takes a few steps by itself with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.forward_context import set_forward_context

from pasta.engine.cuda.capture import capture
from pasta.engine.vllm import kernels
from pasta.engine.vllm.attention import LaneMetadata
from pasta.engine.vllm.plan import Rows
from pasta.engine.vllm.sampler import Choice, LaneSampler
from pasta.engine.vllm.step import PlannedStep


class StepGraph:
    """A captured step of so many rows. `layers` are the names of the model's attention layers."""

    def __init__(
        self,
        model: Any,
        vllm_config: Any,
        layers: Sequence[str],
        step: PlannedStep,
        sampler: LaneSampler,
        *,
        slot_segments: torch.Tensor,
        block_tables: torch.Tensor,
        block_size: int,
        memory: Any,
    ):
        rows, device = step.plan.rows, block_tables.device
        self.step = step
        input_ids = torch.zeros(rows, dtype=torch.int32, device=device)
        positions = torch.zeros(rows, dtype=torch.int64, device=device)
        slots = torch.full((rows,), -1, dtype=torch.int64, device=device)
        chosen = torch.zeros(rows, dtype=torch.int64, pin_memory=True)
        self.tokens = chosen.numpy()  # valid once `done`
        self.done = torch.cuda.Event()
        metadata = dict.fromkeys(layers, LaneMetadata(step.attention))
        slot_mapping = dict.fromkeys(layers, slots)

        def whole() -> torch.Tensor:
            step.send()
            kernels.place(step.columns, block_tables, block_size, input_ids, positions, slots, slot_segments)
            step.build_mask(slot_segments, block_tables)
            with set_forward_context(metadata, vllm_config, num_tokens=rows, slot_mapping=slot_mapping):
                hidden = model(input_ids=input_ids, positions=positions, intermediate_tensors=None, inputs_embeds=None)
            logits: torch.Tensor = model.compute_logits(hidden)
            chosen.copy_(sampler.best(logits, step.columns[6]), non_blocking=True)
            return logits

        # `logits` are overwritten by the next launch.
        self._graph, self.logits = capture(whole, memory, error_mode="thread_local")
        self._kept = whole  # a graph does not hold the tensors that it reads and writes

    def run(self, rows: Rows, deciding: list[int], choices: Sequence[Choice] | None, sampler: LaneSampler) -> list[int]:
        """The token of each row that decides. The choices are None where all take the best that they may."""
        self.step.plan.fill(rows, self.step.tile_rows)
        self._graph.replay()
        if choices is not None and not all(choice.answer.greedy for choice in choices):
            return sampler.choose(self.logits[deciding], choices)
        self.done.record()
        self.done.synchronize()
        tokens: list[int] = self.tokens[deciding].tolist()
        return tokens if choices is None else sampler.play(tokens, choices)
