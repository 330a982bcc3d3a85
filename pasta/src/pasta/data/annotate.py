"""Runs an annotator over a file of answers: resumable, and nothing is written that was not checked."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from pasta.data.example import Annotator, Decision, Example, Refused, each
from pasta.data.fields import EXPECTED, mark_of, read_example, with_answer
from pasta.data.plan import Count, PlanError, apply, block_lengths, verified
from pasta.data.quality import form, sound
from pasta.data.report import Report, is_ours
from pasta.data.rows import Row, dump, is_json_lines, read_rows, write_rows
from pasta.data.storing import storing
from pasta.data.structure import is_told
from pasta.data.worth import sort_of, worth_learning
from pasta.errors import PastaError, UsageError
from pasta.lang import Response, Text, plain, statistics
from pasta.outputs import check_apart, check_place

SYNC_EVERY_S = 1.0
MIN_PARALLELISM = 1.3  # tokens for each on the critical path: less is not worth a promise
Progress = Callable[[int, int, Report], None]  # rows done, rows in all, the report so far


def annotate(
    source: str,
    target: str,
    annotator: Annotator,
    count: Count,
    *,
    split: str = "train",
    limit: int | None = None,
    overwrite: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Annotates `source` into `target`.

    Where `strict`, only good examples: answers that are worth learning from, or their good beginnings
    (`pasta.data.worth`), without annotations that have a flaw (`pasta.data.quality`) or save little.

    Rows are appended to `target.part` as they come and put into `target`, in the order of `source`, once all
    are done. Run again after an interruption, or with a longer source, only the missing rows are annotated.

    Raises:
        PastaError: No row could be annotated; nothing is written.
        StorageError: The disk is full; what is done stays in `target.part`.
    """
    began = time.monotonic()
    check_names(source, target)
    rows = list(islice(read_rows(source, split), limit))
    recipe = _recipe(annotator, strict)
    part = Path(f"{target}.part")
    if overwrite:
        part.unlink(missing_ok=True)
    written = {} if overwrite else _written(target, part, recipe)

    report = Report(annotator.name)
    todo = _still_to_do(source, target, rows, written, report, strict)
    if report.refused == len(rows):
        raise _nothing(source, report, "" if strict else EXPECTED)
    with storing(part), _kept_unless_empty(part), _appending(part) as out:
        synced = time.monotonic()
        if progress:
            progress(report.rows, len(rows), report)
        for group in each(todo, annotator.batch):
            by_row = {example.row: example for example in group}
            for decision in annotator.decide(group):
                done = finish(by_row[decision.row], decision, annotator, recipe, count, strict=strict)
                if isinstance(done, Refused):
                    report.refuse(done.reason)
                else:
                    annotated, text, mark = done
                    row = with_answer(rows[decision.row], annotated, text)
                    row["pasta"] = mark
                    written[decision.row] = row
                    out.write(dump(row))
                    report.add(mark)
                if progress:
                    progress(report.rows, len(rows), report)
                if time.monotonic() - synced > SYNC_EVERY_S:
                    _to_disk(out)
                    synced = time.monotonic()
        _to_disk(out)

    if rows and report.refused == len(rows):
        part.unlink(missing_ok=True)
        raise _nothing(source, report)
    with storing(Path(target)):
        write_rows(target, (written[index] for index in range(len(rows)) if index in written))
    part.unlink(missing_ok=True)
    report.seconds = time.monotonic() - began
    return report


def _still_to_do(
    source: str, target: str, rows: Sequence[Row], written: Mapping[int, Row], report: Report, strict: bool
) -> list[Example]:
    """The answers that are not annotated yet. The others are counted, those that are written and those refused."""
    if written and max(written) >= len(rows):  # which would be left out of the target
        raise UsageError(
            f"{target} is annotated up to row {max(written)}, and no more than {len(rows)} of {source} are read now",
            "read as many as before, name another output, or pass --overwrite to start afresh",
        )
    todo: list[Example] = []
    for index, row in enumerate(rows):
        if mark_of(row) is not None:  # its tags would be taken for the answer's
            raise UsageError(f"row {index} of {source} is annotated already", "name the file that it was made from")
        example = read_example(index, row)
        if strict and isinstance(example, Example):
            example = worthy(example, finished=row.get("finished", True) is not False)
        if isinstance(example, str):
            report.refuse(example)
        elif (old := written.get(index)) is None:
            todo.append(example)
        elif not _is_of(old, example, strict):
            raise UsageError(f"row {index} of {source} is not the one in {target}", "pass --overwrite to start afresh")
        else:
            report.add(old["pasta"])
            report.resumed += 1
    return todo


def _is_of(old: Row, example: Example, strict: bool) -> bool:
    """Whether a row that is written is of this conversation and this answer, or where `strict` of its beginning."""
    before = read_example(example.row, old)
    if isinstance(before, str) or before.messages != example.messages:
        return False
    return old["plain"] == example.text or (strict and example.text.startswith(old["plain"]))


