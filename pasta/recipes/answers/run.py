"""A model that answers several problems at once, and the proof that it stays right: from problems to figures.

    python pasta/recipes/answers/run.py all --model BASE --problems gsm8k_train.jsonl --problems mbpp_train.jsonl \
        --tests gsm8k_test.jsonl --tests mbpp_test.jsonl --chat-prompts chats.jsonl --run-code --out OUT

or some stages after each other (`run.py train baseline …`); `plan` says what each does and how long it may take on one
H200. A stage goes on where it stopped, saves as it goes, and stops by itself after `--minutes` (by default, what `plan`
gives it on a GPU). Only stages with a time there need a GPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from options import given, need, parser, read_part

from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.eval.contestants import Contestant
    from pasta.eval.questions import QuestionSet

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage does, and the seconds that it may take on an H200 with a model of 1.5 billion weights.

    0 where it needs no GPU.
    """

    name: str
    seconds: int
    does: str


STAGES = (
    Stage("sample", 190, "2.4 million tokens of answers to problems and chats, at 15,000 a second"),
    Stage("chats", 0, "marks the answers to chats by their structure"),
    Stage("bundle", 0, "marks the other answers, and puts right ones together"),
    Stage("train", 150, "LoRA on both: an epoch of 3 million tokens at 40,000 a second, and 70 s to begin"),
    Stage("baseline", 150, "the same without tags"),
    Stage("apar", 150, "the same without syncs"),
    Stage("evaluate", 200, "baseline and model on nine tasks, 1.8 million tokens each at 6,000 a second and process"),
    Stage("timing", 170, "four in one, 1.5 s a prompt; then what needs all of them"),
    Stage("preference", 150, "stage two from `pasta`, scored by what is right: 0.8 million tokens, 40 s of training"),
    Stage("preference-baseline", 150, "stage two from `baseline`, so that both had it"),
    Stage("report", 0, "marks what was evaluated; tables, and rows without words"),
    Stage("package", 0, "the adapter as a package for pip, with its card (--name, --base)"),
    Stage("pack", 15, "what should come back, in files of at most 14 MiB"),
)
LIMIT_S, STAGE_S = 25 * 60, 10 * 60


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__ or "", [stage.name for stage in STAGES]).parse_args(arguments)
    if "plan" in options.stages:
        print(plan())
        return
    chosen = (
        STAGES if "all" in options.stages else [one for name in options.stages for one in STAGES if one.name == name]
    )
    begun = time.monotonic()
    try:
        for stage in chosen:
            print(f"== {stage.name}", flush=True)
            started = time.monotonic()
            options.left = 60 * options.minutes if options.minutes is not None else default_seconds(stage, options)
            options.until = started + options.left
            globals()[f"run_{stage.name.replace('-', '_')}"](options)
            print(f"{stage.name}: {time.monotonic() - started:.0f} s", flush=True)
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted: what was done is kept, and the same command goes on", file=sys.stderr)
        sys.exit(130)
    print(f"{time.monotonic() - begun:.0f} s in all", flush=True)


def default_seconds(stage: Stage, options: argparse.Namespace) -> float:
    """The plan's, where there is a GPU; else a stage takes as long as it takes."""
    return float(stage.seconds) if on_gpu(options) else 0.0


def on_gpu(options: argparse.Namespace) -> bool:
    import torch

    return options.device != "cpu" and torch.cuda.is_available()


def plan() -> str:
    lines = [f"{one.name:20} {f'{one.seconds:4} s' if one.seconds else 'no GPU'}  {one.does}" for one in STAGES]
    return "\n".join([*lines, f"{'in all':20} {sum(one.seconds for one in STAGES):4} s  of {LIMIT_S}"])


# -- data ------------------------------------------------------------------------------------------------


