"""How methods are run over an engine: who is taken in when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pasta.decoding.prompts import make_request
from pasta.decoding.runner import Runner
from pasta.errors import PastaError
from pasta.eval.asking import ask_all, ask_one
from pasta.eval.methods import Method, as_trained
from support import tiny_engine


def answers(engine, lengths: list[int]) -> list[tuple[int, Callable[[], Method]]]:
    def maker(tokens: int) -> Callable[[], Method]:
        return lambda: as_trained(engine, "List lakes.", tokens, "plain", 0.0)

    return [(number, maker(tokens)) for number, tokens in enumerate(lengths)]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each submission held."""
    counts: list[int] = []
    submit = Runner.submit

    def counting(runner, requests, *rest, **options):
        counts.append(len(requests))
        return submit(runner, requests, *rest, **options)

    monkeypatch.setattr(Runner, "submit", counting)
    return counts


def test_bulk_work_is_taken_in_together(submitted: list[int]) -> None:
    engine = tiny_engine()
    outcomes = dict(ask_all(engine, answers(engine, [4] * 80), 32, watched=False))
    assert sorted(outcomes) == [*range(80)] and all(outcome.answer for outcome in outcomes.values())
    assert submitted[0] == 32, "all places at once"
    assert sum(submitted) == 80 and all(count >= 2 for count in submitted[1:-1]), "a sixteenth of them at the least"


def test_who_is_watched_is_taken_in_as_soon_as_there_is_room(submitted: list[int]) -> None:
    engine = tiny_engine()
    assert len(dict(ask_all(engine, answers(engine, [1 + n % 7 for n in range(40)]), 32))) == 40
    assert submitted[0] == 32 and sum(submitted) == 40


def test_one_that_cannot_be_asked_keeps_nobody_else_from_an_answer(submitted: list[int]) -> None:
    engine = tiny_engine()

    def failing() -> Method:
        raise PastaError("no such prompt")
        yield []

    def refused() -> Method:
        raise PastaError("no such method")

    methods = answers(engine, [3, 3, 3])
    methods[0] = (0, failing)
    methods[1] = (1, refused)
    outcomes = dict(ask_all(engine, methods, 4, watched=False))
    assert {key: str(outcome.error) for key, outcome in outcomes.items() if outcome.error} == {
        0: "no such prompt",
        1: "no such method",
    }
    assert outcomes[2].answer is not None and submitted == [1]


def test_a_method_that_asks_in_turns_gets_the_results_of_its_own() -> None:
    engine = tiny_engine()

    def in_turns(first: int, then: int) -> Method:
        begun = yield [make_request(engine, "One.", max_tokens=first, plain=True)]
        more = yield [make_request(engine, "Two.", max_tokens=then, plain=True)] * 2
        assert [result.tokens_total for result in (*begun, *more)] == [first, then, then]
        method = as_trained(engine, "Three.", first + then, "plain", 0.0)
        return (yield from method)

    methods = [(n, lambda n=n: in_turns(1 + n % 5, 6 - n % 5)) for n in range(20)]
    assert all(outcome.answer.tokens == 7 for _, outcome in ask_all(engine, methods, 8, watched=False))
    assert ask_one(engine, in_turns(2, 3))[0].tokens == 5
