"""Fixtures of the server's tests."""

import pytest
from serve_support import serving, until

from support import tiny_engine


@pytest.fixture(scope="module")
def tiny():
    """A server of a tiny model, for tests that leave it idle."""
    with serving(tiny_engine()) as running:
        yield running
        until(running.is_idle)
