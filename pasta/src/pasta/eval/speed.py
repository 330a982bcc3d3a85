"""Speed, as the paper defines it: theoretical speedup and parallelism, and the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pasta.data.lines import Row, read_lines
from pasta.eval.folder import RunFolder
from pasta.eval.intervals import Figure, mean_of


def theoretical(rows: Mapping[str, Row], rival: Mapping[str, Row]) -> dict[str, Figure | None]:
    """Ratios on the prompts that both have answered, over the tokens that each decodes one after another.

    The length ratio is the rival's tokens of text over the model's: the part of a speedup that is a shorter answer.
    """
    both = [id for id in rows if id in rival]
    speedup = [content(rival[id]) / max(1, rows[id]["critical_path"]) for id in both]
    parallelism = [content(row) / max(1, row["critical_path"]) for row in rows.values()]
    return {
        "theoretical_speedup": mean_of(speedup, "geometric"),
        "theoretical_speedup_arithmetic": mean_of(speedup, "arithmetic"),
        "theoretical_parallelism": mean_of(parallelism, "geometric"),
        "theoretical_parallelism_arithmetic": mean_of(parallelism, "arithmetic"),
        "length_factor": mean_of([content(rival[id]) / content(rows[id]) for id in both], "geometric"),
    }


def realised(rows: Mapping[str, Row], rival: Mapping[str, Row]) -> dict[str, Figure | None]:
    """Means over the prompts that were timed with both."""
    clock = by_the_clock(rows, rival)
    both, ratios = list(clock), list(clock.values())
    own, other = ({id: every[id]["timed"] for id in both} for every in (rows, rival))
    steps = [content(other[id]) / max(1, own[id]["critical_path"]) for id in both]
    return {
        "realised_speedup": mean_of(ratios, "geometric"),
        "realised_speedup_arithmetic": mean_of(ratios, "arithmetic"),
        "theoretical_speedup_of_timed": mean_of(steps, "geometric"),  # what the realised one can be held against
        "length_factor_of_timed": mean_of([content(other[id]) / content(own[id]) for id in both], "geometric"),
    }


def by_the_clock(rows: Mapping[str, Row], rival: Mapping[str, Row]) -> dict[str, float]:
    """Prompt by prompt, how many times as fast, where both were timed on the same kind of machine."""
    own, other = ({id: row["timed"] for id, row in every.items() if "timed" in row} for every in (rows, rival))
    both = [id for id in own if id in other and own[id].get("machine") == other[id].get("machine")]
    return {id: other[id]["seconds"] / own[id]["seconds"] for id in both}


def content(row: Row) -> int:
    return max(1, int(row["content_tokens"]))


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
