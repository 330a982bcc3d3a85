"""Makes structured-results.md from what is saved of structured answers (`benchmarks/results/structured-*`):

    python pasta/docs/make_structured.py

The words around the numbers stand in structured-results.toml, the numbers in the files that each section names.
"""

from __future__ import annotations

import json
import statistics
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pasta.data.rows import read_rows
from pasta.eval.extraction.summary import ALL, summarise
from pasta.structured.trial import ALIKE, TRIAL

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PAGE = DOCS / "structured-results.md"
GUIDE = DOCS / "structured.md"
MADE = "<!-- made by make_structured.py -->"  # before and after the guide's table of quality
WORDS = tomllib.loads((DOCS / "structured-results.toml").read_text("utf-8"))
SETS: dict[str, str] = WORDS["sets"]

EARLIER = "16 November 2026 (commit adc7849)"  # that made vLLM's figures, and those of quality whose rows name no code
CODE = "16 November 2026 (commit 92368e5, with engine/cuda of e673075)"  # that made the figures of speed
NEWER = "commit 92368e5"  # that made those beside another process
ASKED = 3.0  # times over sequential, one object at a time

MODES = ("parallel", "sequential")
SLACK = 0.02  # of the fields, that parallel may have fewer right
MAIN = ("parallel", "after", "sequential")  # all other modes of the rows are ways between these


def main() -> None:
    PAGE.write_text(page(), "utf-8")
    text = GUIDE.read_text("utf-8")
    before, after = text.partition(MADE)[0], text.rpartition(MADE)[2]
    GUIDE.write_text(f"{before}{MADE}\n{guide()}{MADE}{after}", "utf-8")


def page() -> str:
    return "\n".join([WORDS["intro"], *quality(), *speed(), *schemas(), *libraries()])


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# -- quality -----------------------------------------------------------------------------------------------


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
    yield from told_ways(rows, predictions.get("ways", {}))
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


def told_ways(rows: Rows, predicted: dict[str, Any]) -> Iterator[str]:
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
            columns = ["set", "fields", "way", "parallel, points", "way, points", "steps", "fewer", "predicted"]
            yield table(columns, lines)


def _worse(models: dict[str, Any], tried: dict[str, Any]) -> Iterator[str]:
    """The sets that lose more than `SLACK`, and what of it is left where fields are named, described, or see others."""
    for model, sets in models.items():
        for name, own in sets.items():
            lost = own["modes"]["parallel"]["over_sequential"]
            if name == ALL or lost["value"] >= -100 * SLACK or name.endswith("-named"):
                continue
            ways = _ways(model, name)
            mended = [("with `after`", own["modes"].get("after"))]
            mended += [(WORDS["mended"][way], ways.get(way)) for way in ("lead", "leftover", "twice")]
            if model == next(iter(models)) and name in tried:
                mended += [("described", tried[name]["modes"]["described"])]
            if (named := sets.get(f"{name}-named")) is not None:
                mended += [("named by its question", named["modes"]["parallel"])]
                mended += [("named, with `after`", named["modes"].get("after"))]
                mended += [("named, looked at twice", _ways(model, f"{name}-named").get("twice"))]
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
        [f"`{name}`", *(f"{100 * agreement(each):.0f} %" for each in (own[:TRIAL], own)), f"{gained(own):+.1f}"]
        for name, own in sets.items()
    ]
    yield table(["set", f"the same in the first {TRIAL}", "in all", "points, parallel"], lines)
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


def guide() -> str:
    """The guide's table: exact matches of the first model, in parallel less sequentially, and what gives them back."""
    models, tried = quality_models(), trials()
    first, *others = models
    lines = []
    for line in WORDS["guide"]:
        own = [models[first][name]["modes"] for name in line["sets"]]
        lost = sorted(modes["parallel"]["over_sequential"]["value"] for modes in own)
        cell = f"{lost[0]:+.1f}" + (f" to {lost[-1]:+.1f}" if len(lost) > 1 else "")
        mended = {**tried.get(line["sets"][0], {"modes": {}})["modes"], **own[0], **_ways(first, line["sets"][0])}
        for mode in line.get("mended", ()):
            if mode in mended:
                cell += f"; {WORDS['mended'][mode]} {mended[mode]['over_sequential']['value']:+.1f}"
        lines.append([line["fields"], cell])
    made = table(["fields", "exact matches, in parallel less sequentially, points"], lines)
    for other in others:
        every = models[other][ALL]
        over = every["modes"]["parallel"]["over_sequential"]["value"]
        made += WORDS["guide_other"].format(model=other, points=over, fields=every["fields"])
    return made


