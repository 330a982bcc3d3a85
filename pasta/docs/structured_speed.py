"""Of the page of structured answers: how long objects take."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from structured_saved import EARLIER, MODES, RESULTS, WORDS, load, on_cpu, table

CODE = "16 November 2026 (commit 2ba843a)"  # that made figures of speed which do not say it themselves
PREVIOUS = (
    "16 November 2026 (commit 92368e5, with engine/cuda of e673075)"  # of the run before, and of prompts in steps
)
TIMED = ("parallel", "checked", "sequential")
BEFORE = {"earlier": EARLIER, "previous": PREVIOUS, "before": CODE}  # reports of other runs, by their files' names
ASKED = 3.0  # times over sequential, one object at a time


def speed() -> Iterator[str]:
    reports = [path for path in sorted(RESULTS.glob("structured-speed-*.json")) if "predictions" not in path.name]
    if not reports:
        return
    for path in reports:
        ours = json.loads(path.read_text("utf-8"))
        code = ours.get("code", CODE)
        theirs, phases = (load(path.name.replace("speed", kind)) for kind in ("vllm", "phases"))
        same = theirs is not None and theirs.get("code") == code
        run = WORDS["vllm_same"] if same else WORDS["vllm_earlier"].format(code=EARLIER)
        yield WORDS["speed"].format(code=code, vllm_run=run)
        found = {kind: load(path.name.replace("speed", kind)) for kind in BEFORE}
        before = {(own or {}).get("code", BEFORE[kind]): own for kind, own in found.items()}
        yield f"### {ours['model']}\n"
        yield (
            f"`benchmarks/results/{path.name}`"
            + (f", `{path.name.replace('speed', 'vllm')}`" if theirs else "")
            + ".\n"
        )
        columns = ["set", "fields", "", "one, ms", "32, objects/s", "steps", "tokens decoded", "tokens put"]
        yield table([*columns, "constraint, ms"], list(_speed_rows(ours, theirs)))
        columns = ["set", "over sequential, one", "32", "fewer steps", "`checked`, one", "32", "fewer steps"]
        columns += ["one, fixed, ms", "per step, ms"]
        yield table([*columns, *(["over vLLM, one", "32"] if theirs else [])], list(_ratios(ours, theirs)))
        if theirs:
            yield WORDS["vllm_notes"].format(**_of_vllm(ours, theirs))
        if phases:
            yield WORDS["speed_notes"].format(**_of_phases(ours, phases))
            yield WORDS["speed_checked"].format(**_of_checked(ours))
            yield from _of_many(phases)
            yield from _of_predicted(ours, found["before"], phases)
            yield from _of_steps(ours)
            yield WORDS["speed_before"].format(runs=_runs(ours, before), slower=_slower(ours, found["before"]))


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
    """Where an object's time goes."""
    fixed = [_fixed(own)[0] for own in ours["sets"].values()]
    parts = [own for name, own in phases["phases"].items() if name.endswith("parallel")]
    gains = {name: own["one_at_a_time"]["speedup"] for name, own in ours["sets"].items()}
    having = [f"`{name}` {_interval(gain)}" for name, gain in gains.items() if gain["value"] >= ASKED]
    lacking = [f"`{name}` misses it ({_interval(gain)})" for name, gain in gains.items() if gain["value"] < ASKED]
    below = [f"`{name}`" for name, gain in gains.items() if gain["low"] < ASKED <= gain["value"]]
    told = [f"{', '.join(having)} {'meets' if len(having) == 1 else 'meet'} it"] if having else []
    told += [f"the interval of {' and '.join(below)} begins below"] if below else []
    return {
        "fixed": between(fixed, 0),
        "first": between([own["last"]["steps"][0] for own in parts], 1),
        "make": between([own["make_ms"] for own in parts], 1),
        "has": "; ".join([*told, *lacking]),
    }


def _of_checked(ours: dict[str, Any]) -> dict[str, str]:
    sets = ours["sets"].values()
    at_once = [[own["many_at_once"][mode]["objects_a_second"] for mode in ("checked", "sequential")] for own in sets]
    return {
        "faster": between([own["one_at_a_time"]["checked_speedup"]["value"] for own in sets], 1),
        "fewer": between([_fewer(own, "checked") for own in sets], 1),
        "share": between([one / other for one, other in at_once], 1),
        "constraint": between([own["counts"]["checked"]["constraint_ms"] for own in sets], 1),
        "sequential": between([own["counts"]["sequential"]["constraint_ms"] for own in sets], 1),
    }


