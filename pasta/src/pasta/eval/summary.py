"""All figures of an evaluation, from its rows: what the table, the plots and the documents are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pasta.data.lines import Row
from pasta.data.redundancy import REPEATS
from pasta.errors import UsageError
from pasta.eval.folder import RunFolder, short
from pasta.eval.intervals import Figure, mean_of, ratio_of
from pasta.eval.lengths import of_promises, of_tasks, off_by
from pasta.eval.questions import BUILT_IN
from pasta.eval.rows import Rows, answered, collect
from pasta.eval.speed import of_concurrency, realised, theoretical
from pasta.eval.winrate import win_rates

LACKING = 0.1  # the share of the reference's prompts that a model may lack for the clock's sake


def summarise(
    folder: RunFolder, against: str = "baseline", questions: str | None = None, beside: str = "sft"
) -> dict[str, Any]:
    """The figures of an evaluation's folder: see `of_rows`."""
    record = folder.require()
    if against not in record["models"]:
        known = ", ".join(record["models"])
        raise UsageError(f"no model {against} took part", hint=f"name the reference with --against: {known}")
    return of_rows(
        collect(folder),
        about(record, against, questions or main_set(folder), beside),
        of_concurrency(folder, against),
    )


def about(record: Mapping[str, Any], against: str, questions: str, beside: str) -> dict[str, Any]:
    """What an evaluation's figures do not say themselves."""
    return {
        "prompts": questions,
        "against": against,
        "beside": beside,
        "settings": record["settings"],
        "machines": record["machines"],
        "judges": {
            name: {key: short(value) for key, value in told.items()} for name, told in record.get("judges", {}).items()
        },
        "commands": record.get("commands", []),
        "specs": {name: short(spec) for name, spec in record["models"].items()},
    }


def of_rows(rows: Rows, about: Mapping[str, Any], concurrency: list[dict[str, Any]]) -> dict[str, Any]:
    """A plain object, ready for JSON.

    `prompts` of `about`: those that quality and speed are measured on. `beside`: the model of stage one, if it took
    part; how far each other model is ahead of it is also measured, prompt by prompt.
    """
    questions, against, beside = about["prompts"], about["against"], about["beside"]
    clocked = rows.get(questions, {})
    main = {name: answered(found) for name, found in clocked.items()}
    rival = main.get(against, {})
    tasks = {task: found for task, of_task in rows.items() if (found := on_task_by_all(of_task, about))}
    held_to = {judge: reference_of(about, judge) for judge in about["judges"]}
    models = {}
    for name, spec in about["specs"].items():
        own = main.get(name)
        if not own:
            continue
        models[name] = {
            "spec": spec,
            **of_answers(own),
            **theoretical(own, rival),
            **realised(clocked[name], clocked.get(against, {})),
            "judged": {
                judge: judged_by(own, main.get(other, {}), judge) for judge, other in held_to.items() if name != other
            },
            "over_stage_one": (
                ahead(own, main.get(beside, {}), list(about["judges"])) if name not in (against, beside) else None
            ),
            "tasks": {task: found[name] for task, found in tasks.items() if name in found},
        }
    for judge, other in held_to.items():
        mark_dominated(models, judge, other)
    told = {**about, "beside": beside if beside in models else None}
    promises = {name: of_tasks({task: promised_in(rows[task], name) for task in tasks}) for name in about["specs"]}
    figures = {"models": models, "tasks": tasks, "timed_alone": timed_alone(rows, tasks, about), "promises": promises}
    return plain({**told, **figures, "concurrency": concurrency})


def reference_of(about: Mapping[str, Any], judge: str | None) -> str:
    """The model that a judge compared all others with, which has 50 % by it; the report's may be another."""
    reference: str = about["judges"].get(judge, {}).get("against", about["against"])
    return reference


