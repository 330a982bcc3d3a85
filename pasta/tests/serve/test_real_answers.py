"""The default model over HTTP: what is streamed, what is returned and what `generate` gives are the same."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_support import serving, text_of

from pasta.decoding.api import generate
from pasta.engine.load import load_engine

PROMPTS = [
    "Name three fruits and describe each.",
    "Why is the sky blue?",
    "Wie heißt du?",
    "Give two tips for sleeping well.",
]
TOKENS = 40


LONG = "You are a careful assistant. " * 20 + PROMPTS[0]


@pytest.fixture(scope="module")
def expected(default_folder):
    """The engine, and what it answers without a server."""
    engine = load_engine(device="cpu", slots=8192)
    results = {prompt: generate(engine, prompt, max_tokens=TOKENS) for prompt in PROMPTS}
    assert len(results[PROMPTS[0]].threads) > 1, "the default model decodes in parallel"
    return engine, results


@pytest.mark.parametrize("clients", [1, 4])
def test_streamed_is_unstreamed_is_generate(expected, clients):
    engine, results = expected
    with serving(engine) as running, ThreadPoolExecutor(clients) as pool:

        def ask(number):
            fields = {"messages": [{"role": "user", "content": PROMPTS[number // 2]}], "max_tokens": TOKENS}
            if number % 2:
                return text_of(running.chunks(**fields))
            return running.chat(**fields).json()["choices"][0]["message"]["content"]

        asked = range(2 if clients == 1 else 2 * len(PROMPTS))
        answers = list(pool.map(ask, asked))
        assert answers == [results[PROMPTS[number // 2]].text for number in asked]


def test_a_second_turn_says_the_same_whether_the_first_is_there_or_not(expected):
    engine, _ = expected
    messages = [{"role": "user", "content": LONG}]
    with serving(engine) as running:
        first = running.chat(messages=messages, max_tokens=80, pasta={"parallelism": 4.0}).json()
        assert first["usage"]["threads"] > 1
        messages += [first["choices"][0]["message"], {"role": "user", "content": "Which is the sweetest?"}]
        for message in messages:
            message.pop("refusal", None)
        again, fresh = (running.chat(messages=messages, max_tokens=TOKENS, user=who).json() for who in (None, "other"))
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64
    assert fresh["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["choices"] == fresh["choices"]
    assert again["choices"][0]["message"]["content"] == generate(engine, messages, max_tokens=TOKENS).text
