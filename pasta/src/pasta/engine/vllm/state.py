"""What vLLM's model runner asks of a model that decodes in threads: rows, positions, attention, and the sampler."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.worker.gpu.model_states.default import DefaultModelState
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from pasta.engine.exported import read_taught, read_vocabulary
from pasta.engine.vllm import kernels
from pasta.engine.vllm.burst import STEPS, Burst, ahead
from pasta.engine.vllm.graph import StepGraph
from pasta.engine.vllm.plan import Rows, Span, deciding_rows
from pasta.engine.vllm.sampler import Answer, Choice, LaneSampler
from pasta.engine.vllm.step import PlannedStep, to_device
from pasta.engine.vllm.terms import KEY, Terms

log = logging.getLogger("pasta")


class PastaModelState(DefaultModelState):
    """Requests that come with terms decode in threads; all others are vLLM's as they are."""

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: Any, device: torch.device):
        super().__init__(vllm_config, model, encoder_cache, device)
        config, parallel = self.model_config, vllm_config.parallel_config
        folder = Path(config.tokenizer)
        self.sampler = LaneSampler(read_vocabulary(folder), config.get_vocab_size(), device, read_taught(folder))
        self.heads = config.get_num_attention_heads(parallel)
        self.kv_heads = config.get_num_kv_heads(parallel)
        self.head_size = config.get_head_size()
        self.answers: dict[str, Answer] = {}
        self.rows: list[list[tuple[int, int]]] = []  # of the step under way: by request, its lanes that decide
        graphs = device.type == "cuda" and not config.enforce_eager and parallel.world_size == 1  # they know one rank
        self.burst = STEPS if graphs else 1
        self._steps: dict[int, PlannedStep] = {}  # by the number of rows
        self._graphs: dict[int, StepGraph] = {}  # likewise
        self._graph_memory: Any = None
        self._slot_segments: torch.Tensor | None = None  # of the cache that there is now
        self._spans_now: list[Span] = []  # of the step under way
        self._names: list[str] = []  # of its requests
        self._tables: torch.Tensor | None = None  # the block tables of the step under way, and of all others
        self._layers: list[str] = []

    # -- requests -----------------------------------------------------------------------------------------

    def add_request(self, req_index: int, new_req_data: Any) -> None:
        super().add_request(req_index, new_req_data)
        params = new_req_data.sampling_params
        text = (params.extra_args or {}).get(KEY) if params is not None else None
        if text is None:
            return
        prompt = new_req_data.prompt_token_ids
        stream = new_req_data.prefill_token_ids[len(prompt) :]
        try:
            answer = self.sampler.answer(Terms.read(text), prompt, stream, self.max_model_len)
        except Exception:  # one request must not end the engine for all
            log.exception("the terms of request %s cannot be read; it decodes in one thread", new_req_data.req_id)
        else:
            self.answers[new_req_data.req_id] = answer

    def remove_request(self, req_id: str) -> None:
        super().remove_request(req_id)
        self.answers.pop(req_id, None)

    # -- a step -------------------------------------------------------------------------------------------

    def prepare_attn(
        self,
        input_batch: Any,
        cudagraph_mode: CUDAGraphMode,
        block_tables: tuple[torch.Tensor, ...],
        slot_mappings: torch.Tensor,
        attn_groups: Any,
        kv_cache_config: Any,
        for_capture: bool = False,
        **more: Any,
    ) -> dict[str, Any]:
        builder = attn_groups[0][0].get_metadata_builder(0)
        slots = kv_cache_config.num_blocks * kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        if self._slot_segments is None or len(self._slot_segments) != slots:
            # vLLM 0.32 measures its graphs with a small cache first. Nothing of that is kept.
            self._slot_segments = torch.zeros(slots, dtype=torch.int32, device=self.device)
            self._steps, self._graphs = {}, {}
        spans = self._spans_now = self._spans(input_batch)
        self._names = input_batch.req_ids
        self._tables, self._block_size = block_tables[0], builder.block_size
        self._layers = [name for group in attn_groups[0] for name in group.layer_names]
        threads = any(span.lanes is not None for span in spans)
        flash = self.device.type == "cuda" and self.dtype != torch.float32  # vLLM's own attention can run here
        if for_capture or cudagraph_mode == CUDAGraphMode.FULL or threads or not flash:
            step = self._planned(input_batch.num_tokens_after_padding, block_tables[0], builder.block_size)
            count = input_batch.num_tokens
            step.launch(
                spans,
                input_batch.input_ids[:count],
                input_batch.positions[:count],
                slot_mappings[0],
                self._slot_segments,
                block_tables[0],
            )
            builder.kernel = step.attention
        else:
            kernels.forget(slot_mappings[0], self._slot_segments)
            builder.kernel = None
        return super().prepare_attn(
            input_batch, cudagraph_mode, block_tables, slot_mappings, attn_groups, kv_cache_config, for_capture, **more
        )

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        self.rows = []
        if any(span.lanes is not None for span in self._spans_now):
            self.rows = deciding_rows(self._spans_now)
            self._ask_for_logits(input_batch)
        return super().prepare_inputs(input_batch, req_states)

    def postprocess_state(self, idx_mapping: torch.Tensor, num_sampled: torch.Tensor, computed: Any = None) -> None:
        """vLLM counted what stands after a stream's tokens as one of them."""
        if self.rows:
            index = [place for place, req_id in enumerate(self._names) if req_id in self.answers]
            if index:
                rows = torch.tensor(index, device=self.device)
                self.totals[idx_mapping[rows].long()] -= (num_sampled[rows] > 0).to(self.totals.dtype)

    def custom_sampler(self, sampler: Any) -> tuple[Any, Any]:
        self.totals = sampler.req_states.total_len.gpu
        return PastaSampler(sampler, self), None

    def _spans(self, batch: Any) -> list[Span]:
        answers = (self.answers.get(req_id) for req_id in batch.req_ids)
        starts, counts = batch.num_computed_tokens_np.tolist(), batch.num_scheduled_tokens.tolist()
        return [
            Span(None if answer is None else answer.lanes, start, count)
            for answer, start, count in zip(answers, starts, counts, strict=True)
        ]

    def _planned(self, rows: int, block_tables: torch.Tensor, block_size: int) -> PlannedStep:
        rows = 1 << (rows - 1).bit_length()  # every other number would be kernels to compile
        if rows not in self._steps:
            self._steps[rows] = PlannedStep(rows, self.heads, self.kv_heads, self.head_size, block_tables, block_size)
        return self._steps[rows]

    def go_on(self, answers: list[Answer], streams: list[list[int]]) -> Burst:
        """More steps of these answers, where all of them decode and nothing else does."""
        rooms = [min(span.end + ahead(span.rows), self.max_model_len) for span in self._spans_now]
        burst = Burst(answers, streams, rooms)
        pairs = zip(self._spans_now, answers, strict=True)
        if all(streams) and all(span.start >= answer.lanes.prompt_length for span, answer in pairs):
            burst.run(self.burst - 1, self._decide)
        return burst

    def _decide(self, step: Rows, deciding: list[int], choices: list[Choice] | None) -> list[int]:
        rows = 1 << (len(step.numbers) - 1).bit_length()
        if rows not in self._graphs:
            assert self._tables is not None and self._slot_segments is not None
            self._graph_memory = self._graph_memory or torch.cuda.graph_pool_handle()
            self._graphs[rows] = StepGraph(
                self.model,
                self.vllm_config,
                self._layers,
                PlannedStep(rows, self.heads, self.kv_heads, self.head_size, self._tables, self._block_size),
                self.sampler,
                slot_segments=self._slot_segments,
                block_tables=self._tables,
                block_size=self._block_size,
                memory=self._graph_memory,
            )
        return self._graphs[rows].run(step, deciding, choices, self.sampler)

    def _ask_for_logits(self, batch: Any) -> None:
        """A row of logits for each lane that decides; for a request that has none, its last, as vLLM wants it."""
        last = batch.query_start_loc_np[1 : batch.num_reqs + 1] - 1
        rows = [[row for _, row in own] or [int(last[index])] for index, own in enumerate(self.rows)]
        flat = np.array([row for own in rows for row in own], dtype=np.int64)
        batch.logits_indices = to_device(flat, self.device)
        batch.cu_num_logits_np = np.cumsum([0, *map(len, rows)], dtype=np.int32)


