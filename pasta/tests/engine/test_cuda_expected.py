"""Forks and joins that are expected before their tags are read: they take no step, and what was wrong is not seen."""

from __future__ import annotations

from typing import Any

import pytest
from test_cuda_following import PROMPTS, Make, make  # noqa: F401  (a fixture)

from pasta.core.tree import Block, Tree
from pasta.decoding.api import generate_all, replay
from pasta.engine.cuda.request import NOBODY, CudaRequest


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """One that decodes step by step, and one that goes ahead."""
    made: Make = request.getfixturevalue("make")
    return made(ahead=False), made()


def launched(engine: Any, response: Tree) -> int:
    """How many steps a replay takes, those that came to nothing included."""
    launch, count = engine._captures.launch, 0

    def counted(*step: Any) -> Any:
        nonlocal count
        count += 1
        return launch(*step)

    engine._captures.launch = counted
    try:
        assert replay(engine, PROMPTS[0], response).tree == response
    finally:
        engine._captures.launch = launch
    assert engine.pool.free_slots == engine.pool.slots
    return count


def forking(engine: Any, topics: tuple[str, ...], syncs: bool, promised: int = 0) -> Tree:
    """A response with a promise for each topic, of so many tens of tokens, or as many as there are."""
    tags, encode = engine.vocabulary.tags, engine.vocabulary.encode
    items: list[Any] = [*encode("red")]
    for number, topic in enumerate(topics):
        body = (tags.open, *encode("blue cat " * (number + 2)), tags.close)
        items += [tags.promise, *encode(topic), tags.of_tens(promised or -(-len(body) // 10)), Block(body)]
    return (*items, *([tags.sync] if syncs else []), *encode("dog"))


@pytest.mark.parametrize("topics", [("a",), ("a", "b", "c"), ("cats and dogs", "b", "a dog")], ids=str)
@pytest.mark.parametrize("syncs", [False, True])
def test_forks_and_joins_take_no_step_more(engines: tuple[Any, Any], topics: tuple[str, ...], syncs: bool) -> None:
    """But the one that every answer has launched when its end is read."""
    steps, ahead = (launched(engine, forking(engine, topics, syncs)) for engine in engines)
    assert ahead == steps + 1
    assert engines[1].counts[True] > 5


@pytest.mark.parametrize("promised", [1, 40])
def test_an_end_that_comes_otherwise_than_promised(engines: tuple[Any, Any], promised: int) -> None:
    """Long after it was expected, or long before: in the end a step later."""
    steps, ahead = (launched(engine, forking(engine, ("a", "b", "c"), True, promised)) for engine in engines)
    assert ahead == steps + 2


def test_nothing_is_expected_beyond_the_context(engines: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that writes to the very end of it: the sync behind it would have no position."""
    from pasta.decoding.prompts import make_request
    from pasta.decoding.request import RequestState
    from pasta.decoding.scheduler import Scheduler

    _, engine = engines
    tags, encode = engine.vocabulary.tags, engine.vocabulary.encode
    body = (tags.open, *encode("blue cat " * 4), tags.close)
    response = (tags.promise, *encode("a"), tags.of_tens(1), Block(body), tags.sync, *encode("dog"))
    prompt = engine.vocabulary.encode(PROMPTS[0])
    monkeypatch.setattr(engine, "context", len(prompt) + 3 + 18)
    launch, positions = engine._captures.launch, []

    def seen(chunks: Any, batch: Any, hidden: Any) -> Any:
        positions.extend(batch.positions)
        return launch(chunks, batch, hidden)

    monkeypatch.setattr(engine._captures, "launch", seen)
    state = RequestState(make_request(engine, prompt, script=response, max_tokens=200), engine)
    scheduler = Scheduler(engine)
    scheduler.add(state)
    while scheduler.busy:
        scheduler.step()
    assert max(positions) < engine.context


def test_where_a_row_costs_much_a_lone_child_has_none_beside_it(
    engines: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, engine = engines
    monkeypatch.setattr(engine, "_cheap_rows", False)
    response = forking(engine, ("a",), syncs=True)
    assert launched(engine, response) == launched(steps, response) + 2


def test_which_child_is_the_last() -> None:
    from pasta.engine.cuda.joins import Joins

    handles: list[Any] = [object() for _ in range(4)]
    main, first, second, inner = handles
    joins = Joins()
    joins.fork(main, first, 10, 20)
    joins.fork(main, second, 40, 20)
    assert joins.last(main) is None  # two are left
    joins.close(first, 35)
    assert joins.last(main) is second and joins.behind(main) == 35
    assert [joins.is_near(second, position) for position in (54, 55, 80, 81)] == [False, True, True, False]
    joins.fork(second, inner, 45, 10)
    assert joins.last(main) is None  # whose own child is not done
    joins.close(inner, 60)
    assert joins.last(main) is second and joins.behind(main) == 60
    joins.close(second, 58)
    assert joins.last(main) is None
    joins.join(main)
    assert joins.children(main) == [] and joins.behind(main) == 0


def test_what_was_expected_of_a_topic_that_went_on_is_hidden(engines: tuple[Any, Any], monkeypatch: Any) -> None:
    """A row for each token that might have been the length; all but the last come to nothing."""
    _, engine = engines
    rows: list[tuple[Any, int]] = []
    expect_child = CudaRequest.expect_child

    def counted(self: CudaRequest, *arguments: Any) -> None:
        rows.append((self, len(self.tokens)))
        expect_child(self, *arguments)

    monkeypatch.setattr(CudaRequest, "expect_child", counted)
    topic = "cats and dogs"
    response = forking(engine, (topic,), syncs=True)
    assert replay(engine, PROMPTS[0], response).tree == response
    tokens = engine.vocabulary.encode(topic)
    may_end = [token for token in tokens if not engine.grammar.ends_in_space[token]]
    assert len(rows) == len(may_end) > 1
    request = rows[0][0]
    segments = [request.segments[place] for _, place in rows]
    assert segments[:-1] == [NOBODY] * (len(rows) - 1)
    assert segments[-1] not in (0, engine.max_segments)
    assert not request.expected


def test_nothing_behind_an_expected_child_is_offered_to_others(engines: tuple[Any, Any]) -> None:
    """The first tokens of a request that others may find are those before any row of a child."""
    from pasta.core.grammar import Expect
    from pasta.core.params import SamplingParams

    _, engine = engines
    main = engine.open(list(range(5, 40)), Expect.TEXT, SamplingParams(), "everybody")
    request = main.request
    assert request.unconfirmed == 0
    request.expect_child(main, engine.vocabulary.tags.open, 36, 2)
    engine.feed(main, 7, 35, Expect.TEXT)
    request.ran = len(request.tokens)
    assert request.plain == 35
    assert request.unconfirmed == 0  # it may come to nothing
    engine.close(main)


def test_what_is_expected_takes_no_segment_from_what_comes(
    engines: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few segments, and far more expected than come: answers end where they end step by step."""
    steps, ahead = engines
    limit = 40
    monkeypatch.setattr("pasta.engine.cuda.request.SPARE", 7)
    requests: list[CudaRequest] = []
    make_request = ahead._new_request

    def kept(*arguments: Any) -> CudaRequest:
        requests.append(make_request(*arguments))
        return requests[-1]

    for engine in engines:
        monkeypatch.setattr(engine, "max_segments", limit, raising=False)
    monkeypatch.setattr(ahead, "_new_request", kept, raising=False)
    expected, found = (generate_all(engine, PROMPTS, parallelism=6.0, max_tokens=200) for engine in engines)
    assert [answer.tree for answer in found] == [answer.tree for answer in expected]
    tables = [request.table for request in requests]
    assert max(table.used for table in tables) >= limit - 1  # some were to have more
    assert all(table.ahead <= 7 for table in tables) and any(table.ahead >= 6 for table in tables)
    assert steps.pool.free_slots == steps.pool.slots and ahead.pool.free_slots == ahead.pool.slots
