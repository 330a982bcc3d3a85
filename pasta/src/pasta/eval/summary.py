"""All figures of an evaluation, from its rows: what the table, the plots and the documents are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pasta.data.lines import Row
from pasta.data.redundancy import REPEATS
from pasta.errors import UsageError
from pasta.eval.folder import RunFolder, short
from pasta.eval.intervals import Figure, mean_of
from pasta.eval.questions import BUILT_IN, QuestionSet
from pasta.eval.speed import of_concurrency, realised, theoretical
from pasta.eval.tasks import score
from pasta.eval.winrate import win_rates


def summarise(
    folder: RunFolder, against: str = "baseline", questions: str | None = None, beside: str = "sft"
) -> dict[str, Any]:
    """A plain object, ready for JSON.

    `questions`: the prompts that quality and speed are measured on. `beside`: the model of stage one, if it took part;
    how far each other model is ahead of it is also measured, prompt by prompt.
    """
    record = folder.require()
    if against not in record["models"]:
        raise UsageError(f"no model {against} took part", hint=f"there are {', '.join(record['models'])}")
    questions = questions or main_set(folder)
    rival = folder.answers(questions, against)
    timings = folder.timings()
    models = {}
    for name, spec in record["models"].items():
        rows = folder.answers(questions, name)
        if not rows:
            continue
        figures: dict[str, Any] = {
            "spec": short(spec),
            **of_answers(rows),
            **theoretical(rows, rival),
            **realised(timings, name, against, questions),
            "judged": {
                judge: judged_by(folder, judge, questions, name)
                for judge in record.get("judges", {})
                if name != against
            },
            "over_stage_one": ahead(folder, questions, name, beside) if name not in (against, beside) else None,
            "tasks": {
                each.name: on_task(folder, each, name, against)
                for each in folder.sets()
                if each.name != questions and folder.answers(each.name, name)
            },
        }
        models[name] = figures
    for judge in record.get("judges", {}):
        mark_dominated(models, judge, against)
    return plain(
        {
            "prompts": questions,
            "against": against,
            "beside": beside if beside in models else None,
            "settings": record["settings"],
            "machines": record["machines"],
            "judges": {
                name: {key: short(value) for key, value in about.items()}
                for name, about in record.get("judges", {}).items()
            },
            "commands": record.get("commands", []),
            "models": models,
            "concurrency": of_concurrency(folder, against),
        }
    )


def main_set(folder: RunFolder) -> str:
    """The prompts that quality and speed are measured on: the first file, not a set of tasks."""
    names = [each.name for each in folder.sets()]
    return next((name for name in names if name not in BUILT_IN), names[0])


def of_answers(rows: Mapping[str, Row]) -> dict[str, Any]:
    every = list(rows.values())
    forking = [row for row in every if len(row["threads"]) > 1]
    parted = [row for row in every if row["kind"] != "plain"]  # a list, or several paragraphs
    off = [error for row in every for error in row["length_errors"]]

    def mean(of: list[Row], value: Callable[[Row], float]) -> Figure | None:
        return mean_of([float(value(row)) for row in of])

    return {
        "answers": len(every),
        "well_formed": mean(every, lambda row: not row["errors"]),
        "ended": mean(every, lambda row: row["finish_reason"] == "stop"),
        "forking": mean(every, lambda row: len(row["threads"]) > 1),
        "forking_of_lists_and_paragraphs": mean(parted, lambda row: len(row["threads"]) > 1),
        "parallelism_of_forking": mean_of(
            [row["content_tokens"] / row["critical_path"] for row in forking if row["content_tokens"]], "geometric"
        ),
        "threads_of_forking": mean(forking, lambda row: len(row["threads"])),
        "syncs": sum(row["syncs"] for row in every),
        "content_tokens": mean(every, lambda row: row["content_tokens"]),
        "critical_path": mean(every, lambda row: row["critical_path"]),
        "redundancy": {
            "repeated": mean(every, lambda row: row["repeated"]),
            "loops": mean(every, lambda row: row["loops"]),
            "shared_by_blocks": mean(forking, lambda row: row["shared"]),
            "blocks_repeat": mean(forking, lambda row: row["overlap"] > REPEATS),
            "topics_repeat": mean(forking, lambda row: row["topics_repeat"]),
        },
        "length_within_one": sum(abs(error) <= 1 for error in off) / len(off) if off else None,
        "length_off_by": {str(error): count for error, count in sorted(Counter(off).items())},
    }


def judged_by(folder: RunFolder, judge: str, questions: str, model: str) -> dict[str, Any] | None:
    rows = list(folder.judged(judge, questions, model).values())
    return win_rates(rows) if rows else None


def ahead(folder: RunFolder, questions: str, model: str, beside: str) -> dict[str, Any] | None:
    """The differences to another model on the prompts of both: win rates in points, and what is said twice."""
    own, other = folder.answers(questions, model), folder.answers(questions, beside)
    both = [id for id in own if id in other]
    if not both:
        return None
    wins = {}
    for judge in folder.record.get("judges", {}):
        mine, theirs = folder.judged(judge, questions, model), folder.judged(judge, questions, beside)
        wins[judge] = mean_of(
            [100 * (mine[id]["win"] - theirs[id]["win"]) for id in both if id in mine and id in theirs]
        )
    return {
        "win_rate": wins,
        "repeated": mean_of([own[id]["repeated"] - other[id]["repeated"] for id in both]),
        "loops": mean_of([float(own[id]["loops"]) - float(other[id]["loops"]) for id in both]),
        "speedup": mean_of(
            [max(1, other[id]["critical_path"]) / max(1, own[id]["critical_path"]) for id in both], "geometric"
        ),
    }


def on_task(folder: RunFolder, task: QuestionSet, model: str, against: str) -> dict[str, Any]:
    """How many conditions are met (or numbers right), and the difference to the reference, prompt by prompt."""
    own, other = folder.answers(task.name, model), folder.answers(task.name, against)
    right: dict[str, float] = {}
    lead: list[float] = []
    for question in task.read():
        if question.id in own:
            points = score(question, own[question.id]["text"])
            if points is None:
                continue
            right[question.id] = points
            if question.id in other:
                lead.append(points - (score(question, other[question.id]["text"]) or 0.0))
    return {
        "score": mean_of(list(right.values())),
        "all_right": mean_of([float(points == 1) for points in right.values()]),
        "over_reference": mean_of(lead),
        "forking": mean_of([float(len(own[id]["threads"]) > 1) for id in right]),
    }


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
