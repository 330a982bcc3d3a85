"""The targets of the models that ship, and whether they were met: one table over several evaluations."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.eval.goals import (
    CHAT_WINS,
    Goal,
    of_chats,
    of_correlation,
    of_repeats,
    of_task,
    of_untagged,
    win_rate,
)
from pasta.eval.task_page import table

Figures = dict[str, Any]
Row = tuple[str, str, Goal]  # the model, what a prompt asks for, the goal

JUDGE = "features"
TOLD = tomllib.loads((Path(__file__).parent / "results.toml").read_text("utf-8"))
TASKS: dict[str, str] = TOLD["tasks"]  # what a prompt of each asks for
CHAT = "chat (AlpacaEval)"
#: Realised speedup and win rate that a model of chats should reach together, at the least.
GOALS = ((1.9, 43), (1.2, 50))


def asked(found: dict[str, Figures], first: Figures) -> str:
    """Goals in the order in which they first come, each with all that it was asked of."""
    rows = [*of_adapter(first), *of_default(found)]
    order = list(dict.fromkeys(goal.asked.partition(ERRS)[0] for _, _, goal in rows))
    cells = []
    for name in order:
        shown = TOLD["goals"].get(name, name)
        for model, of, goal in rows:
            start, _, constant = goal.asked.partition(ERRS)
            if start == name:
                measured = (
                    f"{goal.measured} (constant: {constant.removesuffix(' units')})" if constant else goal.measured
                )
                cells.append([shown, model, of, measured, goal.interval, goal.prompts, "yes" if goal.met else "**no**"])
                shown = ""
    return table(["target", "model", "task", "measured", "95% interval", "prompts", "met"], cells)


ERRS = ", which errs by "  # what parts a goal from the constant that it is to beat


def of_adapter(first: Figures) -> Iterator[Row]:
    """The 1.5B adapter that ships."""
    for task, models in (first["tasks"] | first["together"]).items():
        for goal in of_task(task, models["pasta"]):
            yield "1.5B", TASKS[task], goal
    told = first["promises"]["pasta"]
    yield "1.5B", "all tasks", of_correlation(told["correlation"], told["blocks"])
    for goal in of_chats(first["models"]["pasta"], {}):
        yield "1.5B", CHAT, goal


def clock_of(summary: Figures, task: str) -> Figures | None:
    """The clock of `pasta` on a task, whether or not its answers were marked."""
    told = summary["tasks"].get(task, {}).get("pasta") or summary["timed_alone"].get(task, {}).get("pasta", {})
    found: Figures | None = told.get("realised_speedup")
    return found


def of_default(found: dict[str, Figures]) -> Iterator[Row]:
    """The default model in its evaluation, and beside it the one before, `today`."""
    latest, name = found[TOLD["default"]["evaluation"]], TOLD["default"]["model"]
    shipped, before = latest["models"][name], latest["models"]["today"]
    clock, wins, against = shipped["realised_speedup"], win_rate(shipped, JUDGE), win_rate(shipped, f"{JUDGE}-today")
    assert wins is not None and against is not None
    for least, rate in GOALS:
        goal = f"realised speedup of at least {least} at a win rate of at least {rate}%"
        yield "135M", CHAT, Goal.of(goal, clock, clock["value"] >= least and wins["value"] >= rate)
    least = before["realised_speedup"]["value"]
    goal = f"realised speedup of at least the previous default's, {least:.2f}"
    yield "135M", CHAT, Goal.of(goal, clock, clock["value"] >= least)
    for what, rate in (("the reference", wins), ("the previous default", against)):
        goal = f"wins against {what} of {CHAT_WINS} % or more (judge `{JUDGE}`)"
        yield "135M", CHAT, Goal.of(goal, rate, rate["value"] >= CHAT_WINS, digits=1)
    yield from (("135M", CHAT, goal) for goal in of_repeats(shipped["redundancy"]))
    untagged = win_rate(latest["models"][f"{name}-untagged"], JUDGE)
    assert untagged is not None
    yield "135M", f"{CHAT}, without tags", of_untagged(untagged, JUDGE)
    task = latest["tasks"]["constraints"]
    yield from (("135M", TASKS["constraints"], goal) for goal in of_task("constraints", task[name]))
    for goal in of_task("constraints", task[f"{name}-untagged"]):
        yield "135M", f"{TASKS['constraints']}, without tags", goal
    promised = latest["promises"][name]
    yield "135M", TASKS["constraints"], of_correlation(promised["correlation"], promised["blocks"])
