"""The native engine: any transformers decoder whose only memory is attention, on PyTorch.

All that was fed since the last step, threads of all requests together, runs in one forward pass; of what decides
nothing (prompts, requests that are computed again) no more than a chunk, so that nobody else is kept waiting.
"""

from __future__ import annotations

import inspect
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from pasta.core.constraint import Constraint
from pasta.core.grammar import Expect, Grammar
from pasta.core.params import SamplingParams
from pasta.core.segments import Thread
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.engine.attention import IMPLEMENTATION, Group, Step, running
from pasta.engine.base import UNLIMITED, Decoded, OutOfSlots, Script, uniform
from pasta.engine.batch import Batch, gather, share
from pasta.engine.block_table import BlockTable
from pasta.engine.pool import BLOCK_SIZE, KvPool, affordable_slots
from pasta.engine.repetition import RepetitionPenalty
from pasta.engine.request import Chunk, Handle, Request, Row
from pasta.engine.sampling import add_biases, choose, constrain, token_logprobs
from pasta.engine.support import check_supported, context_length, shortest_reach
from pasta.engine.survey import Call
from pasta.errors import PastaError


class NativeEngine:
    """Decodes on the machine it runs on. `slots` is the size of the KV pool, in tokens."""

    chunk = 256  # tokens in one step beside those that decide
    lockstep = True
    max_requests = UNLIMITED
    max_segments = UNLIMITED
    row_cost: float | None = 0.25
    wait_cost = 0.0
    drafts = False
    masks = True
    grammars = False
    prompt_rows = 0  # of a step that a prompt may run in, where it could also run before it; 0: it never does

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        name: str = "",
        slots: int | None = None,
        context: int | None = None,
        calls: tuple[Call, ...] | None = None,  # what the model asks of attention, where that is known already
    ):
        self.context = min(context or 1 << 30, context_length(model.config))
        self.calls = calls or check_supported(model, name)
        model.set_attn_implementation(IMPLEMENTATION)
        if model.device.type == "cuda":
            # cuDNN, which torch asks first on Hopper, makes a plan for every new length: that takes longer than a pass.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.model = model.eval()
        self.vocabulary = vocabulary
        vocabulary.rows = int(model.get_input_embeddings().weight.shape[0])
        self.name = name
        self.runner: Any = None
        taught = Taught.read(getattr(model.config, "pasta", None))
        self.positions = taught.positions
        self.reach = shortest_reach(self.calls, self.context)
        self.near = () if self.reach is None else tuple(call.near for call in self.calls)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        slot_bytes = sum(call.slot_bytes for call in self.calls)
        self.pool = KvPool(slots or affordable_slots(slot_bytes, model.device), model.device)
        self._waiting: dict[Request, None] = {}  # those with tokens that have not run, in the order in which they came
        self._checking: list[Request] = []  # those with drafts in the step at hand
        tags = vocabulary.tags.all if vocabulary.tags else frozenset()
        self._repetition = RepetitionPenalty(vocabulary.eos | tags, model.device)
        size = int(model.get_output_embeddings().weight.shape[0])
        self.grammar = Grammar.of(vocabulary, size, taught.deepest) if vocabulary.tags else None
        self._forbidden = torch.from_numpy(~self.grammar.allowed).to(model.device) if self.grammar is not None else None

    def look_within(self, calls: tuple[Call, ...]) -> None:
        """Takes the windows of these calls of attention for its own, of a model that has windows."""
        self.near = tuple(call.near for call in calls)

    # -- threads --------------------------------------------------------------------------------------

    def can_allocate(self, tokens: int, thread: Handle | None = None) -> bool:
        if thread is None:
            return BlockTable(self.pool).can_hold(tokens)
        request = thread.request
        held = len(request.tokens) + tokens
        return held <= len(request.blocks.slots) or request.blocks.can_hold(held - request.unconfirmed)

    def open(
        self, prompt: Sequence[int], expect: Expect | None, params: SamplingParams, cache_salt: str | None = None
    ) -> Handle:
        request = self._new_request(params, cache_salt)
        handle = Handle(request, Thread(request.table))
        found = [] if cache_salt is None else self.pool.prefix_cache.find(cache_salt, prompt)
        try:
            request.open(prompt, found)
        except OutOfSlots:
            self.close(handle)
            raise
        if expect is not None:
            last = len(prompt) - 1
            request.deciding.append(Row(handle, expect, last, prompt[last], last, handle.thread.segment))
        self._waiting[request] = None
        return handle

    def play(self, thread: Handle, script: Script) -> None:
        """Nothing: a token counts once it is fed."""

    def cached_tokens(self, thread: Handle) -> int:
        return thread.request.cached

    def _new_request(self, params: SamplingParams, cache_salt: str | None) -> Request:
        return Request(self.pool, params, cache_salt)

    def feed(self, thread: Handle, token: int, position: int, expect: Expect | None) -> None:
        request, segment = thread.request, thread.thread.segment
        if request.ahead and request.confirm(thread, token, position):
            return
        try:
            place = request.append(token, position, segment)
        except OutOfSlots:
            if not request.ahead:
                raise
            self._forget_ahead(request)
            place = request.append(token, position, segment)
        if expect is not None:
            request.deciding.append(Row(thread, expect, place, token, position, segment, thread.constraint))
        self._waiting[request] = None

    def fork(self, thread: Handle) -> Handle:
        self._check_segments(thread.request, 2)
        if thread.first_fork is None:
            thread.first_fork = thread.thread.segment
        child = Handle(thread.request, thread.thread.fork(), (*thread.path, thread.forks))
        thread.forks += 1
        return child

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        self._check_segments(thread.request, 1)
        thread.thread.join([child.thread for child in children])
        thread.first_fork = None

    def constrain(self, thread: Handle, constraint: Constraint) -> None:
        thread.constraint = constraint
        thread.request.needs_logits = True
        for row in thread.request.deciding[:1]:  # a prompt's last token is fed before anybody can say so
            if row.handle is thread and row.constraint is None:
                row.constraint = constraint

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Runs the tokens again in their new order. The old ones keep their slots, which nobody sees any more."""
        assert thread.first_fork is not None
        self._check_segments(thread.request, 1)
        thread.thread.go_back(thread.first_fork)
        thread.first_fork = None
        for place, token in enumerate(tokens, position):
            self.feed(thread, token, place, None)

    def prefetch(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Nothing: this layout is here for comparison, plain rather than fast."""

    @property
    def under_way(self) -> int:
        return 0

    def draft(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        thread.request.guesses[thread] = (position, tokens)

    def close(self, thread: Handle) -> None:
        self._waiting.pop(thread.request, None)
        thread.request.drafts.clear()
        thread.request.blocks.free()

    def check(self) -> None:
        """Nothing: what runs here is here."""

    def _check_segments(self, request: Request, more: int) -> None:
        if request.table.used + more > self.max_segments:
            raise PastaError(
                f"an answer may have {self.max_segments} segments, and this one forks and joins more often",
                hint="lower the parallelism",
            )

    # -- one step --------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Nothing to start ahead: a step here runs while it is waited for."""

    @torch.inference_mode()
    def step(self) -> list[Decoded]:
        if not self._waiting:
            return []
        chunks = self._take()
        batch = gather(chunks)
        logits = self._forward(batch, self._groups(chunks))
        self._cache_prefixes(chunks)
        return self._accept(self._decide(logits, batch.rows))

    def _take(self) -> list[Chunk]:
        """What the next step runs: every token that decides, and a chunk of those before them that do not."""
        self._repetition.begin_step()
        waiting, self._waiting = self._waiting, {}
        chunks = []
        for request in waiting:
            if request.ahead:  # decided, and then nobody wanted it: its thread lost its turn, or met a limit
                self._forget_ahead(request)
        for request, backlog in zip(waiting, self._shares(list(waiting)), strict=True):
            chunk = request.take(backlog)
            if request.drafts:
                self._checking.append(request)
            if request.ran < len(request.tokens):
                self._waiting[request] = None
            if chunk.end > chunk.start:
                chunks.append(chunk)
        return chunks

    def _shares(self, requests: list[Request]) -> list[int]:
        """How many tokens that decide nothing the next step runs of each request."""
        return share(self.chunk, [request.backlog for request in requests])

    def _cache_prefixes(self, chunks: Sequence[Chunk]) -> None:
        """Lets later requests find the full blocks that just ran, where a fresh prompt would compute the same."""
        for request, start, _, _ in chunks:
            if request.cache_salt is not None and request.segments[start] == 0:
                full = request.plain // BLOCK_SIZE
                if full > request.offered:
                    request.offered = full
                    tokens = request.tokens[: full * BLOCK_SIZE]
                    self.pool.prefix_cache.insert(request.cache_salt, tokens, request.blocks.blocks)

    def _groups(self, chunks: Sequence[Chunk]) -> tuple[Group, ...]:
        groups = []
        row = 0
        for request, start, end, _ in chunks:
            causal = start == 0 and request.segments[end - 1] == 0
            mask = None
            if not causal:
                visible = request.visible(start, end)
                mask = None if visible.all() else torch.from_numpy(visible).to(self.model.device)
            positions = as_tensor(request.positions[:end], self.model.device) if self.near else None
            groups.append(Group(slice(row, row + end - start), request.blocks.select(end), mask, causal, positions))
            row += end - start
        return tuple(groups)

    def _forward(self, batch: Batch, groups: tuple[Group, ...]) -> torch.Tensor:
        """The logits after the tokens that decide."""
        device = self.model.device
        deciding = torch.tensor(batch.deciding, dtype=torch.long, device=device)
        kept = {"logits_to_keep": deciding} if self._keeps_logits else {}
        with running(self._step(batch, groups)):
            output = self.model(
                input_ids=as_tensor(batch.tokens, device)[None],
                position_ids=as_tensor(batch.positions, device)[None],
                use_cache=False,
                **kept,
            )
        return output.logits[0] if kept else output.logits[0, deciding]

    def _step(self, batch: Batch, groups: tuple[Group, ...]) -> Step:
        return Step(self.pool, as_tensor(batch.slots, self.model.device), groups, self.near)

    def _decide(self, logits: torch.Tensor, rows: list[Row]) -> list[Decoded]:
        if not rows:
            return []
        tokens = self._choose(logits, rows)
        logprobs = token_logprobs(logits, tokens, [row.handle.request.params.logprobs for row in rows])
        return [Decoded(row.handle, token, own) for row, token, own in zip(rows, tokens, logprobs, strict=True)]

    def _accept(self, decoded: list[Decoded]) -> list[Decoded]:
        """What holds of a step's decisions: those after a draft's tokens, as long as these are what was decided."""
        requests, self._checking = self._checking, []
        if not requests:
            return decoded
        right: dict[Handle, int] = {}  # tokens of a draft, up to the first that is wrong
        out: list[Decoded] = []
        ended: set[Handle] = set()
        for one in decoded:
            handle = one.thread
            draft = handle.request.drafts.get(handle)
            if draft is not None:
                if handle in ended:
                    continue
                count = right.setdefault(handle, 0)
                if count < len(draft.tokens) and draft.tokens[count] == one.token:
                    right[handle] += 1
                else:
                    ended.add(handle)
            out.append(one)
        for request in requests:
            self._settle_drafts(request, right)
        return out

    def _settle_drafts(self, request: Request, right: dict[Handle, int]) -> None:
        """Keeps of a request's drafts what was right, until it is fed, and gives the other slots back."""
        gone: list[int] = []
        drafts, request.drafts = request.drafts, {}
        for handle, draft in drafts.items():
            middle = draft.place + right.get(handle, 0)
            if middle > draft.place:  # those of earlier drafts that went are before it
                request.ahead[handle] = deque(range(draft.place - len(gone), middle - len(gone)))
            gone += range(middle, draft.place + len(draft.tokens))
        if gone:
            self._remove(request, gone)

    def _forget_ahead(self, request: Request) -> None:
        """What drafts filled rightly and nobody fed is computed again when it is fed."""
        ahead, request.ahead = request.ahead, {}
        self._remove(request, [place for places in ahead.values() for place in places])

    def _remove(self, request: Request, gone: Iterable[int]) -> None:
        """Gives up places of a request."""
        origins, targets = request.remove(set(gone))
        if origins:
            slots = request.blocks.slots
            self._move([slots[place] for place in origins], [slots[place] for place in targets])

    def _move(self, origins: list[int], targets: list[int]) -> None:
        """Moves keys and values from slots to others."""
        self.pool.move(torch.tensor(origins), torch.tensor(targets))

    def _choose(self, logits: torch.Tensor, rows: list[Row]) -> list[int]:
        params = [row.handle.request.params for row in rows]
        if any(own.repetition_penalty != 1 for own in params):
            logits = self._repetition.penalise(logits, rows)
        if any(own.logit_bias for own in params):
            logits = add_biases(logits, params)
        if self._forbidden is not None and self.grammar is not None:
            logits = logits.masked_fill(self._forbidden[[int(row.expect) for row in rows]], -torch.inf)
            bias = [own.parallelism for own in params]
            if any(bias):
                logits[:, self.grammar.tags.promise] += torch.tensor(bias, dtype=logits.dtype, device=logits.device)
        logits = constrain(logits, [row.constraint for row in rows])
        draws = [
            uniform(own.seed, row.handle.path, row.position + 1) if own.temperature > 0 else 0.0
            for row, own in zip(rows, params, strict=True)
        ]
        return choose(logits, params, draws)


def as_tensor(values: array[int], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=np.int64)).to(device)
