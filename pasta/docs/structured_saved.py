"""What is saved of structured answers, and the words around it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
WORDS = tomllib.loads((DOCS / "structured-results.toml").read_text("utf-8"))
EARLIER = "16 November 2026 (commit adc7849)"  # that made vLLM's figures, and those of quality whose rows name no code
MODES = ("parallel", "sequential")


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def on_cpu(machine: dict[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores"
