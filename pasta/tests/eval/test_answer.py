"""An answer as a row: whose text is whose, and when each thread decodes."""

from __future__ import annotations

from pasta.core.tree import spell
from pasta.decoding.api import replay
from pasta.decoding.events import TokenPut
from pasta.eval.answer import describe, in_runs, of_result
from pasta.lang import parse
from support import tiny_engine

ANNOTATED = (
    'Two. <promise topic="red" tokens=1/><async>Red is red.</async>'
    '<promise topic="nest" tokens=2/><async>Out <promise topic="in" tokens=1/><async>inner</async><sync/> end</async>'
    "<sync/> Done."
)


def answer_of(annotated: str):
    engine = tiny_engine()
    result = replay(engine, "Say it.", spell(parse(annotated), engine.vocabulary))
    return result, of_result(result, engine.vocabulary.tags), engine


def test_parts_are_the_text_and_know_their_thread() -> None:
    result, answer, _ = answer_of(ANNOTATED)
    assert answer.text == result.text == "Two. Red is red.Out inner end Done."
    assert answer.parts == ((0, "Two. "), (1, "Red is red."), (2, "Out "), (3, "inner"), (2, " end"), (0, " Done."))
    assert [line.topic for line in answer.threads] == ["", "red", "nest", "in"]


def test_the_timeline_ends_with_the_critical_path_and_shows_waits() -> None:
    result, answer, _ = answer_of(ANNOTATED)
    ends = [line.runs[-1][1] for line in answer.threads]
    assert max(ends) == answer.critical_path == result.critical_path
    _, after = answer.threads[0].runs
    assert after[0] >= max(ends[1:3])  # the main thread went on when its children were done
    for line, thread in zip(answer.threads, result.threads, strict=True):
        decoded = len(thread.token_ids) - (thread.parent is not None)  # <async> takes no step
        assert sum(last - first + 1 for first, last in line.runs) == decoded


def test_the_timeline_is_that_of_the_clock() -> None:
    """The steps counted over the tree are those in which the engine really put the tokens (its first is number 0)."""
    result, answer, _ = answer_of(ANNOTATED)
    for number, line in enumerate(answer.threads):
        put = [
            moment.step + 1
            for moment in result.outputs
            for event in moment.events
            if isinstance(event, TokenPut) and event.thread == number and not event.inserted
        ]
        assert [step for first, last in line.runs for step in range(first, last + 1)] == put


def test_a_row_holds_the_figures() -> None:
    _, answer, engine = answer_of(ANNOTATED)
    row = describe(answer, engine.positions)
    assert row["errors"] == [] and row["syncs"] == 2
    lengths = [engine.positions.length(line.tokens) for line in answer.threads[1:]]
    assert row["length_errors"] == [lengths[0] - 1, lengths[1] - 2, lengths[2] - 1]
    assert row["text"] == answer.text and len(row["threads"]) == 4


def test_runs() -> None:
    assert in_runs([1, 2, 3, 7, 8, 12]) == ((1, 3), (7, 8), (12, 12))
    assert in_runs([]) == ()
