"""The whole recipe of the default model, on any base model:

    python pasta/recipes/default/run.py all --model BASE --prompts PROMPTS.jsonl --eval-prompts EVAL.jsonl \
        --judge reward:JUDGE --out OUT

or stage by stage (`sample`, `annotate`, `train`, `baseline`, `preference`, `evaluate`, `export`; `speed` against the
baseline), each of which goes on where it stopped, and stops by itself after `--minutes`. What is not said by a flag is
as in `sft.yaml` and `preference.yaml`. What a stage makes lies under OUT as JSON lines; a short table comes last.
OUT/eval is a folder of `pasta eval`, which can go on with it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasta.errors import PastaError
from pasta.settings import read_part

if TYPE_CHECKING:
    from pasta.eval.contestants import Contestant
    from pasta.eval.decoding import Decoding
    from pasta.eval.folder import RunFolder
    from pasta.eval.questions import QuestionSet

STAGES = ("sample", "annotate", "train", "baseline", "preference", "evaluate", "export")
HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    stages = STAGES if options.stage == "all" else (options.stage,)
    begun = time.monotonic()
    try:
        for stage in stages:
            print(f"== {stage}", flush=True)
            if stage == "preference" and options.stage == "all" and not options.judge:
                print("without a --judge there is no stage two")
                continue
            globals()[f"run_{stage}"](options)
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"\n{options.stage}: {time.monotonic() - begun:.0f} s in all", flush=True)


def run_sample(options: argparse.Namespace) -> None:
    from sample import sample

    sample(
        options.model, need(options, "prompts"), options.out, **given(
            options, "samples", "batch", "limit", "max_tokens", "temperature", "top_p", "min_p",
            "repetition_penalty", "seed", "device",
        ), minutes=options.minutes, part=read_part(options.part),
    )  # fmt: skip


def run_annotate(options: argparse.Namespace) -> None:
    from annotate import annotate
    from files import need_made

    if not options.annotated:
        need_made(options.out / "samples.jsonl", "sample")
    annotate(
        options.model,
        options.out,
        minutes=options.minutes,
        **given(options, "annotator", "annotated", "sequential", "untagged", "seed", "device"),
    )


def run_train(options: argparse.Namespace, strip_tags: bool = False) -> None:
    from files import need_made, table

    from pasta.settings import read_yaml
    from pasta.train.config import SftConfig
    from pasta.train.sft import train

    held_out = options.out / "held-out.jsonl"
    name = "baseline" if strip_tags else name_of(options)
    if (options.out / name / "training.json").exists():
        print(f"{options.out / name} is trained already; for another, delete it or pass another --name")
        return
    data = options.data or str(need_made(options.out / "annotated.jsonl", "annotate"))
    recipe = read_yaml(str(HERE / "sft.yaml"))
    if options.method not in (None, recipe["method"]):
        del recipe["learning_rate"]  # which is that method's
    settings: dict[str, Any] = {
        **recipe,
        "data": data,
        "output": str(options.out / name),
        "model": options.model,
        "minutes": options.minutes,
        "eval_data": str(held_out) if held_out.exists() and held_out.stat().st_size else None,
        "strip_tags": strip_tags,
        "cpu": options.device == "cpu",
        "resume": True,
        **given(
            options, "epochs", "learning_rate", "batch_size", "max_length", "attention", "method", "seed", "limit",
            "lora_rank", "lora_alpha", "embeddings", "max_steps", "save_steps", "logging_steps", "compile",
            "positions",
        ),
    }  # fmt: skip
    summary = train(SftConfig.from_mapping(settings))
    last = [entry for entry in summary.log if "loss" in entry][-1:]
    held = [entry for entry in summary.log if "eval_loss" in entry][-1:]
    table(
        summary.output,
        [
            ("examples", summary.examples),
            *((f"refused: {reason}", count) for reason, count in summary.refused.items()),
            ("rows", summary.rows),
            ("fill", summary.fill),
            ("steps", summary.steps),
            ("loss", summary.loss),
            *((f"last {key}", value) for entry in last for key, value in entry.items() if "loss" in key),
            *((key, value) for entry in held for key, value in entry.items() if "loss" in key),
            ("seconds", summary.seconds),
        ],
    )


def run_baseline(options: argparse.Namespace) -> None:
    """Baseline-SFT: the same answers, without their tags."""
    run_train(options, strip_tags=True)


def run_preference(options: argparse.Namespace) -> None:
    from files import need_made

    from pasta.settings import read_yaml
    from pasta.train.preference_config import PreferenceConfig
    from pasta.train.preference_report import summary
    from pasta.train.preference_run import run

    config = PreferenceConfig.from_mapping(
        {
            **read_yaml(str(HERE / "preference.yaml")),
            "model": str(options.out / name_of(options)),
            "base": options.model,
            "baseline": str(options.out / "baseline"),
            "prompts": need(options, "prompts"),
            "judge": need(options, "judge"),
            "output": str(options.out / "preference"),
            "minutes": options.minutes,
            "part": options.part,
            **given(options, "limit", "device", "steps", "lambdas", "rounds", "seed", "batch", "max_tokens"),
        }
    )
    if "sample" in config.chosen_steps or "train" in config.chosen_steps:
        need_made(options.out / name_of(options), "train")
        need_made(options.out / "baseline", "baseline")
    run(config)
    print("\n".join(summary(config)))


def run_evaluate(options: argparse.Namespace) -> None:
    from pasta.eval.answers import run_answers
    from pasta.eval.report import make_report
    from pasta.eval.run import say
    from pasta.eval.table import table

    folder, models, questions = evaluation(options)
    run_answers(
        folder, models, [questions], say=say, limit=options.eval_limit, at_once=options.eval_batch,
        decoding=decoding(options),
    )  # fmt: skip
    _, rows = make_report(folder, against=models[0].name, questions=questions.name)
    print(table(rows))


def run_speed(options: argparse.Namespace) -> None:
    """Not part of `all`: it needs the baseline too, and a machine that does nothing else."""
    from files import table

    from pasta.eval.rows import collect
    from pasta.eval.run import say
    from pasta.eval.speed import realised
    from pasta.eval.timing import run_timing

    folder, models, questions = evaluation(options)
    if len(models) < 2:
        raise PastaError(f"{options.out} holds no baseline to compare with", hint="run the stage baseline first")
    run_timing(folder, models, questions, say=say, limit=options.eval_limit or 100, decoding=decoding(options))
    baseline = models[0].name
    rows = collect(folder)[questions.name]
    for model in models[1:]:
        found = realised(rows[model.name], rows[baseline])
        table(f"{model.name} against {baseline}, one at a time", [(key, it and it.value) for key, it in found.items()])


def evaluation(options: argparse.Namespace) -> tuple[RunFolder, list[Contestant], QuestionSet]:
    """OUT/eval; the trained model, after Baseline-SFT where there is one; the prompts that they are measured on."""
    from files import need_made

    from pasta.eval.contestants import Contestant
    from pasta.eval.folder import RunFolder
    from pasta.eval.questions import QuestionSet

    name = name_of(options)
    baseline = options.out / "baseline"
    # In `all`, --model is the base; alone, --trained may name any other folder.
    trained_one = options.trained or str(need_made(options.out / name, "train"))
    models = [Contestant(name, trained_one, parallelism=options.parallelism)]
    if name != "baseline" and baseline.is_dir():
        models.insert(0, Contestant("baseline", str(baseline)))
    if not options.trained:
        trained = sorted((options.out / "preference").glob("round-*/lambda-*/training.json"))
        models += [Contestant(preference_name(record.parent), str(record.parent)) for record in trained]
    folder = RunFolder(options.out / "eval")
    return folder, models, QuestionSet.parse(options.eval_prompts or need(options, "prompts"))


def preference_name(folder: Path) -> str:
    """bon-1 of round-1/lambda-1, bon2-1 of round-2-lambda-1/lambda-1: best of n, the round, the weight of quality."""
    number = folder.parent.name.split("-")[1]
    return f"bon{number if number != '1' else ''}-{folder.name.removeprefix('lambda-')}"


def decoding(options: argparse.Namespace) -> Decoding:
    from pasta.eval.decoding import Decoding

    return Decoding(options.eval_tokens, options.minutes, options.device)


def run_export(options: argparse.Namespace) -> None:
    """The small form of a model whose weights were trained in full; LoRA gives it by itself."""
    from files import need_made, table

    from pasta.models import load_model
    from pasta.models.adapter import Base, is_adapter
    from pasta.models.extract import extract_adapter

    name = name_of(options)
    trained = options.trained or str(need_made(options.out / name, "train"))
    if is_adapter(trained):
        print(f"{trained} is an adapter already")
        return
    base = load_model(options.model, device=options.device, dtype="float32")
    tuned = load_model(trained, device=options.device, dtype="float32")
    origin = Base(options.base_name) if options.base_name else Base.of(base.folder)
    folder = options.out / f"{name}-adapter"
    got = extract_adapter(
        tuned.model, base.model, tuned.vocabulary, folder, origin=origin, megabytes=options.megabytes,
    )  # fmt: skip
    ranks = sorted(got.ranks.values())
    table(
        str(folder),
        [
            ("megabytes", got.bytes / 1e6),
            ("missing of the change", got.error),
            ("change of other embeddings, left out", got.embeddings),
            ("layers", len(ranks)),
            ("ranks (least, middle, most)", f"{ranks[0]}, {ranks[len(ranks) // 2]}, {ranks[-1]}" if ranks else "none"),
        ],
    )


def name_of(options: argparse.Namespace) -> str:
    """What the trained model is called under OUT."""
    return str(options.name or "pasta")


def need(options: argparse.Namespace, name: str) -> Any:
    value = getattr(options, name)
    if value is None:
        raise PastaError(f"this stage needs --{name.replace('_', '-')}")
    return value


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were passed; the others keep the stage's own defaults."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("stage", choices=(*STAGES, "speed", "all"))
    out.add_argument("--model", required=True, help="the base model: a folder, a .gguf file, an id")
    out.add_argument("--out", type=Path, required=True, help="folder for everything that is made")
    out.add_argument("--minutes", type=float, default=0.0, help="each stage stops by itself after so long")
    out.add_argument("--device", help="cpu or cuda; by default a GPU where there is one")
    out.add_argument("--seed", type=int)
    out.add_argument("--limit", type=int, help="so many prompts or examples at most")
    out.add_argument("--part", default="0/1", help="sample (or score) this part: 0/2 in the first of two processes")
    out.add_argument("--name", help="of the trained model under OUT (pasta)")

    sample = out.add_argument_group("sample")
    sample.add_argument("--prompts", help="JSON lines with `prompt`, `instruction` or `messages` (also .xz, .gz)")
    sample.add_argument("--samples", type=int, help="answers a prompt, where they have parts that could fork (3)")
    sample.add_argument("--batch", type=int, help="answers at once (1024)")
    sample.add_argument("--max-tokens", "--max-new-tokens", type=int, help="tokens an answer (600)")
    sample.add_argument("--temperature", type=float, help="(0.8)")
    sample.add_argument("--top-p", type=float, help="(1, which is off: it is slow in bulk)")
    sample.add_argument("--min-p", type=float, help="(0.05)")
    sample.add_argument("--repetition-penalty", type=float, help="(1.1)")

    annotate = out.add_argument_group("annotate")
    annotate.add_argument("--annotator", help="structure, independence, or both with a comma (structure)")
    annotate.add_argument("--annotated", help="a file made by `pasta annotate`, in place of annotating now")
    annotate.add_argument("--sequential", type=float, help="share of the answers without a fork (0.3)")
    annotate.add_argument("--untagged", type=float, help="share of the list answers that lose their tags (0.1)")

    train = out.add_argument_group("train, baseline: as in sft.yaml, but for")
    train.add_argument("--data", help="annotated JSON lines (OUT/annotated.jsonl)")
    train.add_argument("--method", help="full or lora (lora)")
    train.add_argument("--lora-rank", type=int)
    train.add_argument("--lora-alpha", type=float)
    train.add_argument("--embeddings", help="all or tags")
    train.add_argument("--epochs", type=float)
    train.add_argument("--max-steps", type=int)
    train.add_argument("--learning-rate", type=float)
    train.add_argument("--batch-size", type=int, help="rows at once (8)")
    train.add_argument("--max-length", type=int, help="tokens a row (2048)")
    train.add_argument("--positions", help="predicted, ones, fixed:K or stitched (predicted)")
    train.add_argument("--attention", help="flex or dense")
    train.add_argument("--compile", action="store_true", default=None)
    train.add_argument("--save-steps", type=int)
    train.add_argument("--logging-steps", type=int)

    preference = out.add_argument_group("preference: as in preference.yaml, but for")
    preference.add_argument("--judge", help="who judges quality: reward:FOLDER, llm:MODEL@URL, …; see docs/judge.md")
    preference.add_argument("--steps", help="sample and score (each process its --part), pairs, train; with commas")
    preference.add_argument("--lambdas", help="weights of quality against speed, with commas")
    preference.add_argument("--rounds", type=int, help="with fresh samples (2)")

    evaluate = out.add_argument_group("evaluate")
    evaluate.add_argument("--eval-prompts", help="the prompts to measure on (those of --prompts)")
    evaluate.add_argument("--trained", help="the model folder to measure (OUT/NAME)")
    evaluate.add_argument("--eval-limit", type=int, default=0)
    evaluate.add_argument("--eval-batch", type=int, default=64, help="answers at once")
    evaluate.add_argument("--eval-tokens", type=int, default=512, help="tokens an answer")
    evaluate.add_argument("--parallelism", type=float, default=0.0, help="a bias on opening a promise")

    export = out.add_argument_group("export")
    export.add_argument("--megabytes", type=float, default=15.0, help="what the adapter may weigh")
    export.add_argument("--base-name", help="how the adapter names its base model (default: as --model)")
    return out


if __name__ == "__main__":
    main()
