"""What an evaluation measured, a row for each answer and without a word of it: every figure is made of these rows.

So rows can be published where prompts and answers cannot, and every table can be made again from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pasta.data.lines import Row
from pasta.data.redundancy import overlap_in_lists
from pasta.data.rows import read_rows, write_rows
from pasta.data.topics import reads_well
from pasta.eval.folder import RunFolder
from pasta.eval.tasks import score

KEPT = (
    "tokens", "content_tokens", "critical_path", "finish_reason", "syncs", "errors", "repeated", "loops", "shared",
    "overlap", "topics_repeat", "kind",
)  # fmt: skip
TIMED = ("seconds", "content_tokens", "critical_path", "captured", "machine")

Rows = dict[str, dict[str, dict[str, Row]]]  # by the prompts' name, the model's and the prompt's id


def collect(folder: RunFolder) -> Rows:
    """The rows of every model on every set of prompts of a folder."""
    record = folder.require()
    rows: Rows = {}
    for questions in folder.sets():
        name = questions.name
        asked = {question.id: question for question in questions.read()} if questions.is_scored else {}
        for model in record["models"]:
            marks = folder.marks(name, model)
            judged = {judge: folder.judged(judge, name, model) for judge in record.get("judges", {})}
            own = rows.setdefault(name, {}).setdefault(model, {})
            # In one order, whoever ended first: intervals draw rows by their places.
            for id, answer in sorted(folder.answers(name, model).items()):
                row = own[id] = measured(answer)
                if id in marks:
                    row["marks"] = {key: marks[id][key] for key in ("parts", "end")}
                elif id in asked and (points := score(asked[id], answer["text"])) is not None:
                    row["score"] = points
                wins = {judge: found[id]["win"] for judge, found in judged.items() if id in found}
                if wins:
                    row["wins"] = wins
    for clock in folder.timings():  # what is timed is decoded anew, so its figures are its own
        own = rows.setdefault(clock["prompts"], {}).setdefault(clock["model"], {})
        own.setdefault(clock["id"], {})["timed"] = {key: clock[key] for key in TIMED if key in clock}
    return rows


def answered(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Those of a model's rows that are not the clock's alone."""
    return {id: row for id, row in rows.items() if "tokens" in row}


def measured(answer: Mapping[str, Any]) -> Row:
    promised = [line["promised"] for line in answer["threads"] if line["promised"]]
    return {
        **{key: answer[key] for key in KEPT},
        "characters": len(answer["text"]),
        "threads": len(answer["threads"]),
        "list_overlap": overlap_in_lists(answer["text"]),
        "topics_unclean": sum(not reads_well(line["topic"]) for line in answer["threads"][1:] if line["promised"]),
        "promised": promised,
        "written": [length + error for length, error in zip(promised, answer["length_errors"], strict=True)],
    }


def write(rows: Rows, path: str) -> None:
    write_rows(path, listed(rows))


def listed(rows: Rows) -> Iterable[Row]:
    for questions, models in rows.items():
        for model, found in models.items():
            for id, row in found.items():
                yield {"prompts": questions, "model": model, "id": id, **row}


def read(path: str) -> Rows:
    rows: Rows = {}
    for row in read_rows(path):
        keys = [row.pop(key) for key in ("prompts", "model", "id")]
        rows.setdefault(keys[0], {}).setdefault(keys[1], {})[keys[2]] = row
    return rows
