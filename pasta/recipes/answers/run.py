"""A model that answers several problems at once, and the proof that it stays right: from problems to figures.

    python pasta/recipes/answers/run.py all --model BASE --problems gsm8k_train.jsonl --problems mbpp_train.jsonl \
        --tests gsm8k_test.jsonl --tests mbpp_test.jsonl --chat-prompts chats.jsonl --run-code --out OUT

or some stages after each other (`run.py train baseline …`); `plan` says what each does and how long it may take on one
H200. A stage goes on where it stopped, saves as it goes, and stops by itself after `--minutes` (by default, what `plan`
gives it on a GPU). Only stages with a time there need a GPU. With `--processes 4` four draw and measure answers, and
trainings run beside each other.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from measuring import run_evaluate, run_report, run_timing
from options import need, need_made, on_gpu, parser
from prepare import run_bundle, run_chats, run_sample
from training import run_apar, run_baseline, run_preference, run_preference_baseline, run_train

from pasta.errors import PastaError
from pasta.processes import Work, at_once
from pasta.settings import read_part


def run_package(options: argparse.Namespace) -> None:
    from package import package

    if not (options.name and options.base):
        print("no --name and --base: no package is made")
        return
    to = options.to or options.out / "package"
    need_made(options.out / options.chosen, "train")
    need_made(options.out / "eval" / "summary.json", "report")
    made = package(
        options.out / options.chosen,
        options.out / "eval",
        to,
        name=options.name,
        base=options.base,
        version=options.version,
    )
    print(f"{made}\npip install {to}, then: pasta generate --model {options.name} …")


def run_pack(options: argparse.Namespace) -> None:
    from pack import pack

    for part in pack(options.out, options.to or options.out / "packed"):
        print(f"{part}  {part.stat().st_size / 2**20:.1f} MiB")


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage does, and the seconds that it may take on an H200 with a model of 1.5 billion weights.

    0 where it needs no GPU.
    """

    name: str
    run: Callable[[argparse.Namespace], None]
    seconds: int
    does: str


STAGES = (
    Stage("sample", run_sample, 190, "2.4 million tokens of answers to problems and chats, at 15,000 a second"),
    Stage("chats", run_chats, 0, "marks the answers to chats by their structure"),
    Stage("bundle", run_bundle, 0, "marks the other answers, and puts right ones together"),
    Stage("train", run_train, 150, "LoRA on both: an epoch of 3 million tokens at 40,000 a second, and 70 s to begin"),
    Stage("baseline", run_baseline, 150, "the same without tags"),
    Stage("apar", run_apar, 150, "the same without syncs"),
    Stage("preference", run_preference, 150, "stage two from `pasta`: 0.8 million tokens, 40 s of training"),
    Stage("preference-baseline", run_preference_baseline, 150, "stage two from `baseline`, so that both had it"),
    Stage(
        "evaluate",
        run_evaluate,
        200,
        "all models on nine tasks, baseline and model first: 1.8 million tokens each at 6,000 a second and process",
    ),
    Stage("timing", run_timing, 170, "four in one, 1.5 s a prompt; then what needs all of them"),
    Stage("report", run_report, 0, "marks what was evaluated; tables, and rows without words"),
    Stage("package", run_package, 0, "the adapter as a package for pip, with its card (--name, --base)"),
    Stage("pack", run_pack, 15, "what should come back, in files of at most 14 MiB"),
)
LIMIT_S = 25 * 60


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
        if "all" in options.stages:  # what would be missed hours later
            for name in ("model", "problems", *(() if options.eval_prompts else ("tests",))):
                need(options, name)
        check_processes(options)
        for stages in groups(chosen, options.processes):
            names = ", ".join(stage.name for stage in stages)
            print(f"== {names}", flush=True)
            started = time.monotonic()
            planned = sum(default_seconds(stage, options) for stage in stages)
            options.left = 60 * options.minutes if options.minutes is not None else planned
            options.until = started + options.left
            at_once(shared_out(stages, options))
            print(f"{names}: {time.monotonic() - started:.0f} s", flush=True)
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted: what was done is kept, and the same command goes on", file=sys.stderr)
        sys.exit(130)
    print(f"{time.monotonic() - begun:.0f} s in all", flush=True)


def check_processes(options: argparse.Namespace) -> None:
    if options.processes < 1:
        raise PastaError(f"--processes is {options.processes}, expected 1 or more")
    if options.processes > 1 and read_part(options.part) != (0, 1):
        raise PastaError(f"--part {options.part} and --processes {options.processes} share the same work", "pass one")


def groups(stages: Sequence[Stage], processes: int) -> Iterator[list[Stage]]:
    """What runs at once, in order: trainings that follow each other, as many as there are processes, or one stage."""
    group: list[Stage] = []
    for stage in stages:
        if group and (stage.name not in TRAININGS or group[0].name not in TRAININGS or len(group) == processes):
            yield group
            group = []
        group.append(stage)
    if group:
        yield group


TRAININGS = ("train", "baseline", "apar")


def shared_out(stages: Sequence[Stage], options: argparse.Namespace) -> list[Work]:
    """What each process does: a training of its own, or a part of a stage, where that has parts."""
    parts = options.processes if len(stages) == 1 and has_parts(stages[0].name, options) else 1
    if parts == 1:
        return [(stage.run, options) for stage in stages]
    shares = [argparse.Namespace(**{**vars(options), "part": f"{number}/{parts}"}) for number in range(parts)]
    return [(stages[0].run, share) for share in shares]


def has_parts(stage: str, options: argparse.Namespace) -> bool:
    return stage in ("sample", "evaluate") or (stage.startswith("preference") and options.steps in ("sample", "score"))


def default_seconds(stage: Stage, options: argparse.Namespace) -> float:
    """The plan's, where there is a GPU; else a stage takes as long as it takes."""
    return float(stage.seconds) if on_gpu(options) else 0.0


def plan() -> str:
    lines = [f"{one.name:20} {f'{one.seconds:4} s' if one.seconds else 'no GPU'}  {one.does}" for one in STAGES]
    return "\n".join([*lines, f"{'in all':20} {sum(one.seconds for one in STAGES):4} s  of {LIMIT_S}"])


if __name__ == "__main__":
    main()
