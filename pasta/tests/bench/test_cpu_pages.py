"""What the pages say of many answers on a CPU, and of drafts from other answers, is what the reports say."""

from __future__ import annotations

import statistics

from performance_pages import HISTORY, PROSE, report


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def rows_of(page: str) -> dict[str, list[str]]:
    return {first: rest for first, *rest in (cells(line) for line in page.splitlines() if line.startswith("| "))}


def measured() -> dict[tuple[str, str], list[str]]:
    """Before, now, and how many times as fast, by the weights and what was run."""
    return {
        (row["dtype"], row["what"]): [
            *(str(statistics.median(row[side])) for side in ("before", "now")),
            str(row["times_as_fast"]),
        ]
        for row in report("cpu-answers.json")["rows"]
    }


NAMES = {
    "the first step, seconds": "the first step, seconds",
    "1 answer of 250 tokens, ms a step": "1 answers of 250 tokens, ms a step",
    "16 answers of 250 tokens": "16 answers of 250 tokens, ms a step",
    "8 answers of 900 tokens": "8 answers of 900 tokens, ms a step",
    "1 thread, greedy": "greedy, threads of one answer: 1, ms a step",
    "8 threads, greedy": "greedy, threads of one answer: 8, ms a step",
    "1 thread, temperature 0.7, top-p 0.9": "temperature 0.7, top-p 0.9, threads of one answer: 1, ms a step",
    "8 threads, temperature 0.7, top-p 0.9": "temperature 0.7, top-p 0.9, threads of one answer: 8, ms a step",
}


def test_many_answers() -> None:
    told = rows_of(HISTORY.partition("## Many answers on a CPU")[2])
    found = measured()
    assert {(dtype, NAMES[name]) for name in told if name in NAMES for dtype in ("float32", "int8")} == set(found)
    for name, what in NAMES.items():
        assert told[name] == [*found["float32", what], *found["int8", what]]


def test_many_answers_in_short() -> None:
    told = rows_of(PROSE.partition("Many answers at once, each with")[2].partition("With other work")[0])
    for name, what in (
        ("16 answers of 250 tokens", NAMES["16 answers of 250 tokens"]),
        ("8 answers of 900 tokens", NAMES["8 answers of 900 tokens"]),
        ("8 threads of one answer, temperature 0.7, top-p 0.9", NAMES["8 threads, temperature 0.7, top-p 0.9"]),
        ("the same, greedy", NAMES["8 threads, greedy"]),
    ):
        before, now, ratio = measured()["int8", what]
        assert told[name] == [now, before, ratio]


def test_drafts_from_other_answers() -> None:
    saved = report("drafts-elsewhere.json")
    page = HISTORY.partition("### Learned from other answers")[2].partition("\n## ")[0]
    told = rows_of(page)
    for name, way in (
        ("the answer's own words, as now", "own words"),
        ("other answers", "other answers"),
        ("whichever gains more", "either"),
    ):
        found = [[str(number) for number in row[2:]] for row in saved["rows"] if row[1] == way]
        assert told[name] == [number for numbers in found for number in numbers]
    assert f"{saved['taught']['answers']:,} answers" in page and f"and {saved['answers']}" in page
