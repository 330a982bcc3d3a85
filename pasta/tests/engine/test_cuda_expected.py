"""Children that are expected before a promise is read: forks take no step, and what comes to nothing is not seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from test_cuda_following import PROMPTS, Make, make  # noqa: F401  (a fixture)

from pasta.core.tree import Block, Tree
from pasta.decoding.api import replay
from pasta.engine.cuda.request import EXPECTING, CudaRequest


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """One that decodes step by step, and one that goes ahead."""
    made: Make = request.getfixturevalue("make")
    yield made(ahead=False), made()


def forking(engine: Any, topics: tuple[str, ...], syncs: bool) -> Tree:
    """A response with a promise for each topic."""
    tags, encode = engine.vocabulary.tags, engine.vocabulary.encode
    items: list[Any] = [*encode("red")]
    for number, topic in enumerate(topics):
        body = (tags.open, *encode("blue cat " * (number + 2)), tags.close)
        items += [tags.promise, *encode(topic), tags.of_tens(2), Block(body)]
    return (*items, *([tags.sync] if syncs else []), *encode("dog"))


@pytest.mark.parametrize("topics", [("a",), ("a", "b", "c"), ("cats and dogs", "b", "a dog")], ids=str)
def test_forks_take_no_step_more(engines: tuple[Any, Any], topics: tuple[str, ...]) -> None:
    found = []
    for engine in engines:
        response = forking(engine, topics, syncs=False)
        answer = replay(engine, PROMPTS[0], response)
        assert answer.tree == response
        found.append(answer.steps)
    assert found[0] == found[1]
    assert engines[1].counts[True] > 5


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
    assert segments[:-1] == [engine.max_segments] * (len(rows) - 1)  # nobody's
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


def test_an_answer_of_very_many_segments_expects_no_more(engines: tuple[Any, Any]) -> None:
    from pasta.core.grammar import Expect
    from pasta.core.params import SamplingParams

    _, engine = engines
    main = engine.open(list(range(5, 40)), Expect.TEXT, SamplingParams())
    while len(main.request.table.sees) <= EXPECTING:
        engine.fork(main)
    before = len(main.request.tokens)
    main.request.expect_child(main, engine.vocabulary.tags.open, 36, 2)
    assert len(main.request.tokens) == before and not main.request.expected
    engine.close(main)