def check_names(source: str, target: str) -> None:
    """Refuse what cannot be read or written, before any model is loaded.

    Raises:
        UsageError: The source does not exist, or the target is the source, of no known form, or something else already.
    """
    if "-" in (source, target):
        raise UsageError("annotate takes files, not standard input and output", "name files that end in .jsonl")
    for written in (target, f"{target}.part"):
        check_apart(written, [source])
    check_place(f"{target}.part")
    if is_json_lines(source) and not os.path.isfile(source):
        raise UsageError(f"there is no file {source}")
    if not is_json_lines(target) and Path(target).suffix:
        raise UsageError(f"cannot tell how to write {target}", "end its name in .jsonl, .jsonl.gz or .jsonl.xz")
    is_ours = Path(target).is_file() if is_json_lines(target) else (Path(target) / "state.json").is_file()
    if Path(target).exists() and not is_ours:
        hint = "name a file that ends in .jsonl, or a new folder for a data set"
        raise UsageError(f"{target} is there, and is nothing that can be gone on with", hint)


def worthy(example: Example, finished: bool) -> Example | str:
    """An answer that is worth learning from, or its good beginning; or why there is none."""
    text, reason = worth_learning(example.prompt, example.text, finished)
    return replace(example, text=text) if reason is None else reason


def finish(
    example: Example, decision: Decision, annotator: Annotator, recipe: str, count: Count, *, strict: bool = False
) -> tuple[str, str, dict[str, Any]] | Refused:
    """The annotated text, its plain form and its figures.

    Asserts that the text is well formed and the answer unchanged; where `strict`, a list may end before its first flaw.
    """
    if isinstance(decision.plan, Refused):
        return decision.plan
    reason = decision.reason
    text = example.text
    sequential = Response((Text(text),))
    response = sequential
    try:
        if decision.plan:
            response = apply(decision.plan, text, count)
    except PlanError as error:
        reason = str(error)
    if strict:
        found = sound(example.prompt, response)
        if isinstance(found, str):
            return Refused(found)
        response, text = found, plain(found)
    measured = statistics(response, count)
    if response is not sequential and measured.critical_path >= count(text):
        reason = "nothing to gain"
        response, measured = sequential, statistics(sequential, count)
    try:
        annotated = verified(response, text)
    except PlanError as error:
        return Refused(str(error))
    forks = any(response.promises())
    if strict and forks and measured.parallelism < MIN_PARALLELISM:
        return Refused("saves little")
    lengths = block_lengths(response, count)
    mark = {
        "row": example.row,
        "annotator": annotator.name,
        "recipe": recipe,
        "blocks": len(lengths),
        "lengths": lengths,
        "syncs": measured.syncs,
        "tokens": count(text),
        "critical_path": measured.critical_path,
        "form": form(response) if forks else sort_of(text, is_told(example)),
        "reason": "" if lengths else reason,
        **decision.figures,
    }
    return annotated, text, mark


def _recipe(annotator: Annotator, strict: bool) -> str:
    """A short name for everything that the outcome depends on."""
    settings = {**annotator.settings(), **({"strict": True} if strict else {})}
    told = json.dumps([annotator.name, settings], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _written(target: str, part: Path, recipe: str) -> dict[int, Row]:
    """The rows that earlier runs wrote, by number."""
    rows: dict[int, Row] = {}
    sources = [str(target)] if Path(target).exists() else []
    if part.exists():
        _cut_torn_line(part)
        sources.append(str(part))
    for source in sources:
        for row in read_rows(source):
            if not is_ours(row):
                raise UsageError(f"{source} was not written by pasta annotate", "choose another output, or --overwrite")
            mark = row["pasta"]
            if mark.get("recipe") != recipe:
                raise UsageError(
                    f"{source} was made by {mark.get('annotator')} with other settings",
                    "choose another output, or pass --overwrite to start afresh",
                )
            rows[mark["row"]] = row
    return rows


def _cut_torn_line(part: Path) -> None:
    """A run that was killed may have left half a line."""
    data = part.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        with open(part, "rb+") as file:
            file.truncate(end)


class NothingAnnotated(PastaError):
    """Every row was refused."""


def _nothing(source: str, report: Report, expected: str = "") -> NothingAnnotated:
    if not report.refused:
        return NothingAnnotated(f"{source} has no rows", f"a row needs {EXPECTED}")
    reasons = "; ".join(f"{reason} ({count})" for reason, count in report.refusals.most_common(3))
    hint = f"; a row needs {expected}" if expected else ""
    which = "the only row" if report.refused == 1 else f"none of the {report.refused} rows"
    can = "cannot" if report.refused == 1 else "can"
    return NothingAnnotated(f"{which} of {source} {can} be annotated", reasons + hint)


@contextmanager
def _kept_unless_empty(part: Path) -> Iterator[None]:
    """However what stands inside ends, neither a file nor a new folder stays behind that holds nothing."""
    new = [folder for folder in part.parents if not folder.exists()]
    try:
        yield
    finally:
        if part.is_file() and not part.stat().st_size:
            part.unlink()
        for folder in new:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def _appending(part: Path) -> IO[str]:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return open(part, "a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {part}: {error.strerror}") from error


def _to_disk(out: IO[str]) -> None:
    out.flush()
    os.fsync(out.fileno())
