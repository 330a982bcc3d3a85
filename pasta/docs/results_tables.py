"""Tables of an evaluation of chats on the page of results: steps and seconds, what is repeated, promised lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pasta.eval.intervals import mean_of
from pasta.eval.report import interval, percent, points, whole
from pasta.eval.task_page import promises, share, table


def stage_two(summary: dict[str, Any]) -> Iterator[str]:
    """Every model against stage one, on the same prompts."""
    found = {model: figures["over_stage_one"] for model, figures in summary["models"].items()}
    found = {model: over for model, over in found.items() if over}
    if not found:
        return
    yield f"### Against `{summary['beside']}`, prompt by prompt\n"
    yield "Relative to stage one: win rates, repetition and loops as differences in points.\n"
    rows = [
        [
            f"`{model}`",
            *(interval(over["win_rate"].get(judge), 1) for judge in summary["judges"]),
            interval(over["speedup"]),
            points(over["repeated"]),
            points(over["loops"]),
        ]
        for model, over in found.items()
    ]
    yield table(
        ["model", *(f"win rate, {judge}" for judge in summary["judges"]), "theoretical speedup", "repeated", "loops"],
        rows,
    )


def equally_treated(summary: dict[str, Any]) -> Iterator[str]:
    """Models whose training had a stage that the reference's lacks, each against a baseline that had it."""
    if not (found := summary.get("equally_treated")):
        return
    yield "### Against a baseline with the same training stages\n"
    yield "Win rates are differences in points: the model's minus that baseline's, against the same reference.\n"
    rows = [
        [
            f"`{model}`",
            f"`{told['against']}`",
            interval(told["theoretical_speedup"]),
            interval(told["length_factor"]),
            *(interval(told["over"]["win_rate"].get(judge), 1) for judge in summary["judges"]),
        ]
        for model, told in found.items()
    ]
    judges = (f"win rate, {judge}" for judge in summary["judges"])
    yield table(["model", "against", "theoretical speedup", "length ratio", *judges], rows)


def elsewhere(summary: dict[str, Any]) -> Iterator[str]:
    """Models against baselines that answered the same prompts in another evaluation."""
    if not (found := summary.get("elsewhere")):
        return
    yield "### Against baselines of other evaluations\n"
    yield "The same prompts and limits. Steps and tokens are counted, not timed.\n"
    rows = [
        [f"`{model}`", f"`{name}` of [{place}]({place}.md)", interval(told["theoretical_speedup"]),
         interval(told["length_factor"])]
        for model, others in found.items()
        for where, told in others.items()
        for place, _, name in [where.partition("/")]
    ]  # fmt: skip
    yield table(["model", "against", "theoretical speedup", "length ratio"], rows)


def speed(summary: dict[str, Any]) -> Iterator[str]:
    timed = [f["realised_speedup"]["prompts"] for f in summary["models"].values() if f["realised_speedup"]]
    yield "### Speed\n"
    if timed:
        yield (
            f"Realised speedup: wall-clock time at batch size 1 on {max(timed)} of the prompts (always the same draw). "
            'Models take turns; compilation and graph capture are not timed. "Timed prompts": over these prompts.\n'
        )
    rows = [
        [
            f"`{model}`",
            interval(figures["realised_speedup"]),
            interval(figures["theoretical_speedup_of_timed"]),
            interval(figures.get("length_factor_of_timed")),
            interval(figures["realised_speedup_arithmetic"]),
            interval(figures["theoretical_speedup_arithmetic"]),
            whole(figures["content_tokens"]),
            whole(figures["critical_path"]),
            percent(figures["forking"]),
            percent(figures["forking_of_lists_and_paragraphs"]),
            interval(figures["parallelism_of_forking"]),
            "–" if figures["threads_of_forking"] is None else f"{figures['threads_of_forking']['value']:.1f}",
        ]
        for model, figures in summary["models"].items()
    ]
    columns = [
        "model", "realised speedup", "theoretical speedup, timed prompts", "length ratio, timed prompts",
        "realised, arithmetic mean", "theoretical, arithmetic mean", "tokens", "critical path", "answers that fork",
        "… of lists and paragraphs", "parallelism of forking answers", "threads of forking answers",
    ]  # fmt: skip
    yield table(columns, rows)