def _ways(model: str, name: str) -> dict[str, Any]:
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


# -- speed -------------------------------------------------------------------------------------------------


def speed() -> Iterator[str]:
    reports = [path for path in sorted(RESULTS.glob("structured-speed-*.json")) if "predictions" not in path.name]
    if not reports:
        return
    yield WORDS["speed"].format(code=CODE, earlier_code=EARLIER)
    for path in reports:
        ours = json.loads(path.read_text("utf-8"))
        theirs, phases, earlier = (load(path.name.replace("speed", kind)) for kind in ("vllm", "phases", "earlier"))
        yield f"### {ours['model']}\n"
        yield (
            f"`benchmarks/results/{path.name}`"
            + (f", `{path.name.replace('speed', 'vllm')}`" if theirs else "")
            + ".\n"
        )
        columns = ["set", "fields", "", "one, ms", "32, objects/s", "steps", "tokens decoded", "tokens put"]
        yield table([*columns, "constraint, ms"], list(_speed_rows(ours, theirs)))
        columns = ["set", "over sequential, one", "32", "fewer steps", "alone, fixed, ms", "a step, ms"]
        yield table([*columns, *(["over vLLM, one", "32"] if theirs else [])], list(_ratios(ours, theirs)))
        if theirs:
            yield WORDS["vllm_notes"].format(**_of_vllm(ours, theirs))
        if phases and earlier:
            yield WORDS["speed_notes"].format(**_of_phases(ours, phases), **_of_earlier(ours, earlier))
            yield from _of_newer(phases)
            yield from _of_many(phases)


