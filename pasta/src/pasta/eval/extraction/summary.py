"""From the rows of every prompt to figures: exact matches by mode, and the paired difference to sequential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pasta.eval.intervals import Figure, statistic_of

Rows = list[dict[str, Any]]
BASELINE = "sequential"
ALL = "all"  # every set together


def summarise(rows: Rows) -> dict[str, Any]:
    models: dict[str, Any] = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        names = list(dict.fromkeys(row["set"] for row in own))
        sets = {name: of_set([row for row in own if row["set"] == name]) for name in names}
        if len(names) > 1:
            shared = set.intersection(*(set(each["modes"]) for each in sets.values()))
            sets[ALL] = of_set([row for row in own if row["mode"] in shared])
        models[model] = sets
    return {"models": models}


def of_set(rows: Rows) -> dict[str, Any]:
    """The modes side by side, over the prompts that all of them answered."""
    modes: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in rows:
        modes.setdefault(row["mode"], {})[row["set"], row["id"]] = row
    shared = sorted(set.intersection(*(set(own) for own in modes.values())))
    chosen = {mode: [own[key] for key in shared] for mode, own in modes.items()}
    out: dict[str, Any] = {
        "prompts": len(shared),
        "fields": sum(len(row["marks"]) for row in next(iter(chosen.values()))),
    }
    out["modes"] = {mode: of_mode(own) for mode, own in chosen.items()}
    for mode, own in chosen.items():
        if mode != BASELINE and BASELINE in chosen:
            out["modes"][mode]["over_sequential"] = difference(own, chosen[BASELINE], 0).to_dict()
            out["modes"][mode]["f1_over_sequential"] = difference(own, chosen[BASELINE], 1).to_dict()
            ratios = [after["steps"] / row["steps"] for row, after in zip(own, chosen[BASELINE], strict=True)]
            out["modes"][mode]["fewer_steps"] = float(np.exp(np.mean(np.log(ratios))))
    return out


def of_mode(rows: Rows) -> dict[str, Any]:
    marks = np.array([mark for row in rows for mark in row["marks"].values()])
    return {
        "exact": float(marks[:, 0].mean()),
        "f1": float(marks[:, 1].mean()),
        "cut": sum(row["finish_reason"] != "stop" for row in rows),
        **{
            name: float(np.mean([row[name] for row in rows]))
            for name in ("steps", "decoded_tokens", "forced_tokens", "critical_path", "checked_steps")
            if all(name in row for row in rows)
        },
    }


def difference(ours: Rows, theirs: Rows, which: int) -> Figure:
    """In points: the share of right fields less the other mode's, resampled over prompts."""
    fields = np.array([len(row["marks"]) for row in ours])
    gained = np.array([_sum(row, which) - _sum(other, which) for row, other in zip(ours, theirs, strict=True)])
    return statistic_of(len(ours), lambda chosen: float(100 * gained[chosen].sum() / fields[chosen].sum()))


def _sum(row: dict[str, Any], which: int) -> float:
    marks: Sequence[Sequence[float]] = list(row["marks"].values())
    return sum(mark[which] for mark in marks)
