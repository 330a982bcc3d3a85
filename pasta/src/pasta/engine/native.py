"""The native engine: any transformers decoder with full attention, on PyTorch.

All that was fed since the last step, threads of all requests together, runs in one forward pass; of prompts no more
than a chunk, so that a long one does not keep the others waiting.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from pasta.core.grammar import Expect, Grammar
from pasta.core.positions import Positions
from pasta.core.segments import SegmentTable, Thread
from pasta.core.vocabulary import Vocabulary
from pasta.engine.attention import IMPLEMENTATION, Group, Step
from pasta.engine.base import OutOfSlots, Sampling, uniform
from pasta.engine.pool import PAGE, KvPool, Pages, affordable_slots
from pasta.engine.repetition import Repetition
from pasta.engine.sampling import choose
from pasta.engine.support import check_supported, context_length


class Request:
    """What one request holds: its pages, and each slot's segment and token."""

    def __init__(self, pool: KvPool, sampling: Sampling):
        self.sampling = sampling
        self.plainly_greedy = sampling.temperature == 0 and sampling.repetition_penalty == 1
        self.pages = Pages(pool)
        self.ran = 0  # slots that hold their keys and values, those of the step at hand included
        self.reused = 0  # of them, slots that another request computed
        self.prompt: Sequence[int] = ()
        self.scope: str | None = None  # who may share with it; None: nobody
        self.plain: list[int] = []  # the tokens that see all before them and nothing else
        self.table = SegmentTable()
        self._segments = array("i")  # by slot, in the request's own order
        self._tokens = array("i")  # likewise
        self._sees = np.zeros((8, 8), dtype=bool)  # the table's bit sets, spread out
        self._known = 0

    def append(self, segment: int, token: int) -> int:
        """Takes a slot for a token of this segment; returns where it lies in the pool."""
        slot = self.pages.append()
        self._segments.append(segment)
        self._tokens.append(token)
        return slot

    def adopt(self, pages: Sequence[int]) -> None:
        """Begins with pages that hold the prompt's beginning."""
        self.pages.adopt(pages)
        self.ran = self.reused = self.pages.used
        self.plain = list(self.prompt[: self.reused])
        self._segments.extend([0] * self.reused)
        self._tokens.extend(self.plain)

    def visible(self, rows: Sequence[Row]) -> np.ndarray:
        """(rows, slots): what each of these tokens may attend to."""
        self._spread()
        segments = np.frombuffer(self._segments, dtype=np.int32)[: self.ran]
        visible = self._sees[[row.segment for row in rows]][:, segments]
        if len(rows) > 1:
            visible &= np.arange(self.ran) <= np.array([row.place for row in rows])[:, None]
        return visible

    def seen(self, segment: int, end: int) -> list[int]:
        """The tokens of the slots before `end` that a segment sees, itself included."""
        self._spread()
        segments, tokens = (np.frombuffer(part, dtype=np.int32)[:end] for part in (self._segments, self._tokens))
        return list(tokens[self._sees[segment, segments]].tolist())

    def written(self, segment: int, start: int, end: int) -> list[int]:
        """The tokens of a segment itself in these slots."""
        slots = zip(self._segments[start:end], self._tokens[start:end], strict=True)
        return [token for own, token in slots if own == segment]

    def _spread(self) -> None:
        count = len(self.table.sees)
        if count > len(self._sees):
            larger = np.zeros((2 * count, 2 * count), dtype=bool)
            larger[: self._known, : self._known] = self._sees[: self._known, : self._known]
            self._sees = larger
        for segment in range(self._known, count):
            seen = self.table.sees[segment]
            self._sees[segment, : segment + 1] = [seen >> other & 1 for other in range(segment + 1)]
        self._known = count


@dataclass(slots=True, eq=False)
class Handle:
    """One thread in the engine."""

    request: Request
    thread: Thread
    path: tuple[int, ...] = ()
    forks: int = 0
    drawn: int = 0
    first_fork: int | None = None  # the segment that ends with its first open promise


