"""What a step runs of many requests: shares of a budget, and stretches in the order of places. No model."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.segments import Thread
from pasta.engine.batch import gather, share
from pasta.engine.pool import BLOCK_SIZE, KvPool
from pasta.engine.request import Handle, Request, Row

BACKLOGS = st.lists(st.integers(0, 40), min_size=1, max_size=8)


@given(st.integers(1, 60), BACKLOGS)
def test_a_budget_is_used_up_and_the_first_gets_half(budget: int, backlogs: list[int]) -> None:
    shares = share(budget, backlogs)
    assert all(0 <= one <= backlog for one, backlog in zip(shares, backlogs, strict=True))
    assert sum(shares) == min(budget, sum(backlogs))
    first = next((index for index, backlog in enumerate(backlogs) if backlog), 0)
    assert shares[first] >= min(backlogs[first], (budget + 1) // 2)


@given(BACKLOGS)
def test_of_the_rest_the_shortest_go_first(backlogs: list[int]) -> None:
    shares = share(20, [50, *backlogs])[1:]
    least_cut = min((b for s, b in zip(shares, backlogs, strict=True) if s < b), default=None)
    if least_cut is not None:
        assert all(s == 0 for s, b in zip(shares, backlogs, strict=True) if b > least_cut)


def request_of(pool: KvPool, prompt: int, fed: list[bool], params: SamplingParams | None = None) -> Request:
    """A request with a prompt of so many tokens, and then tokens that decide or do not."""
    request = Request(pool, params or SamplingParams(), None)
    request.open(list(range(prompt)), [])
    handle = Handle(request, Thread(request.table))
    for place, decides in enumerate(fed, prompt):
        assert request.append(1000 + place, place, 0) == place
        if decides:
            request.deciding.append(Row(handle, Expect.TEXT, place, 1000 + place, place, 0))
    return request


@settings(deadline=None)
@given(st.integers(1, 100), st.lists(st.booleans(), max_size=30), st.lists(st.integers(0, 20)))
def test_stretches_follow_each_other(prompt: int, fed: list[bool], cuts: list[int]) -> None:
    request = request_of(KvPool(4 * BLOCK_SIZE, torch.device("cpu")), prompt, fed)
    deciding = [row.place for row in request.deciding]
    decided: list[int] = []
    while request.waiting:
        start, backlog = request.ran, request.backlog
        wanted = min(backlog, cuts.pop()) if cuts else backlog
        chunk = request.take(wanted)
        assert (chunk.start, chunk.end) == (start, request.ran)
        assert chunk.end - chunk.start - len(chunk.rows) == wanted
        assert all(chunk.start <= row.place < chunk.end for row in chunk.rows)
        assert request.backlog == backlog - wanted
        decided += [row.place for row in chunk.rows]
        following = chunk.end if chunk.end < prompt + len(fed) else None
        assert following not in deciding, "what decides right after it runs with it"
    assert decided == deciding


def test_columns_lie_side_by_side() -> None:
    pool = KvPool(6 * BLOCK_SIZE, torch.device("cpu"))
    one = request_of(pool, 3, [True, False])
    two = request_of(pool, BLOCK_SIZE + 1, [False, True])
    one.take(2)
    batch = gather([one.take(2), two.take(two.backlog)])
    assert batch.tokens.tolist() == [2, 1003, 1004, *range(BLOCK_SIZE + 1), 1065, 1066]
    assert batch.places.tolist() == batch.positions.tolist() == [2, 3, 4, *range(BLOCK_SIZE + 3)]
    assert batch.slots.tolist() == [2, 3, 4, *two.blocks.slots[: BLOCK_SIZE + 3]]
    assert set(batch.segments) == {0}
    assert batch.deciding == [1, 3 + BLOCK_SIZE + 2]
    assert [row.place for row in batch.rows] == [3, BLOCK_SIZE + 2]


def test_rows_that_all_decide_know_their_columns() -> None:
    pool = KvPool(6 * BLOCK_SIZE, torch.device("cpu"))
    requests = [request_of(pool, prompt, [True] * 3) for prompt in (3, BLOCK_SIZE + 1)]
    for request in requests:
        request.ran = request.prompt_length
    chunks = [request.take(0) for request in requests]
    batch = gather(chunks)
    for name in ("tokens", "positions", "segments"):
        columns = [getattr(request, name)[start:end] for request, start, end, _ in chunks]
        assert getattr(batch, name) == columns[0] + columns[1]
    assert batch.places.tolist() == [3, 4, 5, *range(BLOCK_SIZE + 1, BLOCK_SIZE + 4)]
    assert batch.slots == requests[0].blocks.slots[3:6] + requests[1].blocks.slots[-BLOCK_SIZE + 1 : -BLOCK_SIZE + 4]
    assert batch.deciding == list(range(6))


def test_the_prompts_part_of_a_backlog() -> None:
    pool = KvPool(4 * BLOCK_SIZE, torch.device("cpu"))
    request = request_of(pool, 10, [False, False, True])
    assert (request.backlog, request.prompt_backlog) == (12, 10)
    request.take(4)
    assert (request.backlog, request.prompt_backlog) == (8, 6)
    request.take(7)
    assert (request.backlog, request.prompt_backlog) == (1, 0)
