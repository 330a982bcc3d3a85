"""Of the page of structured answers: what is right in each mode, and the guide's table of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from structured_saved import EARLIER, MODES, RESULTS, WORDS, load, table

from pasta.data.rows import read_rows
from pasta.eval.extraction.summary import ALL, summarise
from pasta.structured.trial import ALIKE, TRIAL

SETS: dict[str, str] = WORDS["sets"]
SLACK = 0.02  # of the fields, that parallel may have fewer right
MAIN = ("parallel", "after", "sequential")  # all other modes of the rows are ways between these

Rows = list[dict[str, Any]]
Pairs = list[tuple[dict[str, Any], dict[str, Any]]]  # of a prompt: the row in parallel, and the sequential one


@cache
def quality_rows() -> Rows:
    return list(read_rows(str(RESULTS / "structured-quality.rows.jsonl.xz")))


@cache
def quality_models() -> dict[str, Any]:
    """By model, the figures of its sets in the main modes."""
    models: dict[str, Any] = summarise([row for row in quality_rows() if row["mode"] in MAIN])["models"]
    return models


def quality() -> Iterator[str]:
    rows, models = quality_rows(), quality_models()
    predictions = load("structured-predictions.json") or {}
    predicted = predictions.get("points_over_sequential", {})
    yield WORDS["quality"].format(code=code_of(rows))
    told = {name for sets in models.values() for name in sets}
    yield "\n".join(f"- `{name}`: {about}." for name, about in SETS.items() if name in told) + "\n"
    for model, sets in models.items():
        yield f"### {model}\n"
        first = model == next(iter(models))
        columns = ["set", "prompts", "fields", "sequential", "parallel", "points", "after", "points", "steps", "fewer"]
        yield table(columns + (["predicted"] if first else []), list(_quality_rows(sets, predicted if first else None)))
    tried = trials()
    yield WORDS["quality_notes"].format(worse="\n".join(_worse(models, tried)))
    yield from toldways_of(rows, predictions.get("ways", {}))
    yield from told_trials(tried)
    yield from told_choices(rows)


def code_of(rows: Rows) -> str:
    """The code that most rows are of, and which are of another."""
    made: dict[str, set[str]] = {}
    for row in rows:
        made.setdefault(row.get("code", EARLIER), set()).add(f"`{row['set']}` of {row['model']}")
    latest = max(made, key=lambda code: len(made[code]))
    others = [f"{', '.join(sorted(which))} of {code}" for code, which in made.items() if code != latest]
    return latest + "".join(f";\n{each}" for each in others)


def toldways_of(rows: Rows, predicted: dict[str, Any]) -> Iterator[str]:
    """The modes between parallel and sequential: a line for each set and mode, over the prompts it has."""
    if not any(row["mode"] not in MAIN for row in rows):
        return
    yield WORDS["ways"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    for model in models:
        lines = []
        own = [row for row in rows if row["model"] == model]
        for name in SETS:
            of_set = [row for row in own if row["set"] == name]
            for mode in dict.fromkeys(row["mode"] for row in of_set if row["mode"] not in MODES):
                if all(row["mode"] in MAIN for row in of_set):
                    continue
                [sets] = summarise([row for row in of_set if row["mode"] in (*MODES, mode)])["models"].values()
                modes = sets[name]["modes"]
                said = predicted.get(mode, {}).get(name) if model == models[0] else None
                lines.append(
                    [
                        f"`{name}`",
                        str(sets[name]["fields"]),
                        f"`{mode}`",
                        points(modes["parallel"]["over_sequential"]),
                        points(modes[mode]["over_sequential"]),
                        " / ".join(f"{modes[each]['steps']:.1f}" for each in ("sequential", "parallel", mode))
                        + (f" ({modes[mode]['checked_steps']:.1f})" if "checked_steps" in modes[mode] else ""),
                        f"{modes['parallel']['fewer_steps']:.1f} / {modes[mode]['fewer_steps']:.1f}",
                        "" if said is None else f"{said:+g}",
                    ]
                )
        if lines:
            yield f"{model}:\n"
            columns = ["set", "fields", "rule", "parallel, points", "rule, points", "steps", "fewer", "predicted"]
            yield table(columns, lines)


def _worse(models: dict[str, Any], tried: dict[str, Any]) -> Iterator[str]:
    """The sets that lose more than `SLACK`, and what of it is left where fields are named, described, or see others."""
    for model, sets in models.items():
        for name, own in sets.items():
            lost = own["modes"]["parallel"]["over_sequential"]
            if name == ALL or lost["value"] >= -100 * SLACK or name.endswith("-named"):
                continue
            ways = ways_of(model, name)
            mended = [("with `after`", own["modes"].get("after"))]
            mended += [(WORDS["mended"][way], ways.get(way)) for way in ("lead", "leftover", "twice")]
            if model == next(iter(models)) and name in tried:
                mended += [("described", tried[name]["modes"]["described"])]
            if (named := sets.get(f"{name}-named")) is not None:
                mended += [("named by its question", named["modes"]["parallel"])]
                mended += [("named, with `after`", named["modes"].get("after"))]
                mended += [("named, decoded twice", ways_of(model, f"{name}-named").get("twice"))]
            told = [f"{how} {points(each['over_sequential'])}" for how, each in mended if each is not None]
            yield f"- {model}, `{name}`: {points(lost)}; {'; '.join(told) or 'nothing was tried'}."


@cache
def trials() -> dict[str, Any]:
    """What threads see, tried with the first model: against its own sequential rows, by set."""
    tried = list(read_rows(str(RESULTS / "structured-trials.rows.jsonl.xz")))
    first, sets = tried[0]["model"], {row["set"] for row in tried}
    own = [row for row in quality_rows() if row["model"] == first and row["set"] in sets and row["mode"] in MODES]
    found: dict[str, Any] = summarise(own + tried)["models"][first]
    return found


def told_trials(found: dict[str, Any]) -> Iterator[str]:
    modes = ("parallel", "described", "ellipsis", "comment")
    lines = []
    for name, own in found.items():
        shown = own["modes"]
        line = [f"`{name}`", percent(shown["sequential"])]
        line += [points(shown[mode]["over_sequential"]) for mode in modes]
        lines.append([*line, " / ".join(f"{shown[mode]['steps']:.1f}" for mode in modes)])
    yield WORDS["trials"]
    yield table(["set", "sequential", *modes, "steps"], lines)
    squad = found["squad"]["modes"]
    yield WORDS["trial_notes"].format(squad_f1=100 * (squad["described"]["f1"] - squad["parallel"]["f1"]))


def told_choices(rows: Rows) -> Iterator[str]:
    first, *others = dict.fromkeys(row["model"] for row in rows)
    sets = pairs_of(rows, first)
    yield WORDS["choosing"].format(
        trial=TRIAL, slack=100 * SLACK, alike=100 * ALIKE, **choice(sets, lambda trial: -gained(trial) > 100 * SLACK),
        agreed=choice(sets, lambda trial: agreement(trial) < ALIKE),
    )  # fmt: skip
    lines = [
        [f"`{name}`", *(f"{100 * agreement(each):.0f}%" for each in (own[:TRIAL], own)), f"{gained(own):+.1f}"]
        for name, own in sets.items()
    ]
    yield table(["set", f"agreement on the first {TRIAL}", "on all", "points, parallel"], lines)
    for other in others:
        found = choice(pairs_of(rows, other), lambda trial: agreement(trial) < ALIKE)
        yield WORDS["choosing_other"].format(model=other, **found)


def pairs_of(rows: Rows, model: str) -> dict[str, Pairs]:
    """By set, the prompts of a model that were answered both ways."""
    prompts: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["model"] == model:
            prompts.setdefault((row["set"], row["id"]), {})[row["mode"]] = row
    out: dict[str, Pairs] = {}
    for (name, _), modes in prompts.items():
        if set(MODES) <= set(modes):
            out.setdefault(name, []).append((modes["parallel"], modes["sequential"]))
    return out


def choice(sets: dict[str, Pairs], loses: Callable[[Pairs], bool]) -> dict[str, Any]:
    """Each set in parallel, unless its first prompts speak against it: what that gives over the other prompts."""
    chosen, every, sequential = [], [], []
    for name, own in sets.items():
        lost = loses(own[:TRIAL])
        sequential += [f"`{name}`"] if lost else []
        chosen += [(other if lost else one, other) for one, other in own[TRIAL:]]
        every += own[TRIAL:]
    return {
        "sequential": ", ".join(sequential) or "none", "points": gained(chosen), "fewer": fewer(chosen),
        "all_points": gained(every), "all_fewer": fewer(every),
    }  # fmt: skip


def agreement(pairs: Pairs) -> float:
    """The share of fields that both ways say the same of, over the prompts that no limit cut."""
    told = [(one["said"].split(), other["said"].split()) for one, other in pairs if "said" in one and "said" in other]
    same = [each == its for ours, theirs in told for each, its in zip(ours, theirs, strict=True)]
    return sum(same) / len(same)


def share(rows: list[dict[str, Any]]) -> float:
    """Of fields that are right."""
    marks = [mark[0] for row in rows for mark in row["marks"].values()]
    return sum(marks) / len(marks)


def gained(pairs: Pairs) -> float:
    return 100 * (share([one for one, _ in pairs]) - share([other for _, other in pairs]))


def fewer(pairs: Pairs) -> float:
    return statistics.geometric_mean([other["steps"] / one["steps"] for one, other in pairs])


def _quality_rows(sets: dict[str, Any], predicted: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in sets.items():
        modes = own["modes"]
        parallel, after = modes["parallel"], modes.get("after")
        row = [f"`{name}`", str(own["prompts"]), str(own["fields"]), percent(modes["sequential"]), percent(parallel)]
        row += [points(parallel["over_sequential"])]
        row += [percent(after), points(after["over_sequential"])] if after else ["", ""]
        row += [steps(modes), f"{parallel['fewer_steps']:.1f}" + (f" / {after['fewer_steps']:.1f}" if after else "")]
        if predicted is not None:
            said = [predicted[mode].get(name) for mode in ("parallel", "after") if mode in predicted]
            row += [" / ".join(f"{each:+g}" for each in said if each is not None)]
        yield row


def ways_of(model: str, name: str) -> dict[str, Any]:
    """The ways of a set between parallel and sequential, each over the prompts it has."""
    own = [row for row in quality_rows() if (row["model"], row["set"]) == (model, name)]
    out = {}
    for mode in dict.fromkeys(row["mode"] for row in own if row["mode"] not in MAIN):
        kept = [row for row in own if row["mode"] in (*MODES, mode)]
        out[mode] = summarise(kept)["models"][model][name]["modes"][mode]
    return out


def percent(figures: dict[str, Any]) -> str:
    """With F1 in brackets, where that is another."""
    exact, f1 = 100 * figures["exact"], 100 * figures["f1"]
    return f"{exact:.1f}" if abs(exact - f1) < 0.05 else f"{exact:.1f} (F1 {f1:.1f})"


def points(figure: dict[str, float]) -> str:
    return f"{figure['value']:+.1f} [{figure['low']:+.1f}, {figure['high']:+.1f}]"


def steps(modes: dict[str, Any]) -> str:
    return " / ".join(f"{modes[mode]['steps']:.1f}" for mode in ("sequential", "parallel", "after") if mode in modes)