def run_sample(options: argparse.Namespace) -> None:
    from sample import sample

    if not options.chat_prompts:
        need(options, "problems")
    names = ("samples", "code_samples", "limit", "batch", "max_tokens", "temperature", "seed")
    sample(
        options.model, options.problems, options.out, chat_prompts=options.chat_prompts,
        minutes=options.left / 60, device=options.device, part=read_part(options.part),
        **given(options, *names, "chat_limit", "chat_tokens"),
    )  # fmt: skip


def run_chats(options: argparse.Namespace) -> None:
    """By the recipe `default`, in a process of its own."""
    if not (options.out / "chats" / "samples.jsonl").exists():
        print("no chats were answered: nothing is learned of them, but for what --chats holds")
        return
    device = ["--device", options.device] if options.device else []
    command = [sys.executable, str(HERE.parent / "default" / "run.py"), "annotate", "--annotator", options.annotator]
    subprocess.run([*command, "--model", options.model, "--out", str(options.out / "chats"), *device], check=True)


def run_bundle(options: argparse.Namespace) -> None:
    from bundles import bundle

    marked = options.out / "chats" / "annotated.jsonl"
    chats = options.chats or (str(marked) if marked.exists() else None)
    bundle(
        options.model, need(options, "problems"), options.out, chats=chats, run_code=options.run_code,
        solutions=options.solutions, **given(options, "scale", "seed"),
    )  # fmt: skip


# -- training --------------------------------------------------------------------------------------------


def run_train(options: argparse.Namespace) -> None:
    finetune(options, "pasta", "annotated.jsonl")


def run_baseline(options: argparse.Namespace) -> None:
    finetune(options, "baseline", "annotated.jsonl", strip_tags=True)


def run_apar(options: argparse.Namespace) -> None:
    finetune(options, "apar", "apar.jsonl")


def finetune(options: argparse.Namespace, name: str, data: str, strip_tags: bool = False) -> None:
    from pasta.settings import read_yaml
    from pasta.train.config import SftConfig
    from pasta.train.sft import train

    if (options.out / name / "training.json").exists():
        print(f"{options.out / name} is trained already")
        return
    settings = {
        **read_yaml(str(HERE / "sft.yaml")),
        "data": str(options.out / data),
        "output": str(options.out / name),
        "model": options.model,
        "minutes": minutes_left(options),
        "strip_tags": strip_tags,
        "cpu": options.device == "cpu",
        "weights": "bfloat16" if on_gpu(options) else "auto",
        "resume": True,
        **given(
            options, "max_steps", "max_length", "batch_size", "gradient_accumulation", "seed", "method", "attention"
        ),
    }
    summary = train(SftConfig.from_mapping(settings))
    print(f"{summary.output}: {summary.examples} examples, {summary.steps} steps, loss {summary.loss:.3f}")


READING_S = 70  # of a step's time in stage two: the model, the data, the first compiled step


def run_preference(options: argparse.Namespace) -> None:
    improve(options, "pasta")


def run_preference_baseline(options: argparse.Namespace) -> None:
    improve(options, "baseline")


def improve(options: argparse.Namespace, name: str) -> None:
    """Stage two, scored by right answers; by another judge (`--judge`) where a prompt has none."""
    from pasta.settings import read_yaml
    from pasta.train.preference_config import PreferenceConfig
    from pasta.train.preference_report import summary
    from pasta.train.preference_run import run

    tasks = options.out / "tasks.jsonl"
    kind = "right-code" if options.run_code else "right"
    config = PreferenceConfig.from_mapping(
        {
            **read_yaml(str(HERE / "preference.yaml")),
            "model": str(options.out / name),
            "base": options.model,
            "baseline": str(options.out / "baseline"),
            "prompts": options.preference_prompts or str(tasks),
            "judge": f"{kind}:{tasks}" + (f"+{options.judge}" if options.judge else ""),
            "output": str(options.out / f"preference-{name}"),
            "minutes": max(30.0, options.left / 2 - READING_S) / 60 if options.left else 0.0,  # of either long step
            "device": options.device,
            **given(options, "seed", "max_tokens", "steps", "lambdas"),
            "part": options.part,
            **({"limit": options.limit} if options.limit else {}),
            **({"batch": options.batch} if options.batch else {}),
        }
    )
    if options.careful:
        from careful import run_carefully as run
    run(config)
    if "train" in config.chosen_steps:
        print("\n".join(summary(config)))


