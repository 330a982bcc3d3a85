"""The distributions that programs can name."""

from __future__ import annotations

from siren.distributions.base import Distribution

_REGISTERED: dict[str, Distribution] = {}


def register(distribution: Distribution) -> Distribution:
    """Make a distribution part of the language, under its name. A later one of the same name replaces it."""
    for attribute in ("name", "parameters"):
        if not hasattr(distribution, attribute):
            raise TypeError(f"{type(distribution).__name__} has no `{attribute}`")
    _REGISTERED[distribution.name] = distribution
    return distribution


def registered() -> dict[str, Distribution]:
    """All of them by name."""
    return _REGISTERED