def _of_steps(ours: dict[str, Any]) -> Iterator[str]:
    """What prompts within steps give, and masks that find once what may end a value: by runs of their own."""
    trial, masks = load("structured-prompts-in-steps-qwen15.json"), load("structured-masks.json")
    if trial is None or masks is None:
        return
    lines = []
    for name in ours["sets"]:
        pairs = []
        for where in ("before", "in"):
            each = [statistics.fmean(trial["prompts_in_steps"][f"{name}, {mode}, {where}"]) for mode in MODES]
            pairs.append(f"{each[0]:.1f} / {each[1]:.1f} ({each[1] / each[0]:.1f})")
        lines.append([f"`{name}`", f"{ours['sets'][name]['prompt_tokens']:.0f}", *pairs])
    columns = ["set", "prompt tokens", "before the step: parallel / sequential", "in the step"]
    sides = [masks[side] for side in ("before", "after")]
    yield WORDS["speed_steps"].format(
        code=PREVIOUS,
        cpu=on_cpu(masks["machine"]),
        dates=[side["dates"]["ms_an_object"] for side in sides],
        coqa=[side["coqa"]["first_step_ms"] for side in sides],
        same=" of ".join(map(str, trial["same_answers"])),
        trial="\n".join("  " + line for line in table(columns, lines).rstrip("\n").split("\n")),
    )


def _runs(ours: dict[str, Any], before: dict[str, dict[str, Any] | None]) -> str:
    """The same objects by other code, each in a run of its own."""
    lines = []
    for name in ours["sets"]:
        for code, found in {**before, ours.get("code", CODE): ours}.items():
            if found is not None:
                one, many = (found["sets"][name][kind] for kind in ("one_at_a_time", "many_at_once"))
                line = [f"`{name}`", code, " / ".join(f"{one[mode]['ms_an_object']:.1f}" for mode in MODES)]
                line += [f"{one['speedup']['value']:.2f}"]
                lines.append([*line, " / ".join(f"{many[mode]['objects_a_second']:.0f}" for mode in MODES)])
    columns = ["set", "code", "one, ms: parallel / sequential", "over sequential"]
    return table([*columns, "32, objects/s: parallel / sequential"], lines).rstrip("\n")


def _slower(ours: dict[str, Any], previous: dict[str, Any] | None) -> str:
    """Names the sets of which many at once give fewer objects a second than in the run before, in both modes."""
    if previous is None:
        return ""
    pairs = {name: [found["sets"][name]["many_at_once"] for found in (ours, previous)] for name in ours["sets"]}
    slower = [
        f"`{name}`"
        for name, (now, before) in pairs.items()
        if all(now[mode]["objects_a_second"] < before[mode]["objects_a_second"] for mode in MODES)
    ]
    told = f"{' and '.join(slower)} {'gives' if len(slower) == 1 else 'give'}"
    return WORDS["speed_slower"].format(sets=told) if slower else ""


def _of_many(phases: dict[str, Any]) -> Iterator[str]:
    """Where the time of many objects goes."""
    if own := phases.get("phases_at_once"):
        lines = []
        for name, each in own.items():
            last = each["last"]
            first, *others = last["steps"]
            spent = (each["make_ms"], each["state_ms"], first, sum(others), last["result"])
            spent += tuple(last[part][0] for part in ("interpreter", "masks"))
            lines.append([name.removesuffix(" at once"), *(f"{part:.0f}" for part in spent)])
        columns = ["objects", "making requests", "their threads", "first step", "others", "results"]
        told = table([*columns, "of the steps: interpreter", "masks"], lines)
        prompts = [each["last"]["prompt's pass, host"][0] for each in own.values()]
        yield WORDS["speed_at_once"].format(phases=told.rstrip("\n"), prompts=statistics.fmean(prompts))


