"""Driving an engine: what is streamed is what is returned, limits and stop strings hold, nothing leaks."""

import asyncio
import json

import numpy as np
import pytest
import torch

from pasta.core.params import SamplingParams
from pasta.core.tree import spell
from pasta.decoding.api import agenerate, generate, generate_all, replay, stream
from pasta.decoding.events import Ended, Finished, Forked, Joined, TextWritten, TokenPut
from pasta.decoding.prompts import make_request
from pasta.engine.base import OutOfSlots
from pasta.errors import UsageError
from pasta.lang import check, parse, plain, print_response
from support import Stepper, tiny_engine

FLAT = (
    'Here:<promise topic="one" tokens=2/><async> One — é.</async><promise topic="two" tokens=2/><async> Two is.</async>'
    "<sync/> Done."
)
NESTED = (
    'A<promise topic="out" tokens=5/><async>b<promise topic="in" tokens=2/><async>cd</async>e<sync/>f'
    '<promise topic="last" tokens=1/><async>ghij</async></async>k<promise topic="beside" tokens=2/><async>lmn</async>o'
)


@pytest.fixture(scope="module")
def engine():
    return tiny_engine()


def run(engine, text, **options):
    return replay(engine, "Why?", spell(parse(text), engine.vocabulary), **options)


@pytest.mark.parametrize("text", [FLAT, NESTED, "plain text", FLAT + NESTED])
@pytest.mark.parametrize("max_threads", [1, 2, 16])
def test_a_replay_gives_the_text_back(engine, text, max_threads):
    result = run(engine, text, max_threads=max_threads)
    assert result.annotated == text
    assert result.text == plain(parse(text))
    assert "".join(moment.text for moment in result.outputs) == result.text
    assert result.finish_reason == "stop"
    assert engine.pool.free_slots == engine.pool.slots


def test_deltas_are_each_threads_text(engine):
    result = run(engine, NESTED)
    texts = dict.fromkeys(range(len(result.threads)), "")
    for moment in result.outputs:
        for event in moment.events:
            if isinstance(event, TextWritten):
                texts[event.thread] += event.text
    assert list(texts.values()) == ["Ako", "bef", "cd", "lmn", "ghij"]  # in the order of their forks


@pytest.mark.parametrize(("text", "after"), [(FLAT, 1), (NESTED, 0)])
def test_no_step_is_off_the_critical_path(engine, text, after):
    """When nothing queues. One more decodes the end, unless the main thread's end was decoded while others ran."""
    result = run(engine, text)
    assert result.steps == result.critical_path + after


def test_a_conversation_is_not_raw_and_a_replay_needs_a_script(engine):
    with pytest.raises(UsageError, match="raw takes a text to the letter"):
        make_request(engine, [{"role": "user", "content": "Why?"}], raw=True)
    with pytest.raises(UsageError, match="the response is None, expected tokens of this model's"):
        replay(engine, "Why?", None)


@pytest.mark.parametrize("text", [FLAT, NESTED])
def test_a_cut_answer_has_no_chain_longer_than_its_tokens(engine, text):
    """The tag that closes a block which a limit cut is nobody's, and took no step."""
    whole = run(engine, text)
    for limit in range(1, whole.decoded_tokens):
        result = run(engine, text, max_tokens=limit)
        assert result.critical_path <= min(result.decoded_tokens, result.steps) <= limit


def test_the_events_tell_each_threads_life(engine):
    result = run(engine, NESTED)
    events = [event for moment in result.outputs for event in moment.events]
    assert [event.child for event in events if isinstance(event, Forked)] == [1, 2, 3, 4]
    assert sorted(event.thread for event in events if isinstance(event, Ended)) == [0, 1, 2, 3, 4]
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, TokenPut) for event in events) == result.tokens_total
    joins = [event for event in events if isinstance(event, Joined)]
    assert [(join.thread, join.children) for join in joins] == [(1, (2,))]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (" One", "Here:"),  # at the start of a child
        (":\x20O", "Here"),  # across a fork
        ("é. T", "Here: One — "),  # across two children
        ("o is", "Here: One — é. Tw"),  # inside the second
        (". Done", "Here: One — é. Two is"),  # across a join
        (["Done.", "Two"], "Here: One — é. "),
        ("—", "Here: One "),  # one character, three tokens
        ("never", "Here: One — é. Two is. Done."),
        ("", "Here: One — é. Two is. Done."),
    ],
)
def test_stop_strings(engine, stop, expected):
    result = run(engine, FLAT, stop=stop)
    assert result.text == expected
    assert "".join(moment.text for moment in result.outputs) == expected
    assert result.finish_reason == "stop"
    assert not [d for d in check(result.annotated.encode()) if d.is_error]
    assert engine.pool.free_slots == engine.pool.slots


