"""One recipe with several seeds: what is the recipe's, and what the luck of a training.

Each run holds a model and a reference that were trained with the same seed. A difference is taken within a run, prompt
by prompt; what stands over all runs is their mean, with the runs' own spread (standard deviation) and an interval in
which prompts are drawn again, each with its answers in all runs: it says nothing about seeds that were not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean, mean, stdev
from typing import Any

from pasta.data.lines import Row
from pasta.eval.intervals import Figure, mean_of, ratio_of
from pasta.eval.report import interval, points
from pasta.eval.rows import Rows, answered
from pasta.eval.speed import by_the_clock, content
from pasta.eval.summary import end_of, right_of
from pasta.eval.task_page import ASKED, table

FEWEST_TIMED = 20  # prompts that all runs were timed on: fewer tell nothing

Answers = Mapping[str, Row]
Pair = tuple[Answers, Answers]  # of one run: the model's answers, and the reference's


def of_seeds(runs: Mapping[str, Rows], model: str, against: str, judge: str | None = None) -> dict[str, Any]:
    """Set by set, of those that two runs or more have answered: the runs' own figures, and all of them together.

    A run that has answered less than half of what another has is left out of that set, or it would leave few prompts.
    """
    found = {}
    for name in dict.fromkeys(name for rows in runs.values() for name in rows):
        pairs = {seed: (answered(rows[name].get(model, {})), answered(rows[name].get(against, {})))
                 for seed, rows in runs.items() if name in rows}  # fmt: skip
        both = {seed: len(set(own) & set(other)) for seed, (own, other) in pairs.items()}
        enough = max(both.values(), default=0) / 2
        figures = of_set({seed: pair for seed, pair in pairs.items() if both[seed] and both[seed] >= enough}, judge)
        if figures:
            found[name] = figures
    return found


def of_set(pairs: Mapping[str, Pair], judge: str | None) -> dict[str, Any]:
    """Over the prompts that both models of all runs have answered."""
    runs = list(pairs.values())
    ids = sorted(set.intersection(*(set(own) & set(other) for own, other in runs))) if len(runs) > 1 else []
    if not ids:
        return {}
    every = [answers[id] for pair in runs for answers in pair for id in ids]

    def difference(value: Callable[[Row], float], id: str, some: Sequence[Pair]) -> float:
        return mean(value(own[id]) - value(other[id]) for own, other in some)

    def parts(some: Sequence[Pair]) -> Figure | None:
        size = {id: len(right_of(runs[0][1][id])) for id in ids}
        return ratio_of([(difference(lambda row: sum(right_of(row)), id, some), size[id]) for id in ids])

    def ends(some: Sequence[Pair]) -> Figure | None:
        return mean_of([difference(lambda row: float(end_of(row) or 0), id, some) for id in ids])

    judged = [id for id in ids if all(judge in own[id].get("wins", {}) for own, _ in runs)]

    def wins(some: Sequence[Pair]) -> Figure | None:
        return mean_of([100 * mean(own[id]["wins"][judge] for own, _ in some) for id in judged])

    def speed(some: Sequence[Pair]) -> Figure | None:
        ratios = ([content(other[id]) / max(1, own[id]["critical_path"]) for own, other in some] for id in ids)
        return mean_of([geometric_mean(each) for each in ratios], "geometric")

    timed = sorted(set(ids).intersection(*(by_the_clock(*pair) for pair in runs)))

    def clock(some: Sequence[Pair]) -> Figure | None:
        ratios = [by_the_clock(*pair) for pair in some]
        return mean_of([geometric_mean([each[id] for each in ratios]) for id in timed], "geometric")

    found: dict[str, Any] = {"prompts": len(ids), "seeds": list(pairs), "theoretical_speedup": over_runs(speed, runs)}
    if all(map(right_of, every)):
        found["over_reference"] = over_runs(parts, runs)
    if all(end_of(row) is not None for row in every):
        found["end_over_reference"] = over_runs(ends, runs)
    if judged:
        found["wins"] = {**over_runs(wins, runs), "prompts": len(judged)}
    if len(timed) >= FEWEST_TIMED:
        found["realised_speedup"] = {**over_runs(clock, runs), "prompts": len(timed)}
    return found


def over_runs(over: Callable[[Sequence[Pair]], Figure | None], runs: Sequence[Pair]) -> dict[str, Any]:
    each = [one.value for run in runs if (one := over([run])) is not None]
    pooled = over(runs)
    assert pooled is not None
    return {"each": each, "mean": mean(each), "spread": stdev(each), "pooled": pooled.to_dict()}


KINDS = (
    ("over_reference", "right parts over the reference, points", 100, 1),
    ("end_over_reference", "what needs all, over the reference, points", 100, 1),
    ("wins", "wins against the reference, % (judge)", 1, 1),
    ("realised_speedup", "realised speedup", 1, 2),
    ("theoretical_speedup", "theoretical speedup", 1, 2),
)


def seed_page(
    found: Mapping[str, Any], steps: Mapping[str, Mapping[str, int]], examples: Mapping[str, int]
) -> Iterator[str]:
    """A row for each set and kind of figure; of each seed, the steps of the model and of its reference, and examples.

    Where they learned different numbers of examples, the data was drawn anew as well.
    """
    if not found:
        return
    seeds = list(dict.fromkeys(seed for figures in found.values() for seed in figures["seeds"]))
    yield "### Seeds\n"
    told = "; ".join(
        f"seed {seed}: " + ", ".join(f"`{model}` {count} steps" for model, count in steps.get(seed, {}).items())
        for seed in seeds
        if steps.get(seed)
    )
    if told:
        anew = len(set(examples.values())) > 1
        data = f", its data drawn anew ({' and '.join(map(str, examples.values()))} examples)" if anew else " and data"
        yield f"The same recipe{data}, {told}. The interval is over prompts, each with its answers in all runs.\n"
    rows = []
    for name, figures in found.items():
        for kind, words, scale, digits in KINDS:
            if kind not in figures:
                continue
            told_of = figures[kind]
            own = dict(zip(figures["seeds"], told_of["each"], strict=True))
            pooled = told_of["pooled"]
            rows.append(
                [
                    ASKED.get(name, f"`{name}`"),
                    words,
                    *(f"{scale * own[seed]:.{digits}f}" if seed in own else "–" for seed in seeds),
                    f"{scale * told_of['mean']:.{digits}f}",
                    f"{scale * told_of['spread']:.{digits}f}",
                    points(pooled) if scale == 100 else interval(pooled, digits),
                    str(told_of.get("prompts", figures["prompts"])),
                ]
            )
    columns = ["asked", "measured", *(f"seed {seed}" for seed in seeds), "mean", "spread", "all, 95 %", "prompts"]
    yield table(columns, rows)