def _of_predicted(ours: dict[str, Any], before: dict[str, Any] | None, phases: dict[str, Any]) -> Iterator[str]:
    """What was predicted of this run and of the one before it, each beforehand, and where the time of `arc` goes."""
    predicted = load("structured-predictions-again.json")
    if predicted is None:
        return
    runs = [(load("structured-predictions-speed.json"), before), (predicted, ours)]
    lines = []
    for name in ours["sets"]:
        for said, run in runs:
            if said and run:
                lines.append([f"`{name}`", run.get("code", CODE), *_beside(said, run, name)])
    columns = ["set", "code", "one, ms: parallel / sequential", "predicted", "over sequential", "predicted"]
    told = table([*columns, "32, objects/s: parallel / sequential", "predicted"], lines)
    parts = []
    for mode in TIMED:
        own = phases["phases"][f"arc, {mode}"]
        first, *others = own["last"]["steps"]
        spent = (own["make_ms"], own["state_ms"], first, sum(others), own["last"]["result"])
        parts.append([mode, *(f"{each:.1f}" for each in spent), f"{sum(spent):.1f}"])
    last = phases["phases"]["arc, parallel"]["last"]
    columns = ["`arc`", "making the request", "its threads", "first step", "others", "result", "in all"]
    yield WORDS["speed_predicted"].format(
        predicted=told.rstrip("\n"), parts=table(columns, parts).rstrip("\n"),
        waits=last["engine.step"][0] - sum(last[each][0] for each in ("graph fill", "launches", "masks")),
        first=(last["steps"][0], predicted["arc_first_step_ms"]),
        make=(phases["phases"]["arc, parallel"]["make_ms"], predicted["arc_making_the_request_ms"]),
    )  # fmt: skip
    if words := load("structured-words-h200.json"):
        apart = predicted["arc_with_sizes_64_apart"]
        yield WORDS["speed_words"].format(
            code=words["code"], objects=words["objects"],
            turns=[_turn(words["wall"][name]) for name in ("before", "after", "after, sizes 64 apart")],
            never=list(words["making_a_request_for_a_prompt_never_seen_ms"].values()),
            said=f"{apart['parallel_ms']:g} ms and {apart['over_sequential']:g}",
        )  # fmt: skip


def _beside(said: dict[str, Any], run: dict[str, Any], name: str) -> list[str]:
    """Of a set what was measured, each with what was predicted behind it."""
    one, many = (run["sets"][name][kind] for kind in ("one_at_a_time", "many_at_once"))
    return [
        " / ".join(f"{one[mode]['ms_an_object']:.1f}" for mode in MODES),
        " / ".join(f"{each:g}" for each in said["one_at_a_time_ms"][name]),
        f"{one['speedup']['value']:.2f}",
        f"{said['over_sequential'][name]:g}",
        " / ".join(f"{many[mode]['objects_a_second']:.0f}" for mode in MODES),
        " / ".join(f"{each:g}" for each in said["many_at_once_objects_a_second"][name]),
    ]


def _turn(wall: dict[str, float]) -> str:
    return f"{wall['parallel']:.1f} / {wall['sequential']:.1f} ms ({wall['over_sequential']:.2f})"


def between(numbers: list[float], digits: int) -> str:
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def _interval(figure: dict[str, Any]) -> str:
    return f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]"


def _fewer(own: dict[str, Any], mode: str) -> float:
    """Times fewer steps than sequentially."""
    steps: list[float] = [own["counts"][each]["steps"] for each in ("sequential", mode)]
    return steps[0] / steps[1]


def _fixed(own: dict[str, Any]) -> tuple[float, float]:
    """What an object alone takes beside its steps, and each of them: in milliseconds, by the two modes."""
    times = [own["one_at_a_time"][mode]["ms_an_object"] for mode in ("sequential", "parallel")]
    counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
    step = (times[0] - times[1]) / (counted[0] - counted[1])
    return times[1] - step * counted[1], step


def _speed_rows(ours: dict[str, Any], theirs: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in ours["sets"].items():
        for mode in TIMED:
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
        checked = many["checked"]["objects_a_second"] / many["sequential"]["objects_a_second"]
        fixed, step = _fixed(own)
        row = [
            f"`{name}`",
            _interval(one["speedup"]),
            f"{many['speedup']:.2f}",
            f"{_fewer(own, 'parallel'):.1f}",
            _interval(one["checked_speedup"]),
            f"{checked:.2f}",
            f"{_fewer(own, 'checked'):.1f}",
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