def timed_alone(rows: Rows, tasks: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The clock, by task and model, where a model was timed on a task and none of its answers was marked."""
    against, found = about["against"], {}
    for task, of_task in rows.items():
        clocks = {
            name: realised(of_task.get(name, {}), of_task.get(against, {}))
            for name in about["specs"]
            if task != about["prompts"] and name != against and name not in tasks.get(task, {})
        }
        found[task] = {name: clock for name, clock in clocks.items() if clock["realised_speedup"]}
    return {task: clocks for task, clocks in found.items() if clocks}


def promised_in(answers: Mapping[str, Mapping[str, Row]], model: str) -> Iterator[tuple[int, int]]:
    """What a model promised and wrote in a task."""
    for row in answered(answers.get(model, {})).values():
        yield from zip(row["promised"], row["written"], strict=True)


def main_set(folder: RunFolder) -> str:
    """The prompts that quality and speed are measured on: the first file, not a set of tasks."""
    sets = folder.sets()
    files = [each.name for each in sets if each.source not in BUILT_IN and not each.is_task]
    return files[0] if files else sets[0].name


def of_answers(rows: Mapping[str, Row]) -> dict[str, Any]:
    every = list(rows.values())
    forking = [row for row in every if row["threads"] > 1]
    parted = [row for row in every if row["kind"] != "plain"]  # a list, or several paragraphs

    def mean(of: list[Row], value: Callable[[Row], float]) -> Figure | None:
        return mean_of([float(value(row)) for row in of])

    promises = of_promises(pair for row in every for pair in zip(row["promised"], row["written"], strict=True))
    return {
        "answers": len(every),
        "well_formed": mean(every, lambda row: not row["errors"]),
        "ended": mean(every, lambda row: row["finish_reason"] == "stop"),
        "forking": mean(every, lambda row: row["threads"] > 1),
        "forking_of_lists_and_paragraphs": mean(parted, lambda row: row["threads"] > 1),
        "parallelism_of_forking": mean_of(
            [row["content_tokens"] / row["critical_path"] for row in forking if row["content_tokens"]], "geometric"
        ),
        "threads_of_forking": mean(forking, lambda row: row["threads"]),
        "syncs": sum(row["syncs"] for row in every),
        "content_tokens": mean(every, lambda row: row["content_tokens"]),
        "critical_path": mean(every, lambda row: row["critical_path"]),
        "redundancy": {
            "repeated": mean(every, lambda row: row["repeated"]),
            "loops": mean(every, lambda row: row["loops"]),
            "shared_by_blocks": mean(forking, lambda row: row["shared"]),
            "blocks_repeat": mean(forking, lambda row: row["overlap"] > REPEATS),
            "lists_repeat": mean(
                [row for row in every if row.get("list_overlap") is not None],  # older rows do not have it
                lambda row: row["list_overlap"] > REPEATS,
            ),
            "topics_repeat": mean(forking, lambda row: row["topics_repeat"]),
            "topics_unclean": ratio_of(
                [
                    (row["topics_unclean"], len(row["promised"]))
                    for row in forking
                    if row.get("topics_unclean") is not None and row["promised"]  # parts may be asked for apart
                ]
            ),
        },
        "promises": promises,
        "length_within_one": promises["within_one"] if promises else None,
        "length_off_by": off_by(every),
    }


def judged_by(rows: Mapping[str, Row], rival: Mapping[str, Row], judge: str) -> dict[str, Any] | None:
    both = [id for id, row in rows.items() if judge in row.get("wins", {}) and id in rival]
    if not both:
        return None
    return win_rates(
        [rows[id]["wins"][judge] for id in both], [(rows[id]["characters"], rival[id]["characters"]) for id in both]
    )


def ahead(own: Mapping[str, Row], other: Mapping[str, Row], judges: Sequence[str]) -> dict[str, Any] | None:
    """The differences to another model on the prompts of both: win rates in points, and what is said twice."""
    both = [id for id in own if id in other]
    if not both:
        return None
    wins = {
        judge: mean_of(
            [
                100 * (own[id]["wins"][judge] - other[id]["wins"][judge])
                for id in both
                if judge in own[id].get("wins", {}) and judge in other[id].get("wins", {})
            ]
        )
        for judge in judges
    }
    return {
        "win_rate": wins,
        "repeated": mean_of([own[id]["repeated"] - other[id]["repeated"] for id in both]),
        "loops": mean_of([float(own[id]["loops"]) - float(other[id]["loops"]) for id in both]),
        "speedup": mean_of(
            [max(1, other[id]["critical_path"]) / max(1, own[id]["critical_path"]) for id in both], "geometric"
        ),
    }


def on_task_by_all(rows: Mapping[str, Mapping[str, Row]], about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By every model that took part in a task, also by one that had no part in the main prompts."""
    found = {name: on_task(rows.get(name, {}), rows.get(about["against"], {})) for name in about["specs"]}
    return {name: figures for name, figures in found.items() if figures}


def on_task(own: Mapping[str, Row], other: Mapping[str, Row]) -> dict[str, Any] | None:
    """How much is right, and the difference to the reference, prompt by prompt; None where nothing is marked.

    A prompt counts as much as it has parts, and prompts are drawn whole: `score` is over parts. Differences are over
    the prompts that both have answered; `over_reference_at_worst` adds those that the reference alone has, as if
    nothing of them were right here: an evaluation that ends by the clock lacks the longest answers first. It is None
    for a model that lacks more than a tenth of them: it was asked fewer.
    """
    marked = {id: row for id, row in own.items() if "marks" in row or "score" in row}
    if not marked:
        return None
    answers = answered(other)
    both = [id for id in marked if id in answers and right_of(answers[id])]
    lacking = [row for id, row in answers.items() if id not in marked and right_of(row)]
    ends = {id: float(end) for id, row in marked.items() if (end := end_of(row)) is not None}
    paired_ends = [ends[id] - float(other_end) for id in ends if (other_end := end_of(answers.get(id, {}))) is not None]
    over = [(sum(right_of(own[id])) - sum(right_of(other[id])), len(right_of(own[id]))) for id in both]
    worst = over + [(-sum(right_of(row)), len(right_of(row))) for row in lacking]
    return {
        "prompts": len(marked),
        "parts": sum(len(right_of(row)) for row in marked.values()),
        "score": ratio_of([(sum(right_of(row)), len(right_of(row))) for row in marked.values()]),
        "all_right": mean_of([float(all(part == 1 for part in right_of(row))) for row in marked.values()]),
        "end": mean_of(list(ends.values())),
        "over_reference": ratio_of(over),
        "over_reference_at_worst": ratio_of(worst) if len(lacking) <= LACKING * len(worst) else None,
        "end_over_reference": mean_of(paired_ends),
        "forking": mean_of([float(row["threads"] > 1) for row in marked.values()]),
        "syncing": mean_of([float(row["syncs"] > 0) for row in marked.values()]),
        "ended": mean_of([float(row["finish_reason"] == "stop") for row in marked.values()]),
        "promises": of_promises(
            pair for row in marked.values() for pair in zip(row["promised"], row["written"], strict=True)
        ),
        **theoretical(marked, answers),
        **realised(own, other),
    }


def right_of(row: Row) -> list[float]:
    """What is right of an answer's parts (the end apart), or the one score of an answer without parts."""
    if "marks" in row:
        return [float(part) for part in row["marks"]["parts"]]
    return [row["score"]] if "score" in row else []


def end_of(row: Row) -> float | None:
    """Whether what needs all the parts is right; None where nothing does."""
    found: float | None = row.get("marks", {}).get("end")
    return found


def mark_dominated(models: dict[str, dict[str, Any]], judge: str, against: str) -> None:
    """Who is at least as good and as fast, and better in one: by the length-controlled win rate and one speed for all.

    The clock's where every judged model was timed, else the theoretical one.
    """
    qualities = {against: 50.0}
    for name, figures in models.items():
        judged = figures["judged"].get(judge)
        quality = judged and (judged["lc_win_rate"] or judged["win_rate"])
        if quality:
            qualities[name] = quality.value
    timed = all(models[name]["realised_speedup"] for name in qualities if name in models)
    speed = "realised_speedup" if timed else "theoretical_speedup"
    places = {name: (quality, models[name][speed].value) for name, quality in qualities.items() if name in models}
    for name, place in places.items():
        models[name].setdefault("dominated_by", {})[judge] = {
            "speed": speed,
            "models": [
                other
                for other, spot in places.items()
                if spot != place and all(theirs >= own for theirs, own in zip(spot, place, strict=True))
            ],
        }


def plain(value: Any) -> Any:
    """Figures as objects of plain numbers."""
    if isinstance(value, Figure):
        return {key: round(number, 5) for key, number in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
