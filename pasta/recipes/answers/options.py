"""The options of the recipe, and how its stages read them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pasta.errors import PastaError

HERE = Path(__file__).parent


def need(options: argparse.Namespace, name: str) -> Any:
    value = getattr(options, name)
    if not value:
        raise PastaError(f"this stage needs --{name.replace('_', '-')}")
    return value


def need_made(path: Path, stage: str) -> Path:
    """Refuses to begin without what another stage makes."""
    if not path.exists():
        raise PastaError(f"{path} is missing", hint=f"run the stage {stage} first")
    return path


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were passed; the others keep the stage's own defaults."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


# -- the time of a stage: `left` is how many seconds it has (0: no limit), `until` when they are over ---------


def minutes_left(options: argparse.Namespace) -> float:
    """Of the stage; 0 where it has no limit."""
    return max(1.0, options.until - time.monotonic()) / 60 if options.left else 0.0


def is_over(options: argparse.Namespace) -> bool:
    return bool(options.left) and time.monotonic() > options.until


def on_gpu(options: argparse.Namespace) -> bool:
    import torch

    return options.device != "cpu" and torch.cuda.is_available()


# -- what can be said -------------------------------------------------------------------------------------------


def parser(description: str, stages: Sequence[str]) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("stages", nargs="+", choices=(*stages, "all", "plan"))
    out.add_argument("--model", default="", help="the base model: a folder, a .gguf file, an id")
    out.add_argument("--out", type=Path, default=Path("answers"), help="folder for everything that is made")
    out.add_argument("--problems", action="append", default=[], help="problems to learn from, as GSM8K's or MBPP's")
    out.add_argument("--tests", action="append", default=[], help="problems to measure on")
    out.add_argument("--chat-prompts", help="prompts of chats, to be answered, marked and learned beside")
    out.add_argument("--annotator", default="structure", help="who marks them: structure, independence, or both")
    out.add_argument("--chats", help="chats that are annotated already, in their place")
    out.add_argument("--eval-prompts", metavar="[NAME=]FILE", help="prompts to measure on that are no problems")
    out.add_argument("--run-code", action="store_true", help="run the functions that the model writes")
    out.add_argument("--judge", help="who scores prompts of stage two that have no right answer; see docs/judge.md")
    out.add_argument("--minutes", type=float, help="each stage stops by itself after so long")
    out.add_argument("--device", help="cpu or cuda; by default a GPU where there is one")
    out.add_argument("--seed", type=int)
    out.add_argument("--limit", type=int, help="so many problems, or prompts, at most")
    out.add_argument("--batch", type=int, help="answers at once")
    out.add_argument(
        "--part", default="0/1", help="sample, score or answer this part: 0/2 in the first of two processes"
    )
    out.add_argument(
        "--processes", type=int, default=1, help="draw, score and measure in so many, and train at once (1)"
    )
    out.add_argument("--chat-limit", type=int, help="so many chats at most (1,500)")
    out.add_argument("--chat-samples", type=int, help="answers a chat, those after the first in a manner (1)")
    out.add_argument(
        "--chat-manner", type=Path, default=HERE / "manner.txt", metavar="FILE",
        help="that manner: what the model is told beside the prompt, and does not learn (manner.txt)",
    )  # fmt: skip
    out.add_argument("--chat-sequential", type=float, help="the share of chats to learn that do not fork (0.3)")
    out.add_argument("--chat-tokens", type=int, help="tokens an answer to a chat (400)")
    out.add_argument("--samples", type=int, help="answers a problem and style (1)")
    out.add_argument("--code-samples", type=int, help="answers a function (3)")
    out.add_argument("--max-tokens", type=int, help="tokens an answer, of samples (400) and of stage two (2400)")
    out.add_argument("--temperature", type=float, help="of samples (0.7)")
    out.add_argument("--solutions", action="store_true", help="bundle the data's own solutions, to try the stages")
    out.add_argument("--scale", type=float, help="so many times the usual number of examples (1)")
    out.add_argument("--max-steps", type=int, help="of a training")
    out.add_argument("--max-length", type=int, help="tokens a row of a training")
    out.add_argument("--batch-size", type=int, help="rows a step of a training")
    out.add_argument("--gradient-accumulation", type=int, help="batches to a step of a training")
    out.add_argument("--method", help="lora or full")
    out.add_argument("--attention", help="of a training: flex or dense; by default flex on a GPU")
    out.add_argument(
        "--settings", type=Path, default=HERE / "preference.yaml", metavar="FILE",
        help="of stage two (preference.yaml; chats.yaml is for chats): NAME.yaml writes OUT/NAME-pasta",
    )  # fmt: skip
    out.add_argument("--steps", help="of stage two: sample and score (each process its --part), then pairs,train")
    out.add_argument("--preference-prompts", metavar="FILE", help="of stage two; by default OUT/tasks.jsonl")
    out.add_argument(
        "--same-prompts", action="store_true",
        help="of stage two: the baseline learns from pairs of the very prompts that `pasta` has pairs of",
    )  # fmt: skip
    out.add_argument("--lambdas", help="of stage two: weights of quality against speed, with commas; a model for each")
    out.add_argument("--learning-rate", type=float, help="of stage two")
    out.add_argument("--shortest", type=float, help="of stage two: share of the baseline's tokens an answer must have")
    out.add_argument("--sets", help="measure on these alone, with commas: several4-gsm8k_test, alpaca, …")
    out.add_argument(
        "--models", help="measure these alone, with commas: baseline, pasta, untagged, …; NAME=FOLDER[@METHOD] adds one"
    )
    out.add_argument(
        "--eval-judge", help="of the report: who judges answers that no program can mark; see docs/judge.md"
    )
    out.add_argument("--against", default="baseline", help="of the report: the model that the others are held to")
    out.add_argument("--parts", type=int, default=1000, help="problems of a task (%(default)s)")
    out.add_argument("--eval-tokens", type=int, default=2560, help="tokens an answer, where it is measured")
    out.add_argument("--to", type=Path, help="where packed files (OUT/packed) or the package (OUT/package) go")
    out.add_argument("--name", help="what the packaged adapter is to be called")
    out.add_argument("--base", help="the packaged adapter's base, by its id on the hub")
    out.add_argument("--version", default="1.0", help="the packaged adapter's version (%(default)s)")
    out.add_argument("--chosen", default="pasta", help="the adapter under OUT to package (%(default)s)")
    return out