def _of_vllm(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    sets = theirs["sets"].values()
    steps = [own["ms_an_object"] / own["tokens_an_object"] for own in sets]
    tokens = [own["tokens_an_object"] for own in sets]
    return {
        "version": theirs["vllm"],
        "backend": theirs["backend"],
        "tokens": between(tokens, 0),
        "step": between(steps, 1),
        "own": between([_fixed(own)[1] for own in ours["sets"].values()], 1),
    }


def _of_phases(ours: dict[str, Any], phases: dict[str, Any]) -> dict[str, Any]:
    """Where an object's time goes, and what prompts within steps give."""
    fixed = [_fixed(own)[0] for own in ours["sets"].values()]
    parts = [own for name, own in phases["phases"].items() if name.endswith("parallel")]
    gains = {name: own["one_at_a_time"]["speedup"]["value"] for name, own in ours["sets"].items()}
    having = [f"`{name}`" for name, gain in gains.items() if gain >= ASKED]
    lacking = [f"`{name}` has {gain:.2f}" for name, gain in gains.items() if gain < ASKED]
    lines = []
    for name in ours["sets"]:
        pairs = []
        for where in ("before", "in"):
            each = [statistics.fmean(phases["prompts_in_steps"][f"{name}, {mode}, {where}"]) for mode in MODES]
            pairs.append(f"{each[0]:.1f} / {each[1]:.1f} ({each[1] / each[0]:.1f})")
        lines.append([f"`{name}`", f"{ours['sets'][name]['prompt_tokens']:.0f}", *pairs])
    columns = ["set", "prompt tokens", "before the step: parallel / sequential", "in the step"]
    masks = load("structured-masks.json")
    assert masks is not None
    sides = [masks[side] for side in ("before", "after")]
    return {
        "cpu": on_cpu(masks["machine"]),
        "dates": [side["dates"]["ms_an_object"] for side in sides],
        "coqa": [side["coqa"]["first_step_ms"] for side in sides],
        "fixed": between(fixed, 0),
        "first": between([own["last"]["steps"][0] for own in parts], 1),
        "make": between([own["make_ms"] for own in parts], 1),
        "has": ", ".join([f"{' and '.join(having)} {'has' if len(having) == 1 else 'have'} it", *lacking]),
        "same": " of ".join(map(str, phases["same_answers"])),
        "trial": "\n".join("  " + line for line in table(columns, lines).rstrip("\n").split("\n")),
    }


def _of_earlier(ours: dict[str, Any], earlier: dict[str, Any]) -> dict[str, str]:
    """The code before this one, by its own run."""
    lines, slower = [], []
    for name, own in ours["sets"].items():
        before = earlier["sets"][name]
        one, many = (f"{before['one_at_a_time'][mode]['ms_an_object']:.1f}" for mode in MODES), before["many_at_once"]
        line = [f"`{name}`", " / ".join(one), f"{before['one_at_a_time']['speedup']['value']:.2f}"]
        lines.append([*line, " / ".join(f"{many[mode]['objects_a_second']:.0f}" for mode in MODES)])
        if all(own["many_at_once"][mode]["objects_a_second"] < many[mode]["objects_a_second"] for mode in MODES):
            slower.append(f"`{name}`")
    columns = ["set", "one, ms: parallel / sequential", "over sequential", "32, objects/s: parallel / sequential"]
    told = f"{' and '.join(slower)} {'gives' if len(slower) == 1 else 'give'}"
    return {
        "earlier_code": EARLIER,
        "earlier": table(columns, lines).rstrip("\n"),
        "slower": WORDS["speed_slower"].format(sets=told) if slower else "",
    }


def _of_many(phases: dict[str, Any]) -> Iterator[str]:
    """Where the time of many objects goes."""
    if own := phases.get("phases_at_once"):
        lines = []
        for name, each in own.items():
            first, *others = each["last"]["steps"]
            spent = (each["make_ms"], each["state_ms"], first, sum(others), each["last"]["result"])
            lines.append([name.removesuffix(" at once"), *(f"{part:.0f}" for part in spent)])
        told = table(["objects", "making requests", "their threads", "first step", "others", "results"], lines)
        prompts = [each["last"]["prompt's pass, host"][0] for each in own.values()]
        yield WORDS["speed_at_once"].format(phases=told.rstrip("\n"), prompts=statistics.fmean(prompts))


def _of_newer(phases: dict[str, Any]) -> Iterator[str]:
    """The step that came after the one of the figures: by a run beside another process, and what was predicted."""
    newer, its_phases = load("structured-newer-qwen15.json"), load("structured-newer-phases-qwen15.json")
    predicted = load("structured-predictions-speed.json")
    if newer is None or its_phases is None or predicted is None:
        return
    lines = []
    for name, own in newer["sets"].items():
        one, many = own["one_at_a_time"], own["many_at_once"]
        kinds = ("one_at_a_time_ms", "over_sequential", "many_at_once_objects_a_second")
        said = [predicted[kind][name] for kind in kinds]
        lines.append(
            [
                f"`{name}`",
                " / ".join(f"{one[mode]['ms_an_object']:.1f}" for mode in MODES),
                " / ".join(f"{each:g}" for each in said[0]),
                f"{one['speedup']['value']:.2f}",
                f"{said[1]:g}",
                " / ".join(f"{many[mode]['objects_a_second']:.0f}" for mode in MODES),
                " / ".join(f"{each:g}" for each in said[2]),
            ]
        )
    columns = ["set", "one, ms: parallel / sequential", "predicted", "over sequential", "predicted"]
    told = table([*columns, "32, objects/s: parallel / sequential", "predicted"], lines)
    parts, waits = [], []
    for which, found in (("of the figures above", phases), ("newer", its_phases)):
        for mode in MODES:
            own = found["phases"][f"arc, {mode}"]
            last = own["last"]
            first, *others = last["steps"]
            spent = (own["make_ms"], own["state_ms"], first, sum(others), last["result"])
            parts.append([f"{which}, {mode}", *(f"{each:.1f}" for each in spent), f"{sum(spent):.1f}"])
            if mode == "parallel":
                busy = sum(last[each][0] for each in ("graph fill", "launches", "masks"))
                waits.append(last["engine.step"][0] - busy)
    columns = ["`arc`", "making the request", "its threads", "first step", "others", "result", "in all"]
    yield WORDS["speed_newer"].format(
        code=NEWER, newer=told.rstrip("\n"), parts=table(columns, parts).rstrip("\n"),
        missing=(predicted["over_sequential"]["arc"], newer["sets"]["arc"]["one_at_a_time"]["speedup"]["value"]),
        waits=between(waits, 1), first=predicted["arc_first_step_ms"], make=predicted["arc_making_the_request_ms"],
    )  # fmt: skip


def on_cpu(machine: dict[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores"


def between(numbers: list[float], digits: int) -> str:
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def _fixed(own: dict[str, Any]) -> tuple[float, float]:
    """What an object alone takes beside its steps, and each of them: in milliseconds, by the two modes."""
    times = [own["one_at_a_time"][mode]["ms_an_object"] for mode in ("sequential", "parallel")]
    counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
    step = (times[0] - times[1]) / (counted[0] - counted[1])
    return times[1] - step * counted[1], step


def _speed_rows(ours: dict[str, Any], theirs: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in ours["sets"].items():
        for mode in ("parallel", "sequential"):
            counted = own["counts"][mode]
            yield [
                f"`{name}`", f"{own['fields']:.0f}", mode, f"{own['one_at_a_time'][mode]['ms_an_object']:.1f}",
                f"{own['many_at_once'][mode]['objects_a_second']:.0f}", f"{counted['steps']:.1f}",
                f"{counted['decoded_tokens']:.1f}", f"{counted['forced_tokens']:.1f}",
                f"{counted['constraint_ms']:.2f}",
            ]  # fmt: skip
        if theirs and name in theirs["sets"]:
            vllm = theirs["sets"][name]
            tokens = f"{vllm['tokens_an_object']:.1f}"
            yield [
                f"`{name}`", f"{own['fields']:.0f}", "vLLM", f"{vllm['ms_an_object']:.1f}",
                f"{vllm['many_objects_a_second']:.0f}", tokens, tokens, "0", "",
            ]  # fmt: skip


def _ratios(ours: dict[str, Any], theirs: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in ours["sets"].items():
        one, many = own["one_at_a_time"], own["many_at_once"]
        figure = one["speedup"]
        counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
        fixed, step = _fixed(own)
        row = [
            f"`{name}`",
            f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]",
            f"{many['speedup']:.2f}",
            f"{counted[0] / counted[1]:.1f}",
            f"{fixed:.0f}",
            f"{step:.2f}",
        ]
        vllm = theirs["sets"].get(name) if theirs else None
        if vllm:
            row += [
                f"{vllm['ms_an_object'] / one['parallel']['ms_an_object']:.2f}",
                f"{many['parallel']['objects_a_second'] / vllm['many_objects_a_second']:.2f}",
            ]
        yield row


# -- libraries -------------------------------------------------------------------------------------------------


def schemas() -> Iterator[str]:
    files = {path.name: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("structured-schemas-*.json")}
    if not files:
        return
    yield WORDS["schemas"].format(**next(iter(files.values())))
    for closes in (True, False):
        chosen = [name for name in sorted(files) if (files[name].get("at_limit") == "close") is closes]
        if chosen:
            yield WORDS["closed" if closes else "cut"].format(**{"max_tokens": 800, **files[chosen[0]]})
        for name in chosen:
            yield from _decoded(name, files[name], closes)


def _decoded(name: str, found: dict[str, Any], closes: bool) -> Iterator[str]:
    who = f"`{found['model']}`"
    if found["model"] == "random":
        who = WORDS["random"] + ("" if closes else WORDS["favoured"])
    yield f"By {who} (`{name}`):\n"
    kinds = ("valid", "cut by the limit", "invalid", "exceptions", "threads", *(("values", "closed") if closes else ()))
    rows = []
    for way, own in found["decoded"].items():
        seen = f"{own.get('seen', found['supported'])} of {found['supported']}"
        rows.append([way, seen, *(str(own.get(kind, 0)) for kind in kinds)])
    yield table(["decoded", "schemas", *kinds], rows)
    if isinstance(parts := found["machine"].get("sampled"), list):
        told = [f"{count} on {where if isinstance(where, str) else on_cpu(where)}" for count, where in parts]
        yield f"Greedy on {found['machine']['greedy']}; of those sampled {', '.join(told)}.\n"
    wrong = dict.fromkeys(line for own in found["decoded"].values() for line in own["wrong"])
    yield from (f"- {line.partition(':')[0]}: `{line.partition(': ')[2][:160]}`" for line in wrong)
    yield "" if wrong else "No answer was invalid, and nothing raised.\n"


def libraries() -> Iterator[str]:
    files = [found for name in ("constraint-libraries.json", "constraint-llguidance.json") if (found := load(name))]
    if not files:
        return
    yield WORDS["libraries"].format(machine=files[0]["machine"]["cpu"])
    rows = []
    for found in files:
        for tokenizer, own in found["tokenizers"].items():
            for library in found["versions"]:
                figures = own[library]
                right = [figures["valid_accepted"], figures["invalid_refused"]]
                times = [f"{figures['build_ms'][which]:.1f}" for which in ("median", "p99")]
                times += [f"{figures['mask_us'][which]:.0f}" for which in ("median", "p99")]
                rows.append(
                    [
                        f"{library} ({found['versions'][library]})",
                        tokenizer,
                        f"{figures['taken']} of {found['schemas']}",
                        *(f"{good} of {count}" for good, count in right),
                        *times,
                        str(figures["too_slow"] + figures["crashes"]),
                    ]
                )
    columns = ["library", "tokenizer", "taken", "valid accepted", "invalid refused", "build, ms", "p99", "mask, µs"]
    yield table([*columns, "p99", f"over {files[0]['time_limit_s']:g} s"], rows)


if __name__ == "__main__":
    main()
