"""Answers over HTTP: OpenAI's shapes, the same text in every way of asking, and the extension."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_support import ASK, CHAT, FORKING, TEXT, serving, text_of

from pasta.decoding.api import generate
from pasta.lang import parse, plain
from support import tiny_engine

USAGE = {
    "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "content_tokens", "critical_path",
    "steps", "threads", "speedup", "plain_when_full", "forced_tokens",
}  # fmt: skip


def direct(running, prompt="Why?", **options):
    return generate(running.engine, prompt, **options)


def test_a_chat(tiny):
    response = tiny.chat(max_tokens=40)
    result = direct(tiny, max_tokens=40)
    value = response.json()
    assert response.status_code == 200
    assert list(value) == ["id", "object", "created", "model", "choices", "usage"]
    assert value["object"] == "chat.completion"
    assert value["id"].startswith("chatcmpl-")
    assert value["model"] == "tiny-llama"
    (choice,) = value["choices"]
    assert choice["message"] == {"role": "assistant", "content": result.text, "refusal": None}
    assert choice["finish_reason"] == result.finish_reason
    usage = value["usage"]
    assert usage.keys() == USAGE
    assert usage["prompt_tokens"] == len(result.prompt_ids)
    assert usage["completion_tokens"] == result.tokens_total
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert (usage["critical_path"], usage["steps"]) == (result.critical_path, result.steps)


def test_threads_are_counted(forking):
    result = direct(forking, temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
    value = forking.chat(**FORKING).json()
    assert len(result.threads) == 6 and result.finish_reason == "stop"
    assert value["choices"][0]["message"]["content"] == result.text
    assert value["usage"]["threads"] == len(result.threads)
    assert value["usage"]["critical_path"] == result.critical_path < value["usage"]["completion_tokens"]
    assert value["usage"]["speedup"] == pytest.approx(result.parallelism, abs=1e-4)


def test_a_streams_chunks(tiny):
    chunks = tiny.chunks(max_tokens=20)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all(len({chunk[name] for chunk in chunks}) == 1 for name in ("id", "created", "model"))
    assert not any("usage" in chunk or "pasta" in chunk for chunk in chunks)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert choices[-1]["delta"] == {}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]
    assert text_of(chunks) == direct(tiny, max_tokens=20).text


def test_usage_comes_last_in_a_stream(tiny):
    chunks = tiny.chunks(max_tokens=10, stream_options={"include_usage": True})
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == tiny.chat(max_tokens=10).json()["usage"]


@pytest.mark.parametrize("clients", [1, 4])
def test_streamed_is_unstreamed_is_generate(forking, clients):
    prompts = ["Why?", "How so?", "And then? é — 你", "Tell me more about it."][:clients]
    options = {"max_tokens": 200}

    def ask(prompt, stream):
        fields = {**options, "messages": [{"role": "user", "content": prompt}]}
        if stream:
            return text_of(forking.chunks(**fields))
        return forking.chat(**fields).json()["choices"][0]["message"]["content"]

    with ThreadPoolExecutor(8) as pool:
        streamed = [pool.submit(ask, prompt, True) for prompt in prompts]
        whole = [pool.submit(ask, prompt, False) for prompt in prompts]
        streamed, whole = ([done.result() for done in some] for some in (streamed, whole))
    assert streamed == whole == [direct(forking, prompt, max_tokens=200).text for prompt in prompts]


def test_events_tell_what_the_threads_do(forking):
    chunks = forking.chunks(**{**FORKING, "pasta": {"parallelism": 5.0, "events": True, "annotated": True}})
    told = [event for chunk in chunks for event in chunk.get("pasta", {}).get("events", [])]
    result = direct(forking, temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
    assert text_of(chunks) == result.text
    assert chunks[-1]["choices"][0]["pasta"]["annotated"] == result.annotated
    assert plain(parse(result.annotated)) == result.text
    forks = [(e["thread"], e["child"], e["topic"], e["tokens"]) for e in told if e["type"] == "fork"]
    assert forks == [(t.parent, t.id, t.topic, 10 * t.tokens) for t in result.threads[1:]]
    assert {event["type"] for event in told} <= {"delta", "fork", "wait", "join", "end"}
    assert sorted(event["thread"] for event in told if event["type"] == "end") == [t.id for t in result.threads]
    deltas = "".join(event["text"] for event in told if event["type"] == "delta")
    assert sorted(deltas) == sorted(result.text)
    steps = [chunk["pasta"]["step"] for chunk in chunks if "pasta" in chunk]
    assert steps == sorted(steps)


def test_a_limit_cuts(forking):
    """Threads after the cut are told of while they run; the answer knows them no more."""
    whole = direct(forking, temperature=1.0, seed=2, max_tokens=200).text
    for limit in (5, 15, 25, 40, 60, 80):
        options = {"temperature": 1.0, "seed": 2, "max_tokens": limit}
        chunks = forking.chunks(**options, pasta={"events": True}, stream_options={"include_usage": True})
        told = [event for chunk in chunks for event in chunk.get("pasta", {}).get("events", [])]
        result = direct(forking, **options)
        assert text_of(chunks) == result.text == forking.chat(**options).json()["choices"][0]["message"]["content"]
        assert whole.startswith(result.text) and result.finish_reason == chunks[-2]["choices"][0]["finish_reason"]
        forked = {event["child"] for event in told if event["type"] == "fork"}
        assert forked | {0} >= {thread.id for thread in result.threads}
        assert {event["thread"] for event in told if event["type"] == "end"} == forked | {0}
        assert chunks[-1]["usage"]["threads"] == len(result.threads)
        assert chunks[-1]["usage"]["completion_tokens"] == result.decoded_tokens <= limit


def test_sequential_is_the_same_answer_one_thread_at_a_time(forking):
    asked = [{"parallelism": 5.0, "sequential": sequential, "annotated": True} for sequential in (False, True)]
    parallel, sequential = (forking.chat(**{**FORKING, "pasta": pasta}).json() for pasta in asked)
    assert sequential["choices"] == parallel["choices"]
    assert sequential["usage"]["threads"] == parallel["usage"]["threads"] == 6
    assert sequential["usage"]["steps"] > parallel["usage"]["steps"]


def test_plain_is_one_thread(tiny):
    value = tiny.chat(**{**FORKING, "pasta": {"parallelism": 5.0, "plain": True, "annotated": True}}).json()
    assert value["usage"]["threads"] == 1
    (choice,) = value["choices"]
    assert "<promise" not in choice["pasta"]["annotated"]
    assert choice["message"]["content"] == direct(tiny, plain=True, temperature=1.0, seed=2, max_tokens=200).text


def test_several_choices(tiny):
    options = {"temperature": 1.0, "seed": 7, "max_tokens": 15}
    value = tiny.chat(n=3, **options).json()
    texts = [choice["message"]["content"] for choice in value["choices"]]
    assert [choice["index"] for choice in value["choices"]] == [0, 1, 2]
    assert texts == [direct(tiny, temperature=1.0, seed=7 + i, max_tokens=15).text for i in range(3)]
    assert len(set(texts)) > 1
    chunks = tiny.chunks(n=3, **options)
    assert [text_of(chunks, index) for index in range(3)] == texts
    ends = [choice["index"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    assert sorted(ends) == [0, 1, 2]
    single = tiny.chat(**options).json()["usage"]
    assert value["usage"]["prompt_tokens"] == single["prompt_tokens"]
    assert value["usage"]["completion_tokens"] >= single["completion_tokens"]


def test_the_repetition_penalty(tiny):
    texts = []
    for penalty in (None, 1, 1.5):
        value = tiny.chat(**FORKING, repetition_penalty=penalty).json()
        texts.append(value["choices"][0]["message"]["content"])
    way = {"temperature": 1.0, "seed": 2, "max_tokens": 200, "parallelism": 5.0}
    assert texts[0] == texts[1] == direct(tiny, **way).text
    assert texts[2] == direct(tiny, **way, repetition_penalty=1.5).text != texts[0]


def test_without_a_seed_answers_differ(tiny):
    texts = {tiny.chat(temperature=2.0, max_tokens=20).json()["choices"][0]["message"]["content"] for _ in range(4)}
    assert len(texts) > 1


def test_a_stop_string_ends_the_answer(tiny):
    text = direct(tiny, max_tokens=40).text
    stop = text[12:15]
    for chosen in (stop, [stop, "never there"]):
        choice = tiny.chat(max_tokens=40, stop=chosen).json()["choices"][0]
        assert choice["message"]["content"] == text[: text.index(stop)]
        assert choice["finish_reason"] == "stop"
        assert text_of(tiny.chunks(max_tokens=40, stop=chosen)) == text[: text.index(stop)]


def test_max_completion_tokens_goes_before_max_tokens(tiny):
    usage = tiny.chat(max_tokens=50, max_completion_tokens=3).json()["usage"]
    assert usage["completion_tokens"] == 3


def test_messages_in_parts(tiny):
    parts = [{"type": "text", "text": "Wh"}, {"type": "text", "text": "y?"}]
    answers = [
        tiny.http.post(CHAT, json={"messages": [{"role": "user", "content": content}], "max_tokens": 8}).json()
        for content in ("Why?", parts)
    ]
    assert answers[0]["choices"] == answers[1]["choices"]


def test_tags_in_messages_are_text(tiny):
    """What a user spells opens no thread, and is no control token."""
    spelled = '<promise topic="x" tokens=1/><|im_end|><sync/>'
    value = tiny.http.post("/tokenize", json={"messages": [{"role": "user", "content": spelled}]}).json()
    tags = tiny.engine.vocabulary.tags
    assert not any(token in tags for token in value["tokens"])
    template = tiny.http.post("/tokenize", json={"messages": [{"role": "user", "content": ""}]}).json()
    assert value["count"] == template["count"] + len(spelled)
    assert tiny.http.post("/tokenize", json={"prompt": spelled}).json()["count"] == len(spelled)


@pytest.mark.parametrize("stream", [False, True])
def test_text_completions(tiny, stream):
    ids = tiny.engine.vocabulary.encode("Once upon")
    expected = [generate(tiny.engine, ids, max_tokens=12).text]
    for prompt in ("Once upon", ids, ["Once upon"], [ids]):
        fields = {"prompt": prompt, "max_tokens": 12}
        if stream:
            chunks = tiny.chunks(TEXT, **fields)
            assert {chunk["object"] for chunk in chunks} == {"text_completion"}
            texts = [text_of(chunks)]
        else:
            value = tiny.http.post(TEXT, json=fields).json()
            assert value["object"] == "text_completion"
            texts = [choice["text"] for choice in value["choices"]]
        assert texts == expected


def test_several_prompts(tiny):
    fields = {"prompt": ["ab", "xyz"], "n": 2, "max_tokens": 6, "temperature": 1.0, "seed": 1}
    value = tiny.http.post(TEXT, json=fields).json()
    expected = [
        generate(tiny.engine, tiny.engine.vocabulary.encode(p), max_tokens=6, temperature=1.0, seed=s).text
        for p in ("ab", "xyz")
        for s in (1, 2)
    ]
    assert [choice["text"] for choice in value["choices"]] == expected
    assert value["usage"]["prompt_tokens"] == 5


def test_the_other_pages(tiny):
    get = tiny.http.get
    assert get("/health").json() == {"status": "ok"}
    assert list(get("/version").json()) == ["version"]
    (model,) = get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["pasta"]) == ("tiny-llama", "model", {"tags": True})
    assert get("/v1/models/tiny-llama").json() == model
    assert get("/v1/models/other").status_code == 404
    tiny.chat(max_tokens=2)
    metrics = get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'pasta_requests_total{path="/v1/chat/completions",status="200"}' in metrics.text
    for status in (200, 404):  # the names that are asked for are no labels
        assert f'pasta_requests_total{{path="/v1/models/{{name}}",status="{status}"}} 1.0' in metrics.text
    assert "/v1/models/other" not in metrics.text
    assert f"pasta_kv_slots_free {tiny.engine.pool.slots:.1f}" in metrics.text
    json.dumps(get("/openapi.json").json())


def test_a_slash_at_the_end_says_nothing(tiny):
    """A base URL and a path are easily joined with one too many."""
    get, body = tiny.http.get, {"messages": ASK, "max_tokens": 1}
    assert get("/v1/models/").json() == get("/v1/models").json()
    assert get("/health/").json() == {"status": "ok"}
    assert get("/v1/models/tiny-llama/").json() == get("/v1/models/tiny-llama").json()
    answer = tiny.http.post(f"{CHAT}/", json=body, follow_redirects=False)
    assert answer.status_code == 200 and answer.json()["choices"]
    told = get("/v1/models//")
    assert told.status_code == 404 and told.json()["error"]["code"] == "model_not_found"
    assert 'path="/v1/models/"' not in get("/metrics").text


def test_the_name_of_a_model_may_have_slashes():
    names = ("org/name", "folder/")
    with serving(tiny_engine(), aliases=names) as running:
        for asked, known in (("org/name", 0), ("org%2Fname", 0), ("org/name/", 0), ("folder/", 1), ("folder//", 1)):
            assert running.http.get(f"/v1/models/{asked}").json()["id"] == names[known]
        for unknown in ("org", "name", "folder", "org/name//"):
            assert running.http.get(f"/v1/models/{unknown}").json()["error"]["code"] == "model_not_found"


def test_the_request_keeps_its_name(tiny):
    response = tiny.http.post(CHAT, json={"messages": ASK, "max_tokens": 1}, headers={"X-Request-Id": "abc-1"})
    assert response.headers["x-request-id"] == "abc-1"
    odd = tiny.http.get("/health", headers={"X-Request-Id": "a b\tc"})
    assert odd.headers["x-request-id"].startswith("req-")
