"""A server's answers beside the native engine's in the same layout: are they the same, and what do they take?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from pasta.decoding.api import generate
from pasta.engine.base import Engine
from pasta.engine.remote import RemoteEngine

QUESTIONS = (
    "What are three good ways to learn a language?",
    "List five tips for better sleep.",
    "Name three fruits and describe each.",
    "Give me four ideas for a birthday party.",
    "Why is the sky blue?",
)


def compare(
    remote: RemoteEngine,
    native: Engine,
    questions: Sequence[str] = QUESTIONS,
    *,
    max_tokens: int = 600,
    tell: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Answers each question four times: on the server and here, in parallel and sequentially, all greedy.

    The budget should be ample: where it cuts an answer, which thread gets the last token depends on who was first, and
    threads on a server do not go in step.
    """
    rows = []
    for question in questions:
        row: dict[str, Any] = {"question": question}
        trees = {}
        for mode in ("parallel", "sequential"):
            for name, engine in (("server", remote), ("native", native)):
                before = remote.client.usage.snapshot()
                begun = time.perf_counter()
                answer = generate(
                    engine,
                    question,
                    max_tokens=max_tokens,
                    sequential=mode == "sequential",
                    positions="stitched",
                )
                row[f"{name}_{mode}_s"] = round(time.perf_counter() - begun, 3)
                trees[name, mode] = answer.tree
                if (name, mode) == ("server", "parallel"):
                    used = remote.client.usage.snapshot()
                    row |= {key: used[key] - before[key] for key in used}
                    row["threads"] = len(answer.threads)
                    row["tokens"] = answer.tokens_total
                    row["critical_path"] = answer.critical_path
                elif (name, mode) == ("server", "sequential"):
                    row["sequential_tokens"] = answer.tokens_total
            row[f"same_{mode}"] = trees["server", mode] == trees["native", mode]
        rows.append(row)
        tell(row)
    return {"rows": rows, "total": total(rows)}


def total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def add(name: str) -> Any:
        return sum(row[name] for row in rows)

    out = {
        "questions": len(rows),
        "same": sum(row["same_parallel"] and row["same_sequential"] for row in rows),
        "forked": sum(row["threads"] > 1 for row in rows),
        "requests": add("requests"),
        "corrections": add("corrections"),
        "cached_share": round(add("cached_tokens") / max(1, add("prompt_tokens")), 4),
    }
    for name in ("server_parallel_s", "server_sequential_s", "native_parallel_s", "native_sequential_s"):
        out[name] = round(add(name), 2)
    return out
