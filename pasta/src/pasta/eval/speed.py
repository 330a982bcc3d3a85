"""Speed, as the paper defines it: theoretical speedup and parallelism, and the clock."""

from __future__ import annotations

from typing import Any

from pasta.data.lines import Row, read_lines
from pasta.eval.folder import RunFolder
from pasta.eval.intervals import Figure, mean_of


def theoretical(rows: dict[str, Row], rival: dict[str, Row]) -> dict[str, Figure | None]:
    """Ratios on the prompts that both have answered, over the tokens that each decodes one after another."""
    both = [id for id in rows if id in rival]
    speedup = [max(1, rival[id]["content_tokens"]) / max(1, rows[id]["critical_path"]) for id in both]
    parallelism = [max(1, row["content_tokens"]) / max(1, row["critical_path"]) for row in rows.values()]
    return {
        "theoretical_speedup": mean_of(speedup, "geometric"),
        "theoretical_speedup_arithmetic": mean_of(speedup, "arithmetic"),
        "theoretical_parallelism": mean_of(parallelism, "geometric"),
        "theoretical_parallelism_arithmetic": mean_of(parallelism, "arithmetic"),
    }


def realised(timings: list[Row], model: str, rival: str, questions: str) -> dict[str, Figure | None]:
    """Ratios of the clock on the prompts that were timed with both."""
    timed: dict[str, dict[str, Row]] = {model: {}, rival: {}}
    for row in timings:
        if row["prompts"] == questions and row["model"] in timed:
            timed[row["model"]][row["id"]] = row
    both = [id for id in timed[model] if id in timed[rival]]
    ratios = [timed[rival][id]["seconds"] / timed[model][id]["seconds"] for id in both]
    steps = [max(1, timed[rival][id]["content_tokens"]) / max(1, timed[model][id]["critical_path"]) for id in both]
    return {
        "realised_speedup": mean_of(ratios, "geometric"),
        "realised_speedup_arithmetic": mean_of(ratios, "arithmetic"),
        "theoretical_speedup_of_timed": mean_of(steps, "geometric"),  # what the realised one can be held against
    }


def of_concurrency(folder: RunFolder, rival: str) -> list[dict[str, Any]]:
    """For each load and model: the speed of an answer, and how much quicker it is than the rival's under that load."""
    rows = {(row["users"], row["model"]): row for row in read_lines(folder.path / "concurrency.jsonl")}
    out: list[dict[str, Any]] = []
    for (users, model), row in sorted(rows.items()):
        answers, others = row["answers"], rows.get((users, rival), {"answers": {}})["answers"]
        if not answers:
            continue
        both = [id for id in answers if id in others]
        gain = mean_of([others[id]["seconds"] / answers[id]["seconds"] for id in both], "geometric")
        out.append(
            {
                "users": users,
                "model": model,
                "answers": len(answers),
                "seconds_an_answer": sum(one["seconds"] for one in answers.values()) / len(answers),
                "answers_a_second": len(answers) / row["seconds"],
                "tokens_a_second": sum(one["content_tokens"] for one in answers.values()) / row["seconds"],
                "speedup": None if gain is None else gain.value,
                "low": None if gain is None else gain.low,
                "high": None if gain is None else gain.high,
            }
        )
    return out
