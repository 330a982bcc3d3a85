"""The `openai` package as a client: what it parses and raises is what its users rely on."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_support import ASK, FORKING, serving

from pasta.decoding.api import generate
from support import Slow, tiny_engine, until

openai = pytest.importorskip("openai")
MODEL = "tiny-llama"


def test_chat(tiny, client):
    answer = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=20, temperature=0)
    result = generate(tiny.engine, "Why?", max_tokens=20)
    assert answer.choices[0].message.content == result.text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == result.tokens_total
    assert answer.usage.critical_path == result.critical_path


def test_a_stream_with_events(forking, client):
    options = {**FORKING, "extra_body": {"pasta": {"parallelism": 5.0, "events": True}}}
    del options["pasta"]
    client = client.with_options(base_url=f"{forking.url}/v1")
    stream = client.chat.completions.create(
        model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}, **options
    )
    text, threads, last = "", set(), None
    for chunk in stream:
        last = chunk
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        threads |= {event["thread"] for event in (chunk.model_extra or {}).get("pasta", {}).get("events", [])}
    result = generate(forking.engine, "Why?", temperature=1.0, seed=2, max_tokens=200, parallelism=5.0)
    assert text == result.text
    assert threads == {thread.id for thread in result.threads}
    assert last.usage.threads == len(result.threads)


def test_completions_and_models(tiny, client):
    answer = client.completions.create(model=MODEL, prompt="Once", max_tokens=5, temperature=0)
    ids = tiny.engine.vocabulary.encode("Once")
    assert answer.choices[0].text == generate(tiny.engine, ids, max_tokens=5).text
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_errors_have_their_types(client):
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="other", messages=ASK)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=ASK, temperature=9)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError, match="response_format"):
        client.chat.completions.create(model=MODEL, messages=ASK, response_format={"type": "grammar"})


def test_keys_and_queues():
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, api_key="k", max_running=1, max_queue=1) as running:
        url = f"{running.url}/v1"
        with openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as stranger:
            with pytest.raises(openai.AuthenticationError):
                stranger.models.list()
            friend = stranger.with_options(api_key="k")
            with ThreadPoolExecutor(1) as pool:
                both = pool.submit(friend.chat.completions.create, model=MODEL, messages=ASK, n=2, max_tokens=1)
                dispatcher = running.server.dispatcher
                until(lambda: dispatcher.running == dispatcher.waiting == 1)
                with pytest.raises(openai.RateLimitError) as full:
                    friend.chat.completions.create(model=MODEL, messages=ASK, max_tokens=1)
                slow.set()
                assert len(both.result().choices) == 2
        assert full.value.response.headers["retry-after"] == "1"


def test_asynchronous_clients_at_once(tiny):
    async def ask() -> set[str]:
        async with openai.AsyncOpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0) as client:
            answers = await asyncio.gather(
                *(client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=20) for _ in range(6))
            )
        return {answer.choices[0].message.content for answer in answers}

    assert asyncio.run(ask()) == {generate(tiny.engine, "Why?", max_tokens=20).text}
