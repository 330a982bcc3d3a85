"""results.md: what the evaluations say together. Its words stand in results.toml; every number in them is looked up.

A number in the words is a place in the saved figures, named in the table `figures` of results.toml or in full:
`{sums[over_reference]:points}`, `{default[models][today][realised_speedup]}`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results_asked import CHAT, JUDGE, TASKS, asked, clock_of

from pasta.eval.goals import CHAT_SPEED, SPEEDS
from pasta.eval.lengths import of_promises
from pasta.eval.report import interval, percent, points
from pasta.eval.task_page import RIVALS, share, table

Figures = dict[str, Any]
DOCS = Path(__file__).parent
WORDS = tomllib.loads((DOCS / "results.toml").read_text("utf-8"))


#: How a figure with an interval is written.
WAYS: dict[str, Callable[[Any], str]] = {
    "": interval,
    "1": lambda figure: interval(figure, 1),
    "value": lambda figure: f"{figure['value']:.2f}",
    "point": lambda figure: f"{100 * figure['value']:.1f}",
    "points": points,
    "percent": percent,
    "prompts": lambda figure: str(figure["prompts"]),
}


class Told(dict[str, Any]):
    """Figures that a template can look up, and write in one of these ways."""

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        return Told(found) if isinstance(found, dict) else found

    def __format__(self, way: str) -> str:
        return WAYS[way](self)


def summary_page(
    found: dict[str, Figures], seeds: dict[str, Figures], lengths_known: Figures, told: dict[str, Figures]
) -> str:
    """found: figures by evaluation; seeds: of `again`, `seeds`, `before`; told: title and words of each evaluation."""
    known = Told({**{name.replace("-", "_"): figures for name, figures in found.items()}, "seeds": seeds})
    for name, place in WORDS["figures"].items():
        whole = known
        for key in place:
            whole = whole[key]
        known[name] = whole
    first, before = found[WORDS["headline"]], found[WORDS["before"]]
    tables = {
        "asked_table": asked(found, first),
        "tasks_table": tasks(first["tasks"] | first["together"]),
        "timed_table": timed({when: found[name] for when, name in WORDS["timed"].items()}),
        "rivals_table": rivals(before),
        "seeds_again_table": over_seeds(seeds["again"]),
        "seeds_table": over_seeds(seeds["seeds"]),
        "seeds_before_table": over_seeds(seeds["before"]),
        "chats_table": chats(found, WORDS["chats"]),
        "stage_two_table": chats(found, WORDS["stage_two"]),
        "lengths_table": lengths(before, lengths_known),
        "default_table": default(found),
        "baselines_table": over_baselines(found),
        "pages_table": pages(told),
    }
    return str(WORDS["page"]).lstrip("\n").format(**tables, **{key: known[key] for key in known})


def tasks(found: dict[str, Figures], *, brief: bool = False) -> str:
    """One model against the baseline: a line for each task that both were marked on. brief: as in the README."""
    rows = []
    for task, asked_for in TASKS.items():
        told = found.get(task, {}).get(MODEL)
        if not told or not told["over_reference"]:
            continue
        over = told["over_reference"]
        cells = [
            points(over) if brief else f"{points(over)} ({over['prompts']})",
            points(told["end_over_reference"]),
            counted(told["realised_speedup"]),
            interval(told["theoretical_speedup"]),
            f"{told['length_factor']['value']:.2f}",
        ]
        rows.append(
            [asked_for, *cells, *([] if brief else [f"{percent(told['forking'])}; {percent(told['syncing'])}"])]
        )
    return table([HEAD, *COLUMNS, *([] if brief else ["fork; sync"])], rows)


MODEL = "pasta"  # what the 1.5B model is called in its evaluations
HEAD = "one prompt asks for"
COLUMNS = [
    "accuracy vs. baseline (points)", "final part vs. baseline (points)", "realised speedup (prompts)",
    "theoretical speedup", "length ratio",
]  # fmt: skip


def timed(by_time: dict[str, Figures]) -> str:
    """The clock of the adapters that shipped, one after another; the last is the one that does."""
    rows = []
    *_, last = by_time.values()
    for task in last["tasks"]:
        clocks = [clock_of(summary, task) for summary in by_time.values()]
        if any(clocks):
            asked_for = next((str(speeds[0]) for kind, speeds in SPEEDS.items() if task.startswith(kind)), "–")
            rows.append([TASKS[task], asked_for, *map(counted, clocks)])
    clocks = [summary["models"]["pasta"]["realised_speedup"] for summary in by_time.values()]
    rows.append([CHAT, str(CHAT_SPEED), *map(counted, clocks)])
    return table([HEAD, "target", *by_time], rows)


def counted(clock: Figures | None) -> str:
    return f"{interval(clock)} ({clock['prompts']})" if clock else "–"


def rivals(first: Figures) -> str:
    """Points over the baseline, of correct parts or of the final part."""
    rows = []
    for model, words in WORDS["rivals"].items():
        cells = [first["tasks"].get(task, {}).get(model, {}).get(key) for task, key, _ in RIVALS]
        speed = first["tasks"][RIVALS[0][0]][model]["theoretical_speedup"]
        rows.append([f"`{model}`: {words}", *map(points, cells), f"{speed['value']:.2f}"])
    asked_for = [("final part: " if key == "end_over_reference" else "") + TASKS[task] for task, key, _ in RIVALS]
    return table(["model", *asked_for, f"theoretical speedup, {TASKS[RIVALS[0][0]]}"], rows)


def over_seeds(seeds: Figures) -> str:
    kinds = (
        ("over_reference", "accuracy vs. baseline (points)", 100),
        ("end_over_reference", "final part vs. baseline (points)", 100),
        ("wins", "win rate (%)", 1),
        ("realised_speedup", "realised speedup", 1),
    )
    rows = []
    for task, figures in seeds.items():
        for key, words, scale in kinds:
            if kind := figures.get(key):
                digits = 2 if key == "realised_speedup" else 1
                each = " / ".join(f"{scale * value:.{digits}f}" for value in kind["each"])
                pooled = points(kind["pooled"]) if scale == 100 else interval(kind["pooled"], digits)
                rows.append([TASKS.get(task, CHAT), words, each, pooled, str(kind.get("prompts", figures["prompts"]))])
    return table([HEAD, "measure", "each seed", "all seeds [95% interval]", "prompts"], rows)


def chats(found: dict[str, Figures], shown: dict[str, dict[str, str]]) -> str:
    """Who was asked the 600 chats, each against the reference of its evaluation.

    shown: of each evaluation, what its models are.
    """
    rows = []
    for name, models in shown.items():
        summary = found[name]
        for model, words in models.items():
            own = summary["models"][model]
            rows.append(
                [
                    f"{words} ([`{model}`](results/{name}.md))",
                    f"`{summary['against']}`",
                    interval(own["judged"][JUDGE]["lc_win_rate"], 1),
                    interval(own["realised_speedup"]),
                    interval(own["theoretical_speedup"]),
                    interval(own["length_factor"]),
                    percent(own["redundancy"]["blocks_repeat"]),
                ]
            )
    columns = [
        "model", "against", "win rate (%)", "realised speedup", "theoretical speedup", "length ratio",
        "repeated blocks",
    ]  # fmt: skip
    return table(columns, rows)


def lengths(first: Figures, known: Figures) -> str:
    """Promised lengths of an adapter, task by task; and what its distribution over lengths is worth."""
    rows = [
        [TASKS[task], *of_lengths(models["pasta"]["promises"]), of_probed(known, task)]
        for task, models in first["tasks"].items()
        if models["pasta"]["promises"]
    ]
    chat = first["prompts"]
    rows.append([CHAT, *of_lengths(first["models"]["pasta"]["promises"]), of_probed(known, chat)])
    rows.append(["all tasks together", *of_lengths(first["promises"]["pasta"]), "–"])
    columns = [
        "blocks", "correlation", "mean error", "of the best constant",
        "mean error of mode / median / best constant (blocks probed)",
    ]  # fmt: skip
    return table([HEAD, *columns], rows)


def of_lengths(told: Figures) -> list[str]:
    errors = [f"{told[key]:.1f}" for key in ("mean_error", "mean_error_constant")]
    return [str(told["blocks"]), f"{told['correlation']:.2f}", *errors]


def of_probed(known: Figures, prompts: str) -> str:
    """Mean errors over the blocks whose distribution was saved."""
    saved = [dict(zip(known["columns"], row, strict=True)) for row in known["rows"] if row[0] == prompts]
    likeliest, median = (of_promises((row[way], row["written"]) for row in saved) for way in ("likeliest", "median"))
    if not likeliest or not median:
        return "–"
    errors = [likeliest["mean_error"], median["mean_error"], likeliest["mean_error_constant"]]
    return " / ".join(f"{error:.1f}" for error in errors) + f" ({len(saved)})"


def default(found: dict[str, Figures]) -> str:
    """The default model beside its baselines and itself without tags."""
    rows = []
    for name, model, words in WORDS["defaults"]:
        own = found[name]["models"][model]
        reference = model == found[name]["against"]
        rows.append(
            [
                f"{words} ([`{model}`](results/{name}.md))",
                "50" if reference else interval(own["judged"][JUDGE]["lc_win_rate"], 1),
                interval(own["realised_speedup"]),
                interval(own["theoretical_speedup"]),
                percent(own["forking"]),
                *(share(own["redundancy"].get(key)) for key in ("blocks_repeat", "lists_repeat", "topics_unclean")),
            ]
        )
    columns = [
        "model", "win rate (%)", "realised speedup", "theoretical speedup", "answers that fork", "repeated blocks",
        "repeated list items", "unclean topics",
    ]  # fmt: skip
    return table(columns, rows)


def over_baselines(found: dict[str, Figures], *, brief: bool = False) -> str:
    """The default model against each of its baselines. brief: as in the README."""
    rows = []
    for name, model, words, place in WORDS["baselines"]:
        own = found[name]["models"][model]
        other = found[name]["elsewhere"][model][place] if place else None  # counted in steps alone
        figures = other or own
        win = None if other else own["judged"][JUDGE]["lc_win_rate"]
        rows.append(
            [
                words if brief else f"[{words}](results/{place.partition('/')[0] or name}.md)",
                counted(None if other else own["realised_speedup"]),
                interval(figures["theoretical_speedup"]),
                f"{figures['length_factor']['value']:.2f}" if brief else interval(figures["length_factor"]),
                interval(win, 1),
            ]
        )
    columns = ["realised speedup (prompts)", "theoretical speedup", "length ratio", "win rate (%)"]
    return table([BASELINE, *columns], rows)


BASELINE = "baseline finetuned on"


def pages(told: dict[str, Figures]) -> str:
    """Each evaluation with its page, and whether it stands."""
    rows = []
    for name, own in told.items():
        about = " ".join(own["about"].strip().partition("\n\n")[0].strip("*").split())
        rows.append([f"[{own['title']}](results/{name}.md)", about.replace("](", "](results/")])
    return table(["evaluation", "what it is, and whether it stands"], rows)