def test_a_stop_string_leaves_no_more_than_the_limit(engine):
    """Threads that are read after it were halted by the limit, while the one that is read first went on."""
    blocks = ("a" * 39 + "z", "b" * 40)
    text = "".join(f'<promise topic="t" tokens=1/><async>{block}</async>' for block in blocks)
    result = run(engine, text, stop="z", max_tokens=50)
    assert result.text == "a" * 39 and result.finish_reason == "stop"
    assert result.decoded_tokens <= 50 and result.dropped_tokens > 0


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 3, "top_p": 0.9}, {"parallelism": 8.0}])
def test_the_stream_is_the_answer(engine, sampling):
    options = {"max_tokens": 60, "max_thread_tokens": 20, **sampling}
    result = generate(engine, "Why?", **options)
    assert "".join(moment.text for moment in stream(engine, "Why?", **options)) == result.text
    # A character that a limit halves stands in the tokens, but not in the text.
    assert result.text.rstrip("\ufffd") == plain(parse(result.annotated)).rstrip("\ufffd")
    assert print_response(parse(result.annotated)) == result.annotated


def test_many_at_once_are_as_one_by_one(engine):
    prompts = ["Why?", "How so?", "And then?"]
    options = {"max_tokens": 30, "temperature": 0.8, "seed": 5}
    together = generate_all(engine, prompts, **options)
    assert [r.tree for r in together] == [generate(engine, prompt, **options).tree for prompt in prompts]


def test_leaving_a_stream_frees_its_slots(engine):
    moments = stream(engine, "Why?", max_tokens=50)
    next(moments)
    assert engine.pool.free_slots < engine.pool.slots
    moments.close()
    assert engine.pool.free_slots == engine.pool.slots


def test_a_loop_over_a_stream_that_was_left_may_go_on(engine):
    whole = generate(engine, "Why?", max_tokens=12, plain=True).text
    moments = stream(engine, "Why?", max_tokens=12, plain=True)
    begun = next(iter(moments)).text
    for moment in moments:
        begun += moment.text
        break
    assert begun + "".join(moment.text for moment in moments) == whole == moments.result.text


def test_a_stream_that_was_closed_at_once_has_no_result(engine):
    with stream(engine, "Why?", max_tokens=2000) as moments:
        pass
    with pytest.raises(UsageError, match="was closed before its answer began"):
        _ = moments.result


def test_a_cancelled_request_leaves_the_others_alone(engine):
    decoder = Stepper(engine)
    first, second = (decoder.submit(make_request(engine, p, max_tokens=20)) for p in ("Why?", "How so?"))
    decoder.step()
    decoder.abort(first)
    while decoder.busy:
        decoder.step()
    assert second.result().tree == generate(engine, "How so?", max_tokens=20).tree
    assert engine.pool.free_slots == engine.pool.slots


def test_an_answer_that_outgrows_the_pool_is_cut():
    small, large = tiny_engine(slots=128), tiny_engine()
    whole = generate(large, "Why?", max_tokens=200, parallelism=3.0)
    cut = generate(small, "Why?", max_tokens=200, parallelism=3.0)
    assert cut.finish_reason == "length" and 0 < len(cut.text) < len(whole.text)
    assert whole.text.startswith(cut.text)
    assert small.pool.free_slots == small.pool.slots


def test_a_prompt_that_outgrows_the_pool_is_refused():
    engine = tiny_engine(slots=64)
    with pytest.raises(OutOfSlots, match="slots"):
        generate(engine, "Why? " * 40)
    assert engine.pool.free_slots == engine.pool.slots
    assert generate(engine, "Why?", max_tokens=2).text


