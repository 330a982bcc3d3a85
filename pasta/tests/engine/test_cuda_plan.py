"""What travels to a captured step, read back as the device reads it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from itertools import pairwise
from random import Random

import numpy as np
import pytest
import torch

from pasta.core.grammar import Expect
from pasta.engine.batch import Batch
from pasta.engine.request import Chunk, Row

pytest.importorskip("triton")
CUDA = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.mark.parametrize("rows,tiles", [(2, 1), (4, 2), (8, 8)])
def test_a_plan_is_read_as_it_was_written(rows: int, tiles: int) -> None:
    from pasta.engine.cuda.graph import Plan, Shape, Tile
    from pasta.engine.cuda.request import WORDS

    columns = [array("i", [10 * column + 1, 10 * column + 2]) for column in range(5)]
    decides = Row(None, Expect.CHILD, 0, 0, 0, 0)  # type: ignore[arg-type]
    batch = Batch(*columns, rows=[decides], deciding=[1])
    sees = [(5).to_bytes(4 * WORDS, "little"), (1 << 40).to_bytes(4 * WORDS, "little")]
    shape = Shape(rows, tiles)
    written = Plan.write(shape, batch, [Tile(0, 2, 7, 90)], sees, [7, 7], array("i", [-1, 4]), [5], padding_slot=99)
    assert len(written) == 4 * shape.size
    plan = Plan.over(torch.frombuffer(bytearray(written), dtype=torch.int32), shape)
    read = (plan.tokens, plan.positions, plan.slots, plan.segments, plan.places)
    assert [part[:2].tolist() for part in read] == [column.tolist() for column in columns]
    assert plan.slots[2:].tolist() == [99] * (rows - 2)
    assert plan.states[:2].tolist() == [0, Expect.CHILD]
    assert plan.requests[:2].tolist() == [7, 7]
    assert plan.forced[:2].tolist() == [-1, 4]
    assert plan.hidden.tolist() == [5, *[99] * (rows - 1)]
    assert plan.sees[:2].flatten().tolist() == [5, *[0] * (WORDS - 1), 0, 1 << 8, *[0] * (WORDS - 2)]
    assert plan.tiles[:, 0].tolist() == [0, 2, 7, 90]
    assert not plan.tiles[1, 1:].any()


@pytest.mark.parametrize("group", [1, 3, 8])
def test_every_step_has_one_of_the_prepared_shapes(group: int) -> None:
    """However its rows are shared out among requests; and no shape is prepared that no step has."""
    from pasta.engine.cuda.captures import shapes_within, tiled
    from pasta.engine.cuda.request import CudaRequest

    prepared, random, seen = list(shapes_within(200, group)), Random(group), set()
    for rows in range(1, 257):
        for requests in {1, 2, rows, *(random.randint(1, rows) for _ in range(8))}:
            ends = [*sorted(random.sample(range(1, rows), min(requests, rows) - 1)), rows]
            chunks = []
            for start, end in pairwise([0, *ends]):
                request = object.__new__(CudaRequest)
                request.index = 0
                chunks.append(Chunk(request, 0, end - start, []))
            shape, tiles = tiled(chunks, rows, group)
            assert rows <= shape.rows and len(tiles) <= shape.tiles
            seen.add(shape)
    assert len(prepared) == len(set(prepared))
    assert seen == set(prepared)
    assert [shape.rows for shape in prepared] == sorted((shape.rows for shape in prepared), reverse=True)


def test_little_of_a_large_step_is_padding() -> None:
    from pasta.engine.cuda.captures import step_size

    sizes = sorted({step_size(rows) for rows in range(1, 1025)})
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024]
    assert all(rows <= step_size(rows) < 1.5 * rows for rows in range(65, 4097))
    assert all(step_size(rows) < rows + 128 for rows in range(65, 1025))


@pytest.mark.skipif(not (CUDA or INTERPRETED), reason="needs a CUDA device, or Triton's interpreter")
@pytest.mark.parametrize("rows,padding", [(1, 0), (1, 1), (40, 24), (300, 84)])
def test_rows_are_noted_as_the_twin_notes_them(rows: int, padding: int) -> None:
    """What a step writes down of its rows before the first layer; nothing of those that pad it."""
    from pasta.engine.cuda import kernels, reference

    device, random = torch.device("cuda" if CUDA else "cpu"), np.random.default_rng(rows)
    block_size, owners, each = 64, 5, 8
    padding_slot = owners * each * block_size
    held = random.permutation(owners * each).reshape(owners, each)  # the blocks of each request
    places, requests = random.permutation(padding_slot)[:rows] // owners, random.integers(0, owners, rows)
    slots = held[requests, places // block_size] * block_size + places % block_size
    columns = [
        torch.tensor([*column.tolist(), *[other] * padding], dtype=torch.int32)
        for column, other in ((slots, padding_slot), (slots % 500, 0), (requests, 0), (places, 0))
    ]
    others = sorted(set(range(padding_slot)) - set(slots.tolist()))
    columns.append(torch.tensor([others[7], *[padding_slot] * (rows + padding - 1)], dtype=torch.int32))
    options = {"block_size": block_size, "padding_slot": padding_slot, "nobody": 511}

    def noted(note: Callable[..., None], where: torch.device) -> list[list[int]]:
        tables = [torch.full(size, -1, dtype=torch.int32, device=where) for size in ((padding_slot + 64,), held.shape)]
        note(*tables, *(column.to(where) for column in columns), **options)
        return [table.tolist() for table in tables]

    assert noted(kernels.note_rows, device) == noted(reference.note_rows, torch.device("cpu"))
