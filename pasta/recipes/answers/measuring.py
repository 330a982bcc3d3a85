"""The stages that measure what was trained."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from options import is_over, minutes_left, need, need_made

from pasta.errors import PastaError
from pasta.settings import read_part

if TYPE_CHECKING:
    from pasta.eval.contestants import Contestant
    from pasta.eval.folder import RunFolder
    from pasta.eval.questions import QuestionSet


def contestants(options: argparse.Namespace) -> list[Contestant]:
    """All that was trained, the rivals that need no training of their own, and `pasta` without tags."""
    from pasta.eval.contestants import Contestant

    out = options.out
    models = [Contestant(name, str(out / name)) for name in ("baseline", "pasta", "apar") if (out / name).is_dir()]
    names = [each.name for each in models]
    for name in ("baseline", "pasta"):
        for record in sorted(out.glob(f"*-{name}/round-1/lambda-*/training.json")):
            stage = record.parts[-4].removesuffix(f"-{name}").replace("preference", "bon")  # as `--settings` is called
            models.append(
                Contestant(f"{stage}-{name}-{record.parent.name.removeprefix('lambda-')}", str(record.parent))
            )
    if "baseline" in names:
        models += [Contestant(way, str(out / "baseline"), way) for way in ("separate", "skeleton")]
    if "pasta" in names:
        models.append(Contestant("untagged", str(out / "pasta"), "plain"))
    return models


def sets(options: argparse.Namespace) -> list[QuestionSet]:
    """The tasks of every file of problems, and the prompts that are no tasks; in order of worth, or as `--sets`."""
    from pasta.eval.questions import QuestionSet
    from pasta.tasks.problem import read_problems

    files = {file: read_problems(file) for file in (options.tests if options.eval_prompts else need(options, "tests"))}

    def of(*tasks: tuple[str, int]) -> list[QuestionSet]:
        return [
            QuestionSet.of_task(None, task, file, size, parts_of(task, size, len(problems), options.parts))
            for task, size in tasks
            for file, problems in files.items()
            if (task, size) not in (OF_NUMBERS if problems[0].is_code else OF_FUNCTIONS)
        ]

    chats = [QuestionSet.parse(options.eval_prompts)] if options.eval_prompts else []
    rest = of(("chain", 0), ("chain", 4), ("freely", 0), ("plain", 0), ("several", 0))
    found = {each.name: each for each in [*of(("several", 4), ("gather", 0)), *chats, *rest]}
    names = options.sets.split(",") if options.sets else list(found)
    if unknown := [name for name in names if name not in found]:
        raise PastaError(f"--sets {unknown[0]}: there is no such set", hint=f"there are {', '.join(found)}")
    return [found[name] for name in names]


#: Chains link numbers, functions have names to be asked for by; and of functions four in one are enough.
OF_NUMBERS, OF_FUNCTIONS = (("chain", 0), ("chain", 4), ("several", 0)), (("freely", 0),)


def parts_of(task: str, size: int, problems: int, parts: int) -> int:
    """Of four in one, which says most, up to twice as many as of the others, but no problem more than twice."""
    return max(parts, min(2 * parts, 2 * problems)) if (task, size) == ("several", 4) else parts


def run_evaluate(options: argparse.Namespace) -> None:
    """Set by set, so that where time is short every model has answered the same; `report` marks the answers.

    A model by itself answers all sets in one stream.
    """
    from pasta.eval.answers import run_answers
    from pasta.eval.folder import RunFolder
    from pasta.eval.run import say

    folder, models = RunFolder(options.out / "eval"), asked(options)
    folder.remember_command(["python", "run.py", "evaluate", "--models", ",".join(each.name for each in models)])
    engines: dict[str, Any] = {}
    every = sets(options)
    for names in (FIRST, None):
        for asked_now in [every] if len(models) == 1 else [[each] for each in every]:
            if is_over(options):
                return
            chosen = [each for each in models if names is None or each.name in names]
            run_answers(
                folder, chosen, asked_now, say=say, limit=options.limit or 0, at_once=options.batch or 192,
                decoding=decoding(options), engines=engines,
                part=read_part(options.part),
            )  # fmt: skip


FIRST = ("baseline", "pasta")


def asked(options: argparse.Namespace) -> list[Contestant]:
    """Those of `--models`, which may add some of its own; by default all that there are."""
    from pasta.eval.contestants import Contestant

    known = {each.name: each for each in contestants(options)}
    if not known and not options.models:
        raise PastaError(f"{options.out} holds no model to measure", hint="run the stages train and baseline first")
    wanted = options.models.split(",") if options.models else list(known)
    if unknown := [name for name in wanted if "=" not in name and name not in known]:
        raise PastaError(
            f"--models {unknown[0]}: there is no such model", hint=f"there are {', '.join(known) or 'none'}"
        )
    return [Contestant.parse(name) if "=" in name else known[name] for name in wanted]


def run_timing(options: argparse.Namespace) -> None:
    """Four in one, what needs all of them, and the chats; the baseline and the model, or those of `--models`."""
    from pasta.eval.folder import RunFolder
    from pasta.eval.run import say
    from pasta.eval.timing import run_timing

    folder = RunFolder(options.out / "eval")
    models = [each for each in asked(options) if options.models or each.name in TIMED]
    prompts = [each for each in sets(options) if not each.is_task or each.name.startswith(("several4", "gather"))]
    folder.remember_command(["python", "run.py", "timing", "--models", ",".join(each.name for each in models)])
    engines: dict[str, Any] = {}
    for most in ROUNDS:
        for questions in prompts:
            if is_over(options):
                return
            chosen = models if questions.name.startswith("several") else [m for m in models if m.name != "separate"]
            run_timing(
                folder, chosen, questions, say=say, limit=min(most, options.limit or most), engines=engines,
                decoding=decoding(options),
            )  # fmt: skip


TIMED = ("baseline", "pasta", "separate")

#: Prompts of each set that are timed by the end of a round: however soon time is up, no set has much more than another.
ROUNDS = (5, 10, 20, 30, 40, 60, 80, 120, 160, 320, 1000)


def decoding(options: argparse.Namespace) -> Any:
    from pasta.eval.decoding import Decoding

    return Decoding(options.eval_tokens, minutes_left(options), options.device, base=options.model)


def run_report(options: argparse.Namespace) -> None:
    from pasta.eval.folder import RunFolder
    from pasta.eval.marks import mark_answers, task_rows
    from pasta.eval.report import make_report
    from pasta.eval.run import say
    from pasta.eval.table import table

    folder = RunFolder(options.out / "eval")
    need_made(folder.path / "answers", "evaluate")
    tasks = [each for each in folder.sets() if each.is_task]
    for questions in tasks:
        mark_answers(folder, folder.contestants(), questions, say=say, run_code=options.run_code)
    judge = judge_chats(options, folder) if options.eval_judge else None
    summary, rows = make_report(folder, against=options.against, judge=judge)
    print(table(rows))
    for questions in tasks:
        print(f"\n{questions.name}\n{table(task_rows(summary, questions.name))}")


def judge_chats(options: argparse.Namespace, folder: RunFolder) -> str:
    """Asks a judge about all that are no tasks; returns its name in the report, which says against whom."""
    from pasta.eval.judging import run_judging
    from pasta.eval.run import say

    chats = [each.name for each in folder.sets() if not each.is_task]
    if not chats:
        raise PastaError(f"{folder.path} has no answers for --eval-judge", hint="evaluate with --eval-prompts first")
    kind = options.eval_judge.partition(":")[0]
    name = kind if options.against == "baseline" else f"{kind}-{options.against}"
    for questions in chats:
        run_judging(folder, options.eval_judge, questions, say=say, against=options.against, name=name)
    folder.remember_command(
        ["python", "run.py", "report", "--eval-judge", options.eval_judge, "--against", options.against]
    )
    return name