def timed_otherwise(
    summary: dict[str, Any], answers: dict[str, dict[str, Any]], against: str = "baseline"
) -> Iterator[str]:
    """The clock over another model, where the reference itself was not timed and that one was.

    answers: rows by model and prompt.
    """
    clocks = {
        model: {id: row["timed"] for id, row in rows.items() if "timed" in row} for model, rows in answers.items()
    }
    if clocks.get(summary["against"]) or not (reference := clocks.get(against)):
        return
    yield f"Wall-clock speedup over `{against}` (`{summary['against']}` was not timed):\n"
    cells = []
    for model, clock in clocks.items():
        ids = sorted(set(clock) & set(reference))
        realised = mean_of([reference[id]["seconds"] / clock[id]["seconds"] for id in ids], "geometric")
        tokens = mean_of(
            [max(1, reference[id]["content_tokens"]) / max(1, clock[id]["content_tokens"]) for id in ids], "geometric"
        )
        if model != against and realised and tokens:
            cells.append([f"`{model}`", interval(realised.to_dict()), interval(tokens.to_dict()), str(len(ids))])
    yield table(["model", "realised speedup", "length ratio", "prompts"], cells)


def clocks(summary: dict[str, Any]) -> Iterator[str]:
    """Tasks on which a model was timed without being marked."""
    if found := summary.get("timed_alone"):
        yield "### Tasks that were timed but not graded\n"
        rows = [
            [
                f"`{task}`",
                f"`{model}`",
                interval(clock["realised_speedup"]),
                interval(clock["theoretical_speedup_of_timed"]),
                interval(clock["length_factor_of_timed"]),
                str(clock["realised_speedup"]["prompts"]),
            ]
            for task, models in found.items()
            for model, clock in models.items()
        ]
        yield table(["task", "model", "realised speedup", "theoretical speedup", "length ratio", "prompts"], rows)


def redundancy(summary: dict[str, Any]) -> Iterator[str]:
    yield "### Redundancy and form\n"
    rows = []
    for model, figures in summary["models"].items():
        found = figures["redundancy"]
        rows.append(
            [
                f"`{model}`",
                share(found["repeated"]),
                share(found["shared_by_blocks"]),
                share(found["blocks_repeat"]),
                share(found.get("lists_repeat")),
                share(found["topics_repeat"]),
                share(found.get("topics_unclean")),
                share(found["loops"]),
                share(figures["ended"]),
                percent(figures["well_formed"]),
                "–" if figures["length_within_one"] is None else f"{100 * figures['length_within_one']:.0f}%",
            ]
        )
    columns = [
        "model", "repeated", "shared by blocks", "blocks that repeat", "lists that repeat", "topics that repeat",
        "topics that read badly", "loops", "ended by itself", "well formed", "lengths within one",
    ]  # fmt: skip
    yield table(columns, rows)


def lengths(summary: dict[str, Any]) -> Iterator[str]:
    """A histogram, one row a model: how far the promised lengths are off."""
    found = {model: figures["length_off_by"] for model, figures in summary["models"].items()}
    found = {model: counts for model, counts in found.items() if counts}
    if not found:
        return
    yield "### Promised lengths\n"
    yield "Share of blocks by error: written minus promised length, in tens of tokens (for `ones`, in tokens).\n"
    bins = [(-99999, -4), (-3, -3), (-2, -2), (-1, -1), (0, 0), (1, 1), (2, 2), (3, 3), (4, 99999)]
    titles = ["-4 or less", "-3", "-2", "-1", "0", "1", "2", "3", "4 or more"]
    rows = []
    for model, counts in found.items():
        blocks = sum(counts.values())
        inside = [sum(n for error, n in counts.items() if low <= int(error) <= high) for low, high in bins]
        rows.append([f"`{model}`", str(blocks), *(f"{100 * n / blocks:.0f}%" for n in inside)])
    yield table(["model", "blocks", *titles], rows)
    yield from promises({model: figures.get("promises") for model, figures in summary["models"].items()})