def test_the_json_contract(engine):
    result = run(engine, NESTED)
    value = json.loads(json.dumps(result.to_dict()))
    assert value.keys() >= {
        "text", "annotated", "prompt_ids", "threads", "tokens_total", "critical_path", "steps", "wall_s",
        "finish_reason", "model",
    }  # fmt: skip
    for thread in value["threads"]:
        assert list(thread) == [
            "id", "parent", "topic", "tokens", "token_ids", "position_ids", "start_step", "end_step",
        ]  # fmt: skip
        assert len(thread["token_ids"]) == len(thread["position_ids"])
    assert [(t["id"], t["parent"], t["topic"], t["tokens"]) for t in value["threads"]] == [
        (0, None, "", 0), (1, 0, "out", 5), (2, 1, "in", 2), (3, 0, "beside", 2), (4, 1, "last", 1),
    ]  # fmt: skip
    assert sum(len(thread["token_ids"]) for thread in value["threads"]) == value["tokens_total"]


@pytest.mark.parametrize("prompt", ["", "  \n", [], [{"role": "user", "content": "x" * 300}]])
def test_prompts_that_cannot_be_answered(prompt):
    engine = tiny_engine(context=256)
    with pytest.raises(UsageError, match=r"prompt is (empty|\d+ tokens long)"):
        generate(engine, prompt)


@pytest.mark.parametrize("token", [-1, 10**6, "72", 1.5, True])
def test_token_ids_that_are_none_of_the_models(engine, token):
    with pytest.raises(UsageError, match=r"the prompt's (token|item) 1 is "):
        generate(engine, [72, token])


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        (None, "the prompt is None"),
        (5, "the prompt is 5"),
        (b"Why?", "the prompt is b'Why"),
        ({"role": "user", "content": "Why?"}, "the prompt is {'role'"),
        ([{"role": "user"}], r"messages\[0\] is {'role': 'user'}"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], r"messages\[1\] is {'content': 'b'}"),
        ([{"role": "user", "content": None}], r"messages\[0\] is"),
        ("half \ud800", r"character 5 is half of one \('\\ud800'\)"),
    ],
)
def test_prompts_that_are_none(engine, prompt, told):
    with pytest.raises(UsageError, match=told):
        generate(engine, prompt)


def test_ids_may_come_in_an_array(engine):
    ids = [72, 105]
    expected = generate(engine, ids, max_tokens=4).text
    assert generate(engine, np.array(ids), max_tokens=4).text == expected
    assert generate(engine, list(np.array(ids)), max_tokens=4).text == expected
    for rows in (np.array([ids, ids]), torch.tensor([ids, ids])):  # as tokenizers return them
        assert [result.text for result in generate(engine, rows, max_tokens=4)] == [expected, expected]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_tokens": "3"}, "max_tokens is '3', expected a whole number"),
        ({"max_tokens": 3.5}, "max_tokens is 3.5, expected a whole number"),
        ({"seed": "a"}, "seed is 'a', expected a whole number"),
        ({"temperature": "hot"}, "temperature is 'hot', expected a number"),
        ({"temperature": None}, "temperature is None, expected a number"),
        ({"logprobs": True}, "logprobs is True, expected a whole number"),
        ({"positions": "fixed:" + "9" * 5000}, "unknown position scheme"),
        ({"temperature": False}, "temperature is False, expected a number"),
        ({"sequential": "no"}, "sequential is 'no', expected True or False"),
        ({"drafts": 3}, "drafts is 3, expected True or False"),
        ({"stop": [5]}, "stop has 5, expected texts"),
        ({"stop": 5}, "stop is 5, expected texts, in a list"),
        ({"stop_token_ids": 5}, "stop_token_ids is 5, expected token ids, in a list"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids has 'a', expected token ids"),
        ({"logit_bias": {"x": 1}}, "logit_bias is {'x': 1}, expected a number for each token id"),
        ({"logit_bias": [3]}, r"logit_bias is \[3\]"),
        ({"logit_bias": {float("inf"): 1}}, "logit_bias is {inf: 1}, expected a number for each token id"),
        ({"logit_bias": {1.7: 1}}, "logit_bias is {1.7: 1}"),
        ({"logit_bias": {True: 1}}, "logit_bias is {True: 1}"),
        ({"stop_token_ids": [True]}, "stop_token_ids has True, expected token ids"),
    ],
)
def test_options_of_the_wrong_type(options, told):
    with pytest.raises(UsageError, match=told):
        SamplingParams(**options)


def test_parameters_and_positions_of_the_wrong_type(engine):
    with pytest.raises(UsageError, match=r"params is {'max_tokens': 3}, expected SamplingParams \(or pass"):
        generate(engine, "Why?", {"max_tokens": 3})
    with pytest.raises(UsageError, match="positions is 5, expected a scheme"):
        generate(engine, "Why?", positions=5)


