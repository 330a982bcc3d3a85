"""Adapters in packages of their own: too large for this one, and as easy to install.

A package names its adapter under the entry points `pasta.adapters`: `NAME = "PACKAGE"`, where the package's folder is
the adapter's. No code of the package runs.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from pasta.models.adapter import is_adapter

GROUP = "pasta.adapters"


def packaged() -> dict[str, Path]:
    """The folders of installed adapters, by name."""
    found = {}
    for entry in entry_points(group=GROUP):
        try:
            spec = find_spec(entry.module)
        except (ImportError, ValueError):
            continue
        for place in (spec.submodule_search_locations or []) if spec else []:
            if is_adapter(place):
                found[entry.name] = Path(place).resolve()
    return found
