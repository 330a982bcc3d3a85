"""What was asked of a model, and what came: a row for each goal, with what was measured and its interval.

A goal that names an interval is met where the whole interval meets it; any other, where the value does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

LEARNED, TREATED = ("pasta", "new"), "-pasta-"  # something is asked of names that begin so, or have had a stage two
TODAY, UNTAGGED = "today", "untagged"  # the model that a new one replaces, and the new one without tags
WITHIN = 2  # points
SPEEDS = {"several4": (2.0, 3.0), "gather": (1.7,)}  # by the beginning of a task's name: asked for, hoped for
FACTOR = 0.05  # by which a length ratio may be off one
CORRELATION = 0.7
SYNCING = 90  # per cent of the answers
CHAT_SPEED, CHAT_WINS = 1.3, 50
REPEATS = 5  # per cent of the answers that fork
CLEAN = 98  # per cent of the topics

Figures = dict[str, Any]
COLUMNS = ["asked", "of", "measured", "95 % interval", "prompts", "met"]


class Goal(NamedTuple):
    asked: str
    measured: str
    interval: str
    prompts: str
    met: bool

    @classmethod
    def of(cls, asked: str, figure: Figures, met: bool, *, scale: float = 1, digits: int = 2) -> Goal:
        value, low, high = (f"{scale * figure[key]:.{digits}f}" for key in ("value", "low", "high"))
        return cls(asked, value, f"{low} to {high}", str(figure.get("prompts", "–")), met)


def goal_rows(summary: Figures) -> list[list[str]]:
    """Of every model of which something is asked: task by task, all tasks together, and the chats."""
    found = [
        (f"`{model}` on `{task}`", goal)
        for task, models in summary.get("tasks", {}).items()
        for model, told in models.items()
        if is_asked(model) and "parts" in told
        for goal in of_task(task, told)
    ]
    found += [
        (f"`{model}` on all tasks together", of_correlation(told["correlation"], told.get("blocks")))
        for model, told in summary.get("promises", {}).items()
        if told and is_asked(model)
    ]
    chats, models = summary.get("prompts"), summary.get("models", {})
    found += [
        (f"`{model}` on `{chats}`", goal)
        for model, figures in models.items()
        if is_asked(model) and chats not in summary.get("tasks", {})
        for goal in of_chats(figures, models)
    ]
    return [[g.asked, of, g.measured, g.interval, g.prompts, "yes" if g.met else "no"] for of, g in found]


def is_asked(model: str) -> bool:
    return model.startswith(LEARNED) or TREATED in model


def of_task(task: str, told: Figures) -> Iterator[Goal]:
    over, clock, factor = told["over_reference"], told["realised_speedup"], told.get("length_factor")
    if over:
        asked = f"right parts at most {WITHIN} points behind the reference, the whole interval"
        yield Goal.of(asked, over, 100 * over["low"] >= -WITHIN, scale=100, digits=1)
    yield from of_clock(task, clock)
    if factor and task.startswith(tuple(SPEEDS)):
        near = abs(factor["value"] - 1) <= FACTOR
        yield Goal.of(f"a length ratio near 1 (within {FACTOR})", factor, near)
    if end := told.get("end_over_reference"):
        asked = "what needs all as right as the reference's: the interval reaches 0"
        yield Goal.of(asked, end, end["high"] >= 0, scale=100, digits=1)
    if task.startswith("gather"):
        asked = f"syncs in over {SYNCING} % of the answers"
        syncing = told["syncing"]
        yield Goal.of(asked, syncing, 100 * syncing["value"] > SYNCING, scale=100, digits=0)
    if made := told.get("promises"):
        error, constant = made["mean_error"], made["mean_error_constant"]
        yield Goal(
            f"promised lengths err less than the task's best constant, which errs by {constant:.1f} units",
            f"{error:.1f}", "–", f"{made.get('blocks', '–')} blocks", error < constant,
        )  # fmt: skip


def of_clock(task: str, clock: Figures | None) -> Iterator[Goal]:
    """Nothing, where the task was not timed, or no speed is asked of it."""
    if clock:
        for least in next((speeds for kind, speeds in SPEEDS.items() if task.startswith(kind)), ()):
            yield Goal.of(f"realised speedup of {least} or more", clock, clock["value"] >= least)


def of_correlation(correlation: float | None, blocks: int | None) -> Goal:
    """None: all promises are alike, or all blocks."""
    asked = f"promised lengths: correlation {CORRELATION} or more"
    measured = "none" if correlation is None else f"{correlation:.2f}"
    return Goal(asked, measured, "–", f"{blocks or '–'} blocks", (correlation or 0.0) >= CORRELATION)


def of_chats(figures: Figures, models: dict[str, Figures]) -> Iterator[Goal]:
    """Prompts without a right answer: the clock, what judges say, and where a model replaces another, against that."""
    before = models.get(TODAY)
    clock = figures["realised_speedup"]
    clock_before = before["realised_speedup"] if before else None
    least = clock_before["value"] if clock_before else CHAT_SPEED
    than = f"of `{TODAY}`'s, {least:.2f}," if clock_before else f"of {least}"
    if clock:
        yield Goal.of(f"realised speedup {than} or more", clock, clock["value"] >= least)
    for judge in figures["judged"]:
        wins, wins_before = win_rate(figures, judge), before and win_rate(before, judge)
        if wins:
            rate = wins_before["value"] if wins_before else CHAT_WINS
            whose = f"of `{TODAY}`'s, {rate:.1f} %," if wins_before else f"of {rate} %"
            asked = f"wins against the reference {whose} or more (judge `{judge}`)"
            yield Goal.of(asked, wins, wins["value"] >= rate, digits=1)
        untagged = win_rate(models.get(UNTAGGED, {}), judge)
        if before and untagged:
            yield of_untagged(untagged, judge)
    if before:
        yield from of_repeats(figures["redundancy"])


def of_untagged(wins: Figures, judge: str) -> Goal:
    asked = f"without tags at most {WITHIN} points below a draw, the whole interval (judge `{judge}`)"
    return Goal.of(asked, wins, wins["low"] >= 50 - WITHIN, digits=1)


def of_repeats(redundancy: Figures) -> Iterator[Goal]:
    """Of a model whose answers are to be clean: blocks and topics."""
    if repeating := redundancy["blocks_repeat"]:
        asked = f"blocks that repeat in at most {REPEATS} % of the answers that fork"
        yield Goal.of(asked, repeating, 100 * repeating["value"] <= REPEATS, scale=100, digits=0)
    if unclean := redundancy.get("topics_unclean"):
        asked = f"topics that read well: at most {100 - CLEAN} % are cut off, too long or say nothing"
        yield Goal.of(asked, unclean, 100 * unclean["value"] <= 100 - CLEAN, scale=100, digits=1)


def win_rate(figures: Figures, judge: str) -> Figures | None:
    """Controlled for length, where that could be fitted."""
    judged = figures.get("judged", {}).get(judge) or {}
    found: Figures | None = judged.get("lc_win_rate") or judged.get("win_rate")
    return found