@pytest.mark.parametrize("tree", ["Because.", 5, ("a",), (10**6,), (-1,)])
def test_a_response_that_is_none_of_the_models_ends_nobody_elses_answer(engine, tree):
    with stream(engine, "Why?", max_tokens=9) as other:
        next(other)
        with pytest.raises(UsageError, match=r"the response is .*, expected tokens of this model's"):
            replay(engine, "Why?", tree)
        assert len(other.result.threads[0].token_ids) == 9


def test_a_salt_that_is_no_text(engine):
    with pytest.raises(UsageError, match=r"cache_salt is \['a'\], expected a text"):
        generate(engine, "Why?", cache_salt=["a"])


def test_options_in_the_types_of_others():
    params = SamplingParams(max_tokens=np.int64(3), temperature=np.float32(0.5), logit_bias={np.int32(7): -1, "8": 1})
    assert (params.max_tokens, params.logit_bias) == (3, ((7, -1.0), (8, 1.0)))
    assert SamplingParams(stop=None, stop_token_ids=None) == SamplingParams()


@pytest.mark.parametrize("options", [{"logit_bias": {10**6: 1.0}}, {"stop_token_ids": [10**6]}])
def test_options_for_tokens_that_are_none_of_the_models(engine, options):
    with pytest.raises(UsageError, match=f"{next(iter(options))} has the token 1000000, expected 0 to "):
        generate(engine, "Why?", **options)


def test_a_stream_is_of_one_answer(engine):
    with pytest.raises(UsageError, match="stream takes one prompt, and this is a list of 2"):
        stream(engine, ["Why?", "How?"])
    with pytest.raises(UsageError, match="n is 2, but stream gives one answer"):
        stream(engine, "Why?", n=2)
    with pytest.raises(UsageError, match="agenerate takes one prompt, and this is a list of 2"):
        asyncio.run(agenerate(engine, ["Why?", "How?"]))


def test_what_is_no_model_and_what_is_no_list(engine):
    for model in (None, "smollm2-135m"):
        with pytest.raises(UsageError, match="expected a loaded one"):
            generate(model, "Why?")
    for prompts in ("Why?", 5, None, {"role": "user"}):
        with pytest.raises(UsageError, match="takes a list of prompts"):
            generate_all(engine, prompts)


@pytest.mark.parametrize("prompt", [{"Why?", "How?"}, {1: 2}.keys(), np.array(5), bytearray(b"Why?"), memoryview(b"a")])
def test_what_is_no_prompt_though_it_has_a_length(engine, prompt):
    for ask in (generate, stream):
        with pytest.raises(UsageError, match=r"the prompt is .* \(expected a question"):
            ask(engine, prompt)


@pytest.mark.parametrize("text", ["a日b", 'a<promise topic="x" tokens=1/><async>日</async>日'])
def test_text_and_annotated_end_alike_wherever_a_limit_cuts(engine, text):
    """Bytes are tokens: most cuts fall inside a character."""
    tree = spell(parse(text), engine.vocabulary)
    for most in range(1, 12):
        result = replay(engine, "Why?", tree, max_tokens=most)
        assert plain(parse(result.annotated)) == result.text == "".join(output.text for output in result.outputs)
        assert "\ufffd" not in result.annotated


@pytest.mark.parametrize("bad", [{"temperature": -1.0}, {"top_p": 2.0}, {"max_tokens": 0}, {"positions": "odd"}])
def test_bad_options(engine, bad):
    with pytest.raises(UsageError):
        generate(engine, "Why?", **bad)


def test_an_unwatched_run_gives_the_same_answers_and_no_moments() -> None:
    engine = tiny_engine()
    results = []
    for watched in (True, False):
        decoder = Stepper(engine)
        requests = [make_request(engine, f"Say {n}", max_tokens=40, temperature=1.0) for n in range(3)]
        jobs = [decoder.submit(request, watched=watched) for request in requests]
        told = 0
        while decoder.busy:
            told += sum(output is not None for _, output in decoder.step())
        assert bool(told) == watched
        results.append([(job.result().annotated, job.result().critical_path) for job in jobs])
    assert results[0] == results[1]
    assert engine.pool.free_slots == engine.pool.slots
