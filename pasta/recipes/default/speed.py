"""The realised speedup: the same prompts, one at a time, on a finetuned model and on its sequential rival."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from evaluate import geometric_mean, open_engine
from files import read_prompts, table

from pasta.data.lines import write_json
from pasta.decode import generate


def speed(
    model: str,
    rival: str,
    prompts: str,
    out: Path,
    *,
    name: str,
    limit: int = 100,
    max_new_tokens: int = 512,
    minutes: float = 0.0,
    device: str | None = None,
) -> dict[str, Any]:
    """Decodes each prompt with both, greedily; each model first runs a few to warm up."""
    begun = time.monotonic()
    engines = [open_engine(folder, device, 16_384) for folder in (model, rival)]
    texts = list(read_prompts(prompts, limit))
    for engine in engines:
        for prompt in texts[:8]:
            generate(engine, prompt, max_new_tokens=max_new_tokens)
    rows = []
    for prompt in texts:
        if minutes and time.monotonic() - begun > 60 * minutes:
            break
        ours, theirs = (generate(engine, prompt, max_new_tokens=max_new_tokens) for engine in engines)
        rows.append(
            {
                "prompt": prompt,
                "threads": len(ours.threads),
                "tokens": ours.content_tokens,
                "rival_tokens": theirs.content_tokens,
                "critical_path": ours.critical_path,
                "wall_s": ours.wall_s,
                "rival_wall_s": theirs.wall_s,
                "realised": theirs.wall_s / ours.wall_s,
                "theoretical": theirs.content_tokens / max(1, ours.critical_path),
                # The same text as one sequence would take this many of the rival's steps.
                "same_text": ours.content_tokens / max(1, theirs.content_tokens) * theirs.wall_s / ours.wall_s,
            }
        )
    forking = [row for row in rows if row["threads"] > 1]
    figures: dict[str, Any] = {"model": model, "rival": rival, "prompts": len(rows), "forking": len(forking)}
    for key in ("realised", "theoretical", "same_text"):
        figures[key] = geometric_mean([row[key] for row in rows])
        figures[f"{key}_forking"] = geometric_mean([row[key] for row in forking])
    write_json(out / f"{name}.speed.json", {**figures, "rows": rows})
    table(f"{name} against its rival, one at a time", list(figures.items()))
    return figures
