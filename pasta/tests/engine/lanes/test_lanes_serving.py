"""`pasta serve` over answers that are streams of lanes: stitched text, streams, and an engine that ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from simulated import Simulated, simulated_engine

from dense import script
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.vllm.engine import VllmEngine
from pasta.errors import PastaError
from pasta.models.tags import add_tags
from pasta.serve.run import Server, bind
from pasta.serve.settings import Settings
from support import byte_tokenizer, tiny_model


@pytest.fixture(scope="module")
def parts() -> tuple[VllmEngine, Simulated]:
    """Answers of six threads, two of them nested."""
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    engine, core = simulated_engine(model, vocabulary)
    tags, end = vocabulary.tags, min(vocabulary.eos)
    assert tags is not None and core.sampler._forbidden is not None
    steps = script(tags, vocabulary.encode("cat"), 1, 6)

    def pilot(path: tuple[int, ...], index: int) -> int | None:
        token = steps[path].get(index)
        return end if token == -1 else token

    core.pilot = pilot
    core.sampler._forbidden[:8, list(tags.all | vocabulary.eos)] = True
    return engine, core


@pytest.fixture(scope="module")
def url(parts: tuple[VllmEngine, Simulated]) -> Iterator[str]:
    bound = bind("127.0.0.1", 0)
    started = threading.Event()
    front = Server(parts[0], Settings(grace_s=2.0), started.set)
    thread = threading.Thread(target=front.run_on, args=(bound,), daemon=True)
    thread.start()
    assert started.wait(120)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    front.should_exit = True
    thread.join(120)
    bound.close()
    assert not thread.is_alive()


def ask(url: str, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Compare cats and dogs."}], "max_tokens": 400, **fields}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300)


def test_answers_are_stitched(url: str, parts: tuple[VllmEngine, Simulated]) -> None:
    engine, core = parts
    expected = generate(engine, "Compare cats and dogs.", max_tokens=400)
    assert len(expected.threads) == 6
    assert ask(url).json()["choices"][0]["message"]["content"] == expected.text
    streamed = ask(url, stream=True).text
    chunks = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == expected.text
    assert not core.running and len(core.free) == core.blocks


def test_what_it_cannot_do_is_the_callers_mistake(url: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    structured = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for fields in ({"logprobs": True}, {"response_format": structured}):
        reply = ask(url, **fields)
        assert reply.status_code == 400, reply.text
        assert "vLLM" in reply.json()["error"]["message"]


def test_a_prompt_that_vllm_cannot_hold_is_refused_though_the_model_could(
    url: str, parts: tuple[VllmEngine, Simulated]
) -> None:
    engine, core = parts
    assert core.max_model_len == 2048 < engine.context
    reply = ask(url, messages=[{"role": "user", "content": "a" * 2100}])
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["code"] == "context_length_exceeded"
    assert ask(url, max_tokens=5).status_code == 200
    (listed,) = httpx.get(f"{url}/v1/models", timeout=300).json()["data"]
    assert listed["max_model_len"] == engine.pool.slots_each < core.max_model_len


def test_an_engine_that_ended_is_not_ready(url: str, parts: tuple[VllmEngine, Simulated]) -> None:
    core = parts[1]
    assert httpx.get(f"{url}/ready", timeout=300).status_code == 200

    def ended() -> None:
        raise PastaError("vLLM's engine has ended", "see its log")

    core.check = ended  # type: ignore[method-assign]
    try:
        time.sleep(1.1)  # for which an answer to this question holds
        reply = httpx.get(f"{url}/ready", timeout=300)
    finally:
        del core.check
    assert reply.status_code == 503 and "engine" in reply.text
