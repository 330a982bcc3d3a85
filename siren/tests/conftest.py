"""Shared test set-up: helper modules beside the tests are importable by name, and chance has no part."""

import random
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for folder in ("analysis", "oracle", "syntax"):
    sys.path.insert(0, str(Path(__file__).parent / folder))

# The same examples in every run, however busy the machine. For others: pytest --hypothesis-profile search
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


@pytest.fixture(autouse=True)
def drawn_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs without a seed draws one: in each test the same ones every time."""
    monkeypatch.setattr(secrets, "randbits", random.Random(request.node.nodeid).getrandbits)
