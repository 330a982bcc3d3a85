"""The table of the CUDA engine in docs/performance.md is that of the report that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "performance.md").read_text("utf-8").partition("### The whole table")[2]


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PROJECT / "benchmarks" / "results" / name).read_text("utf-8"))
    return found


def now(label: str) -> list[str]:
    """The numbers of the column `now`."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    return re.findall(r"[\d.,]*\d", row.split("|")[3])


def test_the_table() -> None:
    rows, widths = report("table-h200.json")["rows"], ("1", "4", "16", "32")
    for shape in ("8B", "135M"):
        answer, sampled = rows[f"{shape} answer"], rows[f"{shape} sampled answer"]["of greedy"]
        assert now(f"{shape}, ms a step of an answer") == [f"{answer[width]:.2f}" for width in widths]
        assert now(f"{shape}, 32 threads, of one") == [f"{answer['of one']['32']:.2f}"]
        assert now(f"{shape}, sampled") == [f"{sampled[width]:.2f}" for width in ("1", "32")]
        assert now(f"{shape}, 32 answers") == [f"{rows[f'{shape} 32 answers']['tokens_per_s']:,}"]
        replays = rows[f"{shape} replays"]
        assert now(f"{shape}, replays") == [f"{replays['share']:.3f}", str(replays["count"])]
    assert now("8B, fp8") == [f"{rows['8B fp8']['1']:.2f}"]


def test_vllm_is_behind_in_every_cell() -> None:
    stock = report("inside-vllm-h200-4.json")["shape llama-3-8b"]["vLLM by itself"]["step_ms"]
    own = report("table-h200.json")["rows"]["8B answer"]
    assert now("vLLM, as many requests") == [f"{stock[width]:.2f}" for width in ("1", "4", "16", "32")]
    assert all(own[width] < stock[width] for width in stock)