class PastaSampler:
    """vLLM's sampler for requests as it knows them; lanes choose with ours, and their interpreter says what follows."""

    def __init__(self, base: Any, state: PastaModelState):
        self._base = base
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def __call__(self, logits: torch.Tensor, batch: Any) -> Any:
        state, rows = self._state, self._state.rows
        answers = [state.answers.get(req_id) for req_id in batch.req_ids] if rows else []
        if not any(answers):
            return self._base(logits, batch)
        plain = [index for index, answer in enumerate(answers) if answer is None]
        starts = batch.cu_num_logits_np.tolist()
        streams = self._decide(logits, answers, starts)
        extra = np.zeros(len(answers), dtype=np.int32)
        decoding = [answer for answer in answers if answer is not None]
        if not plain:
            members = state.go_on(decoding, streams).members
            streams, extra[:] = [each.stream for each in members], [each.extra for each in members]
            pending = [each.pending for each in members]
        else:
            pending = [len(stream) for stream in streams]
        # After a stream's tokens stands how many of them are not computed.
        streams = [[*stream, count] if stream else [] for stream, count in zip(streams, pending, strict=True)]
        width = max(1, *(len(stream) for stream in streams))
        sampled = np.zeros((len(answers), width), dtype=np.int64)
        counts = np.zeros(len(answers), dtype=np.int32)
        for index, stream in enumerate(streams):
            sampled[index, : len(stream)] = stream
            counts[index] = len(stream)
        tokens = to_device(sampled, logits.device)
        taken = to_device(counts, logits.device)
        logprobs = None
        if plain:
            own = self._sample_plain(logits, batch, plain, starts)
            rows_of = torch.tensor(plain, device=logits.device)
            tokens[rows_of, 0] = own.sampled_token_ids[:, 0].to(tokens.dtype)
            taken[rows_of] = own.num_sampled
            logprobs = own.logprobs_tensors
            if logprobs is not None:
                before = np.cumsum([0, *(answer is None for answer in answers)])
                logprobs = logprobs._replace(cu_num_generated_tokens=before.tolist())
        return SamplerOutput(tokens, logprobs, None, taken, to_device(-extra, logits.device))

    def _decide(self, logits: torch.Tensor, answers: list[Answer | None], starts: list[int]) -> list[list[int]]:
        choices: list[Choice] = []
        places: list[int] = []
        for index, (answer, own) in enumerate(zip(answers, self._state.rows, strict=True)):
            if answer is not None:
                choices += [Choice(answer, lane) for lane, _ in own]
                places += range(starts[index], starts[index] + len(own))
        if not choices:
            return [[] for _ in answers]
        if len(places) < logits.shape[0]:
            logits = logits[torch.tensor(places, device=logits.device)]
        chosen = iter(self._state.sampler.choose(logits, choices))
        return [
            [] if answer is None or not own else answer.take([(lane, next(chosen)) for lane, _ in own])
            for answer, own in zip(answers, self._state.rows, strict=True)
        ]

    def _sample_plain(self, logits: torch.Tensor, batch: Any, plain: list[int], starts: list[int]) -> Any:
        index = torch.tensor(plain, device=logits.device)
        rows = torch.tensor([starts[each] for each in plain], device=logits.device)
        requests = batch.idx_mapping[index]
        part = replace(
            batch,
            req_ids=[batch.req_ids[each] for each in plain],
            num_reqs=len(plain),
            idx_mapping=requests,
            idx_mapping_np=batch.idx_mapping_np[plain],
            expanded_idx_mapping=requests,
            expanded_local_pos=torch.zeros(len(plain), dtype=torch.int32, device=logits.device),
            seq_lens=batch.seq_lens[index],
            logits_indices=batch.logits_indices[rows],
            cu_num_logits=torch.arange(len(plain) + 1, dtype=torch.int32, device=logits.device),
            cu_num_logits_np=np.arange(len(plain) + 1, dtype=np.int32),
        )
        return self._base(logits[rows], part)
