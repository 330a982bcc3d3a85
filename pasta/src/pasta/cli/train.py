"""`pasta train sft`, `preference`, `judge`: finetuning. Every field of a configuration is also a flag."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pasta.judge.config import JudgeConfig
from pasta.train.config import SftConfig
from pasta.train.preference_config import PreferenceConfig

command = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, help="Finetune a model to decode in parallel."
)


ALIASES = {"--out": ("--output", "--out")}  # one spelling everywhere; the older one still works


@command.callback()
def root() -> None:
    """Finetune a model to decode in parallel."""


def flags_of(config: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a function one option for each field of a configuration; those not passed stay None."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        kinds = typing.get_type_hints(config)
        parameters = [*inspect.signature(function, eval_str=True).parameters.values()][:-1]  # all but **flags
        for field in dataclasses.fields(config):
            parameters.append(option(field, kinds[field.name]))
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return function

    return decorate


def option(field: dataclasses.Field[Any], kind: Any) -> inspect.Parameter:
    """One field as an option. Its default stands in the help, so that None can mean: not passed."""
    flag = "--" + field.name.replace("_", "-")
    plain = kind
    if isinstance(kind, types.UnionType):
        plain = next(part for part in typing.get_args(kind) if part is not type(None))
    help = field.metadata["help"]
    if field.default not in (None, ""):
        help += f" [default: {str(field.default).lower() if plain is bool else field.default}]"
    if typing.get_origin(plain) is typing.Literal:
        plain = str  # the configuration names the choices when it refuses another
    names = (f"{flag}/--no-{flag[2:]}",) if plain is bool else ALIASES.get(flag, (flag,))
    annotation: Any = Annotated[typing.Optional[plain], typer.Option(*names, help=help, show_default=False)]  # noqa: UP045
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


@command.command("sft")
@flags_of(SftConfig)
def sft(
    config: Annotated[str | None, typer.Option(help="A YAML file of these settings; flags go before it.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what was done as one JSON object.")] = False,
    **flags: Any,
) -> None:
    """Finetune on annotated answers, as `pasta annotate` makes them. Prints the model's folder.

    It says first what it will do. Ctrl-C saves a checkpoint, and --resume goes on from it. On several GPUs:
    accelerate launch "$(command -v pasta)" train sft --config FILE
    """
    settings = SftConfig.from_flags(flags, config)
    from pasta.train.plan import count
    from pasta.train.sft import train  # only now: `--help` needs no torch

    summary = train(settings)
    if not is_first():
        return
    minutes = summary.seconds / 60
    print(f"{count(summary.steps, 'step')}, {minutes:.1f} min, loss {summary.loss:.4f}", file=sys.stderr)
    print(json.dumps(summary.to_dict(), default=str) if json_ else summary.output)


def is_first() -> bool:
    """Under accelerate or torchrun, one process speaks for all."""
    return os.environ.get("RANK", "0") == "0"


@command.command("preference")
@flags_of(PreferenceConfig)
def preference(
    config: Annotated[str | None, typer.Option(help="A YAML file of these settings; flags go before it.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what was trained as one JSON list.")] = False,
    **flags: Any,
) -> None:
    """Improve a finetuned model by its own samples.

    The fast and good ones are set against the others. Samples, scores, pairs and models lie under the output folder.
    Every step goes on where it stopped. On several GPUs:
    accelerate launch "$(command -v pasta)" train preference --config FILE
    """
    settings = PreferenceConfig.from_flags(flags, config)
    from pasta.train.preference_report import summary
    from pasta.train.preference_run import run

    records = run(settings)
    if not is_first():
        return
    print("\n".join(summary(settings)), file=sys.stderr)
    if json_:
        print(json.dumps(records))
    else:
        for record in records:
            print(record["output"])


@command.command("judge")
@flags_of(JudgeConfig)
def judge(
    json_: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
    **flags: Any,
) -> None:
    """Train a reward model, or a linear judge, on preferences.

    They are folded by prompt, and how far it agrees with those that it was not trained on is reported.
    """
    settings = JudgeConfig.from_flags(flags)
    from pasta.judge.report import markdown
    from pasta.judge.train import train_judge

    report = train_judge(settings)
    print(json.dumps(report) if json_ else markdown(report))
