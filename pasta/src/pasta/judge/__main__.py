"""`python -m pasta.judge train …`, `score …`, `report …`: without the command line's packages, for bare machines."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import typing
from pathlib import Path

from pasta.errors import PastaError
from pasta.judge.config import JudgeConfig


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pasta.judge", description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    train = tasks.add_parser("train")
    kinds = typing.get_type_hints(JudgeConfig)
    for field in dataclasses.fields(JudgeConfig):
        if kinds[field.name] is bool:
            train.add_argument(flag_of(field.name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS)
            continue
        plain = next((k for k in (int, float) if k in (kinds[field.name], *typing.get_args(kinds[field.name]))), str)
        train.add_argument(flag_of(field.name), type=plain, help=field.metadata["help"], default=argparse.SUPPRESS)
    score = tasks.add_parser("score")
    score.add_argument("judge", help="folder of `pasta train judge`")
    score.add_argument("source", help="JSON lines with prompt and answer, and maybe reference")
    score.add_argument("target", help="where the scored lines go")
    report = tasks.add_parser("report")
    report.add_argument("judge", help="folder of `pasta train judge`")
    report.add_argument("data", help="the preferences that it was trained on")
    options = vars(parser.parse_args())
    task = options.pop("task")
    try:
        from pasta.judge.again import report_again
        from pasta.judge.report import markdown
        from pasta.judge.train import score_file, train_judge

        if task == "score":
            score_file(**options)
        elif task == "report":
            print(markdown(report_again(Path(options["judge"]), options["data"])))
        else:
            print(markdown(train_judge(JudgeConfig(**options))))
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def flag_of(field: str) -> str:
    return "--" + field.replace("_", "-")


if __name__ == "__main__":
    main()
