"""The stages that train: stage one of three models, and stage two of two of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from options import HERE, given, minutes_left, need, need_made, on_gpu

from pasta.errors import PastaError

READING_S = 70  # of a step's time in stage two: the model, the data, the first compiled step


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
        "data": str(need_made(options.out / data, "bundle")),
        "output": str(options.out / name),
        "model": need(options, "model"),
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


def run_preference(options: argparse.Namespace) -> None:
    improve(options, "pasta")


def run_preference_baseline(options: argparse.Namespace) -> None:
    improve(options, "baseline")


def improve(options: argparse.Namespace, name: str) -> None:
    """Stage two by the settings of a file, into a folder of that name; both models are treated equally."""
    from pasta.settings import read_yaml
    from pasta.train.preference_config import PreferenceConfig
    from pasta.train.preference_report import summary
    from pasta.train.preference_run import run

    same = options.out / f"{options.settings.stem}-pasta" if options.same_prompts and name == "baseline" else None
    config = PreferenceConfig.from_mapping(
        {
            **read_yaml(str(options.settings)),
            "model": str(options.out / name),
            "base": need(options, "model"),
            "baseline": str(options.out / "baseline"),
            "prompts": options.preference_prompts or str(options.out / "tasks.jsonl"),
            "judge": judge_of(options),
            "output": str(options.out / f"{options.settings.stem}-{name}"),
            "device": options.device,
            "part": options.part,
            "same_prompts_as": str(same) if same else None,
            **given(options, "seed", "max_tokens", "steps", "lambdas", "learning_rate", "shortest", "limit", "batch"),
        }
    )
    check_made(options, name, config.chosen_steps)
    if options.left:  # which the long steps share
        long = [step for step in config.chosen_steps if step in ("sample", "train")]
        config = replace(config, minutes=max(30.0, options.left / max(1, len(long)) - READING_S) / 60)
    run(config)
    if "train" in config.chosen_steps:
        print("\n".join(summary(config)))


def check_made(options: argparse.Namespace, name: str, steps: Sequence[str]) -> None:
    """Whether there is what these steps of stage two read."""
    if "sample" in steps or "train" in steps:
        need_made(options.out / name, "baseline" if name == "baseline" else "train")
    if "sample" in steps:
        need_made(options.out / "baseline", "baseline")
    tasks = options.out / "tasks.jsonl"
    if not options.preference_prompts and ("sample" in steps or "score" in steps):
        need_made(tasks, "bundle")
    if "score" in steps and not options.judge and not tasks.exists():
        raise PastaError(
            f"nothing says what is right: {tasks} is missing", "run the stage bundle first, or pass --judge"
        )
    if options.same_prompts and name == "baseline" and "pairs" in steps:
        need_made(options.out / f"{options.settings.stem}-pasta", "preference")


def judge_of(options: argparse.Namespace) -> str:
    """What is right, where a prompt has a right answer; else `--judge`."""
    tasks = options.out / "tasks.jsonl"
    if options.judge and not tasks.exists():
        return str(options.judge)
    kind = "right-code" if options.run_code else "right"
    return f"{kind}:{tasks}" + (f"+{options.judge}" if options.judge else "")
