"""Mode `checked`: the sequential answer to the letter, in no more steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_structured_decoding import PERSON
from test_structured_oracle import SCHEMAS as ORACLE
from test_structured_properties import SCHEMAS

from pasta.decoding.api import run
from pasta.structured import StructuredResult, make_structured_request
from pasta.structured.checked import CheckedInterpreter
from pasta.structured.extract import extract_stream
from support import PilotedEngine, Stepper, tiny_engine


@cache
def engine() -> PilotedEngine:
    return tiny_engine("llama", tags=False)


def decode(schema: Any, mode: str, **options: Any) -> StructuredResult:
    options = {"max_tokens": 2000, **options}
    [result] = run(engine(), [make_structured_request(engine(), "Who?", schema, mode=mode, **options)], watched=True)
    assert isinstance(result, StructuredResult)
    assert engine().pool.free_slots == engine().pool.slots
    return result


def the_same(one: StructuredResult, other: StructuredResult) -> None:
    """But for threads and steps."""
    assert one.text == other.text
    assert [(field.pointer, field.text, field.tokens, field.closed) for field in one.fields] == [
        (field.pointer, field.text, field.tokens, field.closed) for field in other.fields
    ]
    assert one.tree == other.tree and one.decoded_tokens == other.decoded_tokens
    assert one.finish_reason == other.finish_reason and one.missing == other.missing
    assert "".join(output.text for output in one.outputs) == "".join(output.text for output in other.outputs)


@settings(max_examples=60, deadline=None)
@given(schema=SCHEMAS, width=st.sampled_from([1, 2, 16]))
def test_it_is_the_sequential_answer(schema: dict[str, Any], width: int) -> None:
    sequential, checked = (decode(schema, mode, max_threads=width) for mode in ("sequential", "checked"))
    the_same(checked, sequential)
    assert checked.steps <= sequential.steps


@settings(max_examples=60, deadline=None)
@given(
    schema=SCHEMAS,
    budget=st.integers(1, 30),
    own=st.sampled_from([None, 1, 2, 5]),
    at_limit=st.sampled_from(["cut", "close"]),
)
def test_limits_are_those_of_sequential_decoding(
    schema: dict[str, Any], budget: int, own: int | None, at_limit: str
) -> None:
    options = {"max_tokens": budget, "max_thread_tokens": own, "at_limit": at_limit}
    the_same(decode(schema, "checked", **options), decode(schema, "sequential", **options))


@pytest.mark.parametrize("name", ORACLE)
def test_it_is_what_the_dense_pass_checks(name: str) -> None:
    """Token for token: `test_structured_oracle.py` holds the sequential answers to one dense pass."""
    the_same(*(decode(ORACLE[name], mode) for mode in ("checked", "sequential")))


def test_drawn_answers_are_decoded_one_after_another() -> None:
    options = {"temperature": 1.0, "seed": 5}
    checked, sequential = (decode(PERSON, mode, **options) for mode in ("checked", "sequential"))
    the_same(checked, sequential)
    assert checked.steps == sequential.steps


def test_guesses_cost_tokens_and_save_steps() -> None:
    checked, sequential = (decode(PERSON, mode) for mode in ("checked", "sequential"))
    assert checked.steps < sequential.steps
    assert checked.dropped_tokens > sequential.dropped_tokens == 0


def test_a_request_that_loses_its_place_says_the_same() -> None:
    schema = {**PERSON, "properties": {**PERSON["properties"], "more": PERSON["properties"]["home"]}}
    whole = decode(schema, "sequential")
    own = tiny_engine("llama", tags=False)
    own.chunk = 4096  # all of it is computed again in one step
    for every in (1, 2, 3):
        stepper = Stepper(own)
        state = stepper.submit(make_structured_request(own, "Who?", schema, mode="checked", max_tokens=2000))
        assert isinstance(state.interpreter, CheckedInterpreter)
        steps = awaited = 0
        while not state.finished:
            stepper.step()
            steps += 1
            awaited = max([awaited, *(thread.awaits for thread in state.interpreter.threads if thread.decodes)])
            if steps % every == 0 and not state.finished:
                stepper._preempt(state)
        assert stepper.preemptions > 3 and awaited > 2  # guesses were under way
        assert state.result().text == whole.text


def test_many_at_once_in_a_small_pool_say_the_same() -> None:
    narrow = tiny_engine("llama", tags=False, slots=768)
    prompts = ["Who?", "Why?", "What for?", "When?"]
    answers = {
        mode: [each.text for each in run(narrow, [request_of(narrow, prompt, mode) for prompt in prompts])]
        for mode in ("sequential", "checked")
    }
    assert answers["checked"] == answers["sequential"]
    assert narrow.pool.free_slots == narrow.pool.slots


def request_of(engine: PilotedEngine, prompt: str, mode: str) -> Any:
    return make_structured_request(engine, prompt, PERSON, mode=mode, max_tokens=2000)


def test_steps_of_bounded_size_bring_guesses_back_in_parts() -> None:
    small = tiny_engine("llama", tags=False)
    small.chunk = 7
    texts = {mode: run(small, [request_of(small, "Who?", mode)])[0].text for mode in ("sequential", "checked")}
    assert texts["checked"] == texts["sequential"]


def test_few_segments_leave_few_guesses() -> None:
    few = tiny_engine("llama", tags=False)
    few.max_segments = 2 * 3 * len(PERSON["properties"]) + 16
    texts = {mode: run(few, [request_of(few, "Who?", mode)])[0].text for mode in ("sequential", "checked")}
    assert texts["checked"] == texts["sequential"]


def test_fields_are_told_once_each_when_they_are_certain() -> None:
    answer = extract_stream(engine(), "Who?", PERSON, mode="checked", max_tokens=2000)
    told = [(field.pointer, field.text) for field in answer]
    found = {field.pointer: field.text for field in answer.result.fields}
    assert len(told) == len(found) and dict(told) == found
    threads = {field.thread for field in answer.result.fields if field.thread is not None}
    assert threads < {thread.id for thread in answer.result.threads}