# -- measuring -------------------------------------------------------------------------------------------


def contestants(options: argparse.Namespace) -> list[Contestant]:
    """All that was trained, the rivals that need no training of their own, and `pasta` without tags."""
    from pasta.eval.contestants import Contestant

    out = options.out
    models = [Contestant(name, str(out / name)) for name in ("baseline", "pasta", "apar") if (out / name).is_dir()]
    names = [each.name for each in models]
    for name in ("baseline", "pasta"):
        for record in sorted((out / f"preference-{name}").glob("round-1/lambda-*/training.json")):
            models.append(Contestant(f"bon-{name}-{record.parent.name.removeprefix('lambda-')}", str(record.parent)))
    if "baseline" in names:
        models += [Contestant(way, str(out / "baseline"), way) for way in ("separate", "skeleton")]
    if "pasta" in names:
        models.append(Contestant("untagged", str(out / "pasta"), "plain"))
    return models


def sets(options: argparse.Namespace) -> list[QuestionSet]:
    """The tasks of every file of problems, and the prompts that are no tasks; in order of worth, or as `--sets`."""
    from pasta.eval.questions import QuestionSet
    from pasta.tasks.problem import read_problems

    files = {file: read_problems(file) for file in need(options, "tests")}

    def of(*tasks: tuple[str, int]) -> list[QuestionSet]:
        return [
            QuestionSet.of_task(None, task, file, size, parts_of(task, size, len(problems), options.parts))
            for task, size in tasks
            for file, problems in files.items()
            if not (problems[0].is_code and (task, size) in (("chain", 0), ("chain", 4), ("several", 0)))
        ]

    chats = [QuestionSet.parse(options.eval_prompts)] if options.eval_prompts else []
    rest = of(("chain", 0), ("chain", 4), ("plain", 0), ("several", 0))
    found = {each.name: each for each in [*of(("several", 4), ("gather", 0)), *chats, *rest]}
    names = options.sets.split(",") if options.sets else list(found)
    if unknown := [name for name in names if name not in found]:
        raise PastaError(f"--sets {unknown[0]}: there is no such set", hint=f"there are {', '.join(found)}")
    return [found[name] for name in names]


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
    wanted = options.models.split(",") if options.models else None
    return [each for each in contestants(options) if wanted is None or each.name in wanted]


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


def minutes_left(options: argparse.Namespace) -> float:
    """Of the stage; 0 where it has no limit."""
    return max(1.0, options.until - time.monotonic()) / 60 if options.left else 0.0


def is_over(options: argparse.Namespace) -> bool:
    return bool(options.left) and time.monotonic() > options.until


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
    tasks = [each for each in folder.sets() if each.is_task]
    for questions in tasks:
        mark_answers(folder, folder.contestants(), questions, say=say, run_code=options.run_code)
    summary, rows = make_report(folder)
    print(table(rows))
    for questions in tasks:
        print(f"\n{questions.name}\n{table(task_rows(summary, questions.name))}")


def run_package(options: argparse.Namespace) -> None:
    from package import package

    if not (options.name and options.base):
        print("no --name and --base: no package is made")
        return
    to = options.to or options.out / "package"
    made = package(options.out / options.chosen, options.out / "eval", to, name=options.name, base=options.base)
    print(f"{made}\npip install {to}, then: pasta generate --model {options.name} …")


def run_pack(options: argparse.Namespace) -> None:
    from pack import pack

    for part in pack(options.out, options.to or options.out / "packed"):
        print(f"{part}  {part.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
