"""Figures that an evaluation's own report does not have, made of its rows where `experiments.toml` asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pasta.data.lines import Row
from pasta.eval.rows import Rows
from pasta.eval.speed import theoretical
from pasta.eval.summary import ahead, on_task, plain

#: What is derived: by these names it stands among the figures.
DERIVED = ("equally_treated", "elsewhere", "together")
MODEL = "pasta"  # whose answers to both kinds of problems are taken together


def derived(
    told: Mapping[str, Any], rows: Rows, about: Mapping[str, Any], rows_of: Callable[[str], Rows]
) -> dict[str, Any]:
    """told: of `experiments.toml`, in `equally_treated` the baseline of a model that had the same stages; in
    `elsewhere` baselines of other evaluations (`rows_of`) of the same prompts; in `together` the sets of prompts of one
    task, by what it is called."""
    answers, judges = rows.get(about["prompts"], {}), list(about["judges"])
    figures = {
        "equally_treated": {
            model: {
                "against": other,
                **theoretical(answers[model], answers[other]),
                "over": ahead(answers[model], answers[other], judges),
            }
            for model, other in told.get("equally_treated", {}).items()
        },
        "elsewhere": {
            model: {
                place: theoretical(answers[model], rows_of(evaluation)[about["prompts"]][other])
                for place in places
                for evaluation, _, other in [place.partition("/")]
            }
            for model, places in told.get("elsewhere", {}).items()
        },
        "together": {
            task: {MODEL: on_task(merged(rows, sets, MODEL), merged(rows, sets, about["against"]))}
            for task, sets in told.get("together", {}).items()
        },
    }
    return {name: plain(found) for name, found in figures.items() if found}


def merged(rows: Rows, sets: list[str], model: str) -> dict[str, Row]:
    """A model's rows of several sets of prompts, as if they were one."""
    return {f"{name}/{id}": row for name in sets for id, row in rows[name].get(model, {}).items()}
