"""Of the page of structured answers: how long objects take."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from structured_saved import EARLIER, MODES, RESULTS, WORDS, load, on_cpu, table

CODE = "16 November 2026 (commit 92368e5, with engine/cuda of e673075)"  # that made the figures of speed
NEWER = "commit 92368e5"  # that made those beside another process
ASKED = 3.0  # times over sequential, one object at a time


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