class Row(NamedTuple):
    """A token waiting for the next step. (A tuple, because a step of many threads makes many of them.)"""

    handle: Handle
    token: int
    position: int
    expect: Expect | None
    slot: int  # in the pool
    place: int  # in the request
    segment: int
    banned: Sequence[int] = ()


class NativeEngine:
    """Decodes on the machine it runs on. `slots` is the size of the KV pool, in tokens."""

    chunk = 256  # tokens of prompts in one step

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        name: str = "",
        slots: int | None = None,
        context: int | None = None,
    ):
        self.context = min(context or 1 << 30, context_length(model.config))
        check_supported(model, self.context, name)
        model.set_attn_implementation(IMPLEMENTATION)
        self.model = model.eval()
        self.vocabulary = vocabulary
        self.name = name
        self.positions = Positions.parse((getattr(model.config, "pasta", None) or {}).get("positions", "predicted"))
        self.pool = KvPool(slots or affordable_slots(model.config, model.dtype, model.device), model.device)
        self._rows: dict[Request, list[Row]] = {}
        tags = vocabulary.tags.all if vocabulary.tags else frozenset()
        self._repetition = Repetition(vocabulary.eos | tags, model.device)
        size = int(model.get_output_embeddings().weight.shape[0])
        self.grammar = Grammar.of(vocabulary, size) if vocabulary.tags else None
        self._forbidden = torch.from_numpy(~self.grammar.allowed).to(model.device) if self.grammar is not None else None

    # -- threads --------------------------------------------------------------------------------------

    def open(self, prompt: Sequence[int], expect: Expect, sampling: Sampling, scope: str | None = None) -> Handle:
        request = self._new_request(sampling)
        request.prompt, request.scope = prompt, scope
        handle = Handle(request, Thread(request.table))
        if scope is not None:
            request.adopt(self.pool.prefixes.find(scope, prompt))
        try:
            for position in range(request.reused, len(prompt)):
                self.feed(handle, prompt[position], position, expect if position == len(prompt) - 1 else None)
        except OutOfSlots:
            self.close(handle)
            raise
        return handle

    def cached_tokens(self, thread: Handle) -> int:
        return thread.request.reused

    def _new_request(self, sampling: Sampling) -> Request:
        return Request(self.pool, sampling)

    def feed(
        self, thread: Handle, token: int, position: int, expect: Expect | None, banned: Sequence[int] = ()
    ) -> None:
        request, segment = thread.request, thread.thread.segment
        index = request.pages.used
        slot = request.append(segment, token)
        rows = self._rows.get(request)
        if rows is None:
            rows = self._rows[request] = []
        rows.append(Row(thread, token, position, expect, slot, index, segment, banned))

    def fork(self, thread: Handle) -> Handle:
        if thread.first_fork is None:
            thread.first_fork = thread.thread.segment
        child = Handle(thread.request, thread.thread.fork(), (*thread.path, thread.forks))
        thread.forks += 1
        return child

    def join(self, thread: Handle, children: Sequence[Handle]) -> None:
        thread.thread.join([child.thread for child in children])
        thread.first_fork = None

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Runs the tokens again in their new order. The old ones keep their slots, which nobody sees any more."""
        assert thread.first_fork is not None
        thread.thread.go_back(thread.first_fork)
        thread.first_fork = None
        for place, token in enumerate(tokens, position):
            self.feed(thread, token, place, None)

    def prepare(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        """Nothing: this layout is here for comparison, plain rather than fast."""

    def close(self, thread: Handle) -> None:
        self._rows.pop(thread.request, None)
        thread.request.pages.free()

    # -- one step --------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Nothing to start ahead: a step here runs while it is waited for."""

    @torch.inference_mode()
    def step(self) -> list[tuple[Handle, int]]:
        if not self._rows:
            return []
        waiting = self._take()
        rows = [row for group in waiting.values() for row in group]
        deciding = [index for index, row in enumerate(rows) if row.expect is not None]
        logits = self._forward(rows, deciding, self._groups(waiting))
        self._keep(waiting)
        if not deciding:
            return []
        decided = [rows[index] for index in deciding]
        tokens = self._choose(logits, decided)
        return [(row.handle, token) for row, token in zip(decided, tokens, strict=True)]

    def _take(self) -> dict[Request, list[Row]]:
        """What the next step runs: every token of an answer, and a chunk of the prompts."""
        self._repetition.begin_step()
        fed, self._rows = self._rows, {}
        shares = self._share_chunk(fed)
        waiting: dict[Request, list[Row]] = {}
        for request, rows in fed.items():
            share = shares.get(request, len(rows))
            if share < len(rows):
                self._rows[request] = rows[share:]
            if share:
                request.ran += share
                waiting[request] = rows[:share]
        return waiting

    def _share_chunk(self, fed: dict[Request, list[Row]]) -> dict[Request, int]:
        """How many tokens of each prompt run in the next step, where not all do.

        Half of the chunk is for the prompt that came first, which so gets on whatever comes after it. The rest is for
        the shortest, which would wait long behind a long one, and make it wait little.
        """
        prompts = [request for request in fed if request.ran < len(request.prompt)]
        if sum(len(fed[request]) for request in prompts) <= self.chunk:
            return {}
        shares = dict.fromkeys(prompts, 0)
        shares[prompts[0]] = min(len(fed[prompts[0]]), (self.chunk + 1) // 2)
        left = self.chunk - shares[prompts[0]]
        for request in sorted(prompts, key=lambda request: len(fed[request])):
            more = min(left, len(fed[request]) - shares[request])
            shares[request] += more
            left -= more
        return shares

    def _keep(self, waiting: dict[Request, list[Row]]) -> None:
        """Lets later requests find the full pages of what just ran, as far as a fresh prompt would compute the same."""
        for request, rows in waiting.items():
            if request.scope is not None and rows[0].segment == 0:
                before = len(request.plain) // PAGE
                request.plain += [row.token for row in rows if row.segment == 0]
                if len(request.plain) // PAGE > before:
                    self.pool.prefixes.keep(request.scope, request.plain, request.pages.pages)

    def _groups(self, waiting: dict[Request, list[Row]]) -> tuple[Group, ...]:
        groups = []
        start = 0
        for request, rows in waiting.items():
            end = start + len(rows)
            fresh = len(rows) == request.ran and len(request.table.sees) == 1
            mask = None
            if not fresh:
                visible = request.visible(rows)
                mask = None if visible.all() else torch.from_numpy(visible).to(self.model.device)
            groups.append(Group(slice(start, end), request.pages.select(request.ran), mask, causal=fresh))
            start = end
        return tuple(groups)

    def _forward(self, rows: list[Row], deciding: list[int], groups: tuple[Group, ...]) -> torch.Tensor:
        device = self.model.device
        step = Step(self.pool, torch.tensor([row.slot for row in rows], device=device), groups)
        output = self.model(
            input_ids=torch.tensor([[row.token for row in rows]], device=device),
            position_ids=torch.tensor([[row.position for row in rows]], device=device),
            use_cache=False,
            logits_to_keep=torch.tensor(deciding, dtype=torch.long, device=device),
            pasta=step,
        )
        return output.logits[0]

    def _choose(self, logits: torch.Tensor, rows: list[Row]) -> list[int]:
        ways = [row.handle.request.sampling for row in rows]
        if any(way.repetition_penalty != 1 for way in ways):
            logits = self._repetition.penalise(logits, rows)
        if self._forbidden is not None and self.grammar is not None:
            logits = logits.masked_fill(self._forbidden[[int(row.expect) for row in rows]], -torch.inf)  # type: ignore[arg-type]
            bias = [way.parallelism for way in ways]
            if any(bias):
                logits[:, self.grammar.tags.promise] += torch.tensor(bias, dtype=logits.dtype, device=logits.device)
            banned = [(index, token) for index, row in enumerate(rows) for token in row.banned]
            if banned:
                places = torch.tensor(banned, device=logits.device)
                logits[places[:, 0], places[:, 1]] = -torch.inf
        draws = []
        for row, way in zip(rows, ways, strict=True):
            handle = row.handle
            draws.append(uniform(way.seed, handle.path, handle.drawn) if way.temperature > 0 else 0.0)
            handle.drawn += 1
        return choose(logits, ways, draws)
