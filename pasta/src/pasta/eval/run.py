"""The stages of an evaluation, one command each. Every stage goes on where it stopped, and its rows are JSON lines."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pasta.errors import PastaError, UsageError
from pasta.eval.contestants import Contestant
from pasta.eval.decoding import MAX_TOKENS, TASK_TOKENS, Decoding
from pasta.eval.folder import RunFolder
from pasta.eval.questions import BUILT_IN, QuestionSet
from pasta.eval.table import table
from pasta.judge.open import KINDS
from pasta.outputs import check_folder

PROGRAM = "pasta eval"
MODEL_HELP = "a folder, an adapter, a name; METHOD: plain, sequential, skeleton, separate, parallelism:B; once a model"
TASKS = ("several", "gather", "chain", "plain", "freely")
TASK_HELP = (
    "several: 2 to 6 problems; gather: and then what needs all of them; chain: the second needs the first's answer; "
    "plain: one by one; freely: functions asked for in no form"
)
LEAST = {"limit": 0, "max_tokens": 1, "minutes": 0, "batch": 1, "parts": 1, "responses": 0, "size": 0}
PROMPTS_HELP = "AlpacaEval, MT-bench, Vicuna, any JSON (lines) of prompts; or: constraints, arithmetic"


def main(arguments: Sequence[str] | None = None) -> int:
    """For `python -m pasta.eval`; `pasta eval` reports errors itself."""
    try:
        run(arguments)
    except PastaError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    return 0


def run(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    check_least(options)
    if "dir" in options:
        check_folder(options.dir)
    rows = options.stage(options)
    if "dir" in options:
        RunFolder(options.dir).remember_command([PROGRAM, *given])
    if rows:
        print(json.dumps(rows, ensure_ascii=False) if options.json else table(rows))


def check_least(options: argparse.Namespace) -> None:
    """What can be refused before a folder is begun: later calls would have to go on with it."""
    for name, least in LEAST.items():
        value = getattr(options, name, None)
        if value is not None and not least <= value < math.inf:
            raise UsageError(f"--{name.replace('_', '-')} is {value}, expected {least} or more")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- the stages ------------------------------------------------------------------------------------------


def answers(options: argparse.Namespace) -> list[dict[str, Any]]:
    from pasta.eval.answers import run_answers

    folder = RunFolder(options.dir)
    return run_answers(
        folder, contestants_of(options, folder), sets_of(options, folder), say=say, limit=options.limit,
        at_once=options.batch, decoding=decoding(options, folder),
    )  # fmt: skip


def task(options: argparse.Namespace) -> Any:
    from pasta.eval.marks import run_task, task_rows
    from pasta.eval.summary import summarise

    folder = RunFolder(options.dir)
    questions = QuestionSet.of_task(options.name, options.task, options.data, options.size, options.parts)
    contestants = contestants_of(options, folder)
    check_reference(options.against, [*folder.record["models"], *(each.name for each in contestants)])
    how = decoding(options, folder)
    if options.max_tokens is None and how.max_tokens < TASK_TOKENS:
        say(
            f"warning: answers here have {how.max_tokens} tokens at most, as {folder.path} was begun with; tasks need "
            f"up to {TASK_TOKENS}, and what is cut off is not right: give them a folder of their own"
        )
    run_task(
        folder, contestants, questions, say=say, run_code=options.run_code, limit=options.limit,
        at_once=options.batch, decoding=how,
    )  # fmt: skip
    summary = summarise(folder, options.against, questions.name)
    if options.json:
        return summary["tasks"].get(questions.name, {})
    return task_rows(summary, questions.name)


def timing(options: argparse.Namespace) -> list[dict[str, Any]]:
    from pasta.eval.timing import run_timing

    folder = RunFolder(options.dir)
    return run_timing(
        folder, contestants_of(options, folder), set_of(options, folder), say=say, limit=options.limit,
        decoding=decoding(options, folder),
    )  # fmt: skip


def concurrency(options: argparse.Namespace) -> list[dict[str, Any]]:
    from pasta.eval.concurrency import measured_models, run_concurrency
    from pasta.eval.speed import of_concurrency

    folder = RunFolder(options.dir)
    try:
        users = [int(number) for number in options.users.split(",")]
    except ValueError:
        raise UsageError(f"--users {options.users}: expected numbers with commas between") from None
    if min(users) < 1:
        raise UsageError(f"--users {options.users}: expected 1 or more each")
    contestants = contestants_of(options, folder)
    if options.against is not None:
        check_reference(options.against, [*measured_models(folder), *(each.name for each in contestants)])
    run_concurrency(
        folder, contestants, set_of(options, folder), say=say, users=users,
        least=options.limit, decoding=decoding(options, folder),
    )  # fmt: skip
    return of_concurrency(folder, options.against or "baseline")


def judge(options: argparse.Namespace) -> list[dict[str, Any]]:
    from pasta.eval.judging import run_judging
    from pasta.eval.summary import main_set

    folder = RunFolder(options.dir)
    check_known(folder, "prompts", options.prompts, "prompts")
    return run_judging(
        folder, options.judge, options.prompts or main_set(folder), say=say, against=options.against,
        name=options.name, models=options.model, limit=options.limit, minutes=options.minutes,
    )  # fmt: skip


def report(options: argparse.Namespace) -> Any:
    from pasta.eval.report import make_report

    folder = RunFolder(options.dir)
    check_known(folder, "prompts", options.prompts, "prompts")
    check_known(folder, "judge", options.judge, "judges")
    summary, rows = make_report(
        folder, against=options.against, questions=options.prompts, judge=options.judge, shown=options.responses
    )
    say(f"wrote {folder.path / 'report' / 'index.html'}")
    return summary if options.json else rows


def without_syncs(options: argparse.Namespace) -> None:
    from pasta.eval.apar import write_without_syncs

    say(f"{write_without_syncs(options.source, options.target)} syncs removed")


# -- options ---------------------------------------------------------------------------------------------


def contestants_of(options: argparse.Namespace, folder: RunFolder) -> list[Contestant]:
    """Those given, or all that took part so far."""
    given = [Contestant.parse(text) for text in options.model] or folder.contestants()
    if not given:
        raise UsageError("no model was given", hint="--model NAME=MODEL, as often as there are models")
    check_distinct("models", [contestant.name for contestant in given])
    return given


def sets_of(options: argparse.Namespace, folder: RunFolder) -> list[QuestionSet]:
    known = {questions.name: questions for questions in folder.sets()}
    given = [known.get(text) or QuestionSet.parse(text) for text in options.prompts] or [*known.values()]
    if not given:
        raise UsageError("no prompts were given", hint="--prompts FILE, or constraints, or arithmetic")
    check_distinct("files of prompts", [questions.name for questions in given])
    for questions in given:
        if questions.name not in known:
            questions.check([*BUILT_IN, *known])
    return given


def set_of(options: argparse.Namespace, folder: RunFolder) -> QuestionSet:
    """The one set of prompts that was given, or else the one that judges and the report are about."""
    from pasta.eval.summary import main_set

    sets = sets_of(options, folder)
    if len(options.prompts) > 1:
        raise UsageError(f"this stage takes one set of prompts, not {len(sets)}", "call it once for each")
    return sets[0] if options.prompts else next(each for each in sets if each.name == main_set(folder))


def check_distinct(what: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two {what} are called {twice}", hint="give each a name of its own, as in NAME=…")


def check_known(folder: RunFolder, option: str, given: str | None, kind: str) -> None:
    """Of an option that names what an evaluation holds."""
    known = folder.require().get(kind, {})
    if given is not None and given not in known:
        raise UsageError(f"--{option} {given}: not in {folder.path}", f"it has {', '.join(known) or 'none'}")


def check_reference(against: str, here: Sequence[str]) -> None:
    """Before any work: nothing could be compared with a model that is not here."""
    if against not in here:
        known = ", ".join(dict.fromkeys(here))
        raise UsageError(f"--against {against}: no such model is here", f"name one of {known}, or add it with --model")


def decoding(options: argparse.Namespace, folder: RunFolder) -> Decoding:
    """As the options say; what they leave out, as the stages before decoded."""
    before = folder.record["settings"]
    dtype = before.get("dtype") if options.dtype is None else options.dtype
    made = Decoding(minutes=options.minutes, device=options.device, dtype=dtype, base=options.base)
    usual = before.get("max_tokens", options.usual_tokens)
    return replace(made, max_tokens=usual if options.max_tokens is None else options.max_tokens)


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that begins as that of all the other commands does."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog=PROGRAM, formatter_class=Help, description="Measure models: the quality of their answers and their speed."
    )
    stages = out.add_subparsers(required=True, metavar="STAGE")

    def stage(name: str, function: Any, help: str) -> argparse.ArgumentParser:
        made = stages.add_parser(name, help=help, description=help, formatter_class=Help)
        made.set_defaults(stage=function)
        made.add_argument("--json", action="store_true", help="print JSON in place of a table")
        return made

    def decodes(
        made: argparse.ArgumentParser, limit: int, limit_help: str, prompts: bool = True, tokens: int = MAX_TOKENS
    ) -> None:
        made.add_argument("dir", metavar="DIR", help="folder of the evaluation; made if it is not there")
        repeated: dict[str, Any] = {"action": "append", "default": []}
        made.add_argument("--model", metavar="NAME=MODEL[@METHOD]", help=MODEL_HELP, **repeated)
        if prompts:
            made.add_argument("--prompts", metavar="[NAME=]FILE", help=PROMPTS_HELP, **repeated)
        made.add_argument("--limit", type=int, default=limit, help=limit_help)
        made.add_argument(
            "--max-tokens", "--max-new-tokens", type=int, help=f"tokens an answer (the folder's, or {tokens})"
        )
        made.set_defaults(usual_tokens=tokens)
        made.add_argument("--minutes", type=float, default=0.0, help="stop by itself after so long")
        made.add_argument("--base", metavar="MODEL", help="where the adapters' base lies now, if not where they say")
        made.add_argument("--device", help="cpu or cuda; by default a GPU where there is one")
        made.add_argument("--dtype", help="bfloat16 on a GPU, float32 on a CPU; int8 on a CPU")

    made = stage("answers", answers, "Answer every prompt with every model, many at once.")
    decodes(made, 0, "the first so many prompts of each file")
    made.add_argument("--batch", type=int, default=128, help="prompts at once (%(default)s)")

    made = stage("task", task, "Mark answers to problems with right answers, put together in one prompt.")
    made.add_argument("task", choices=TASKS, metavar="TASK", help=TASK_HELP)
    decodes(made, 0, "the first so many prompts", prompts=False, tokens=TASK_TOKENS)
    made.add_argument("--data", required=True, metavar="FILE", help="problems: rows as GSM8K's or MBPP's")
    made.add_argument("--size", type=int, default=0, help="problems in one prompt (2 to 6, in turn)")
    made.add_argument("--parts", type=int, default=1000, help="problems in all, at the least (%(default)s)")
    made.add_argument("--name", help="of these prompts in the folder (TASK and FILE)")
    made.add_argument("--run-code", action="store_true", help="run what was answered where functions are asked for")
    made.add_argument("--batch", type=int, default=128, help="prompts at once (%(default)s)")
    made.add_argument("--against", default="baseline", metavar="MODEL", help="the reference (%(default)s)")

    made = stage("timing", timing, "Time prompts one at a time, the models taking turns.")
    decodes(made, 0, "so many prompts, drawn from the whole file (all)")

    made = stage("concurrency", concurrency, "Time answers against the number of concurrent users.")
    decodes(made, 16, "prompts at the least; twice the users where that is more (%(default)s)")
    made.add_argument("--users", default="1,2,4,8,16,32,64", help="how many at once (%(default)s)")
    made.add_argument("--against", metavar="MODEL", help="the sequential model to compare with (baseline)")

    made = stage("judge", judge, "Let a judge compare every answer with the reference's.")
    made.add_argument("dir", metavar="DIR", help="folder of the evaluation")
    made.add_argument("--judge", required=True, metavar="KIND[:NAME]", help="see below")
    made.add_argument("--against", default="baseline", metavar="MODEL", help="the reference (%(default)s)")
    made.add_argument("--prompts", metavar="SET", help="which prompts (the first file that was given)")
    made.add_argument("--model", action="append", default=[], metavar="NAME", help="only these models (all)")
    made.add_argument("--name", help="of the judge in the report (its kind)")
    made.add_argument("--limit", type=int, default=0, help="the first so many prompts")
    made.add_argument("--minutes", type=float, default=0.0, help="stop by itself after so long")
    made.epilog = f"judges:\n{textwrap.indent(KINDS, '  ')}"

    made = stage("report", report, "Make the report: a table, the plots, a page of the responses, JSON beside each.")
    made.add_argument("dir", metavar="DIR", help="folder of the evaluation")
    made.add_argument("--against", default="baseline", metavar="MODEL", help="the reference (%(default)s)")
    made.add_argument("--prompts", metavar="SET", help="which prompts (the first file that was given)")
    made.add_argument("--judge", metavar="NAME", help="whose win rates (the first judge's)")
    made.add_argument("--responses", type=int, default=100, help="prompts on the page (%(default)s)")

    made = stage("without-syncs", without_syncs, "Make training data for APAR: annotated rows without their syncs.")
    made.add_argument("source", metavar="IN")
    made.add_argument("target", metavar="OUT")
    return out
