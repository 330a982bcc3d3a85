"""The CUDA engine on a CPU: graphs run as they are launched, and kernels are their plain twins.

What is left is the host's part, which is the engine's own: plans, rows that follow, blocks, requests that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pasta.core.params import SamplingParams


class Event:
    def __init__(self, **_: Any) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class Attention:
    """As `attention.Attention`, through `reference.attend`."""

    def __init__(self, rows: int, tiles: int, heads: int, kv_heads: int, size: int, *, block_size: int, **_: Any):
        self.block_size = block_size

    def build_mask(self, *, tiles: torch.Tensor, block_tables: torch.Tensor, **step: Any) -> None:
        self.rows: list[int] = []
        requests = []
        lengths: dict[int, int] = {}
        for first, count, request, length in tiles.T.tolist():
            self.rows += range(first, first + count)
            requests += [request] * count
            if count:
                lengths[request] = length
        rows = torch.tensor(self.rows, dtype=torch.long)
        self.step = {
            "requests": torch.tensor(requests, dtype=torch.long),
            "lengths": torch.tensor([lengths.get(index, 0) for index in range(max(lengths, default=0) + 1)]),
            "places": step["places"][rows],
            "sees": step["sees"][rows],
            "slot_segments": step["slot_segments"],
            "block_tables": block_tables,
            "block_size": self.block_size,
        }

    def __call__(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, out: torch.Tensor, scale: float, **_: Any
    ) -> None:
        from pasta.engine.cuda import reference

        out.zero_()
        out[self.rows] = reference.attend(query[self.rows], keys, values, scale, **self.step)


@contextmanager
def twins_without_a_gpu() -> Iterator[None]:
    """On a GPU engines run as they are, elsewhere with their kernels' twins."""
    with pytest.MonkeyPatch.context() as patch:
        if not torch.cuda.is_available():
            install(patch)
        yield


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the Llama family."""
    from pasta.engine.cuda import captures, graph, kernels, reference, small
    from pasta.engine.cuda.following import Board, state_after
    from pasta.engine.cuda.parameters import Parameters
    from pasta.engine.cuda.sampling import Rows, Sampler
    from pasta.engine.sampling import choose

    def patch(where: Any, **new: Any) -> None:
        for name, value in new.items():
            monkeypatch.setattr(where, name, value)

    def unpinned(make: Any) -> Any:
        return lambda *sizes, pin_memory=False, **options: make(*sizes, **options)

    patch(torch, zeros=unpinned(torch.zeros))
    patch(torch.cuda, Event=Event, graph_pool_handle=lambda: None)
    patch(torch.cuda, get_device_properties=lambda _: SimpleNamespace(multi_processor_count=1))

    def capture(work: Any, memory: Any) -> Any:
        work()
        return SimpleNamespace(replay=work), None

    patch(graph, capture=capture)
    patch(captures, Attention=Attention)
    patch(small, MAX_WIDTH=0)

    def add_norm(x: Any, residual: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor, **_: Any) -> None:
        added, normed = reference.add_norm(x, residual, weight, eps)
        residual.copy_(added)
        out.copy_(normed)

    def rotate_store(
        qkv: torch.Tensor, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rotation: Any,
        positions: torch.Tensor, slots: torch.Tensor, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        rows, heads, size = query.shape
        q, k, v = qkv.view(rows, -1, size).split([heads, keys.shape[1], keys.shape[1]], 1)
        places = positions.long()
        query.copy_(reference.rotate(q, *rotation, places))
        keys[slots.long()] = reference.rotate(k, *rotation, places)
        values[slots.long()] = v

    def scatter(table: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
        table[slots.long()] = values

    patch(kernels, add_norm=add_norm, rotate_store=rotate_store, scatter_segments=scatter)
    patch(kernels, note_rows=reference.note_rows)
    patch(kernels, silu_mul=lambda gate_up, out, **_: out.copy_(reference.silu_mul(gate_up)))

    def adjusted(
        logits: torch.Tensor, forbidden: torch.Tensor | None, states: Any, requests: Any, numbers: Any, promise: int
    ) -> torch.Tensor:
        scores = logits.float().clone()
        if forbidden is not None:
            scores[:, promise] += numbers[requests.long(), 5]
            scores[forbidden[states.long()] != 0] = -torch.inf
        return scores

    def masked_argmax(*step: Any, forced: torch.Tensor, out: torch.Tensor, beside: int = 0) -> None:
        out.copy_(torch.where(forced >= 0, forced.long(), adjusted(*step).argmax(1)))

    def sample(self: Sampler, logits: torch.Tensor, rows: Rows, level: int, out: torch.Tensor) -> None:
        numbers: Parameters = self.parameters
        scores = adjusted(logits, self.forbidden, rows.states, rows.requests, numbers.numbers, self.promise)
        assert self.seen is None and rows.forced is not None
        if rows.allowed is not None:
            allowed = rows.allowed[:, :, None] >> torch.arange(32, dtype=torch.int32) & 1
            scores[allowed.view(len(scores), -1)[:, : scores.shape[1]] == 0] = -torch.inf
        params = [
            SamplingParams(temperature=temperature, top_k=int(top_k), top_p=round(top_p, 6), min_p=round(min_p, 6))
            for temperature, top_k, top_p, min_p, *_ in numbers.numbers[rows.requests.long()].tolist()
        ]
        tokens = torch.tensor(choose(scores, params, rows.draws.tolist()))
        out.copy_(torch.where(rows.forced >= 0, rows.forced.long(), tokens))

    def follow(self: Board, tokens: torch.Tensor, states: torch.Tensor, forced: torch.Tensor) -> None:
        for row, token in enumerate(tokens.tolist()):
            if token < 0:
                tokens[row] = self.chosen[-1 - token]
                states[row] = state_after(int(states[row]), int(tokens[row]), self.kinds)
        self.states[: len(states)] = states
        self.forced[: len(forced)] = forced

    patch(captures, masked_argmax=masked_argmax)
    patch(Sampler, __call__=sample)
    patch(Board, follow=follow)
