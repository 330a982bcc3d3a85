"""Fixtures of the server's tests."""

import pytest
from serve_support import serving, until

from dense import pilot
from support import tiny_engine


@pytest.fixture(scope="module")
def tiny():
    """A server of a tiny model, for tests that leave it idle."""
    with serving(tiny_engine()) as running:
        yield running
        until(running.is_idle)


@pytest.fixture(scope="module")
def forking():
    """A server whose answers have six threads, two of them nested, and end by themselves."""
    engine = tiny_engine(slots=8192)
    pilot(engine, 2, 12)
    with serving(engine) as running:
        yield running
        until(running.is_idle)


@pytest.fixture(scope="module")
def client(tiny):
    """OpenAI's own client of the tiny model's server."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0) as client:
        yield client
