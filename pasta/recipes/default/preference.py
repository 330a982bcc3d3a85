"""Stage two of the recipe, preference optimisation, where the `pasta` command is not installed:

    python pasta/recipes/default/preference.py sample,score,pairs,train --model ADAPTER --base BASE \
        --baseline BASELINE --prompts PROMPTS.jsonl --judge reward:FOLDER --output OUT

Takes the flags of `pasta train preference`. Every step goes on where it stopped, and stops by itself after
`--minutes`; what a step makes lies under OUT as JSON lines; a short table comes last.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Any

from pasta.errors import PastaError
from pasta.train.preference_config import STEPS, PreferenceConfig
from pasta.train.preference_report import summary
from pasta.train.preference_run import run


def main(arguments: Sequence[str] | None = None) -> None:
    options = vars(parser().parse_args(arguments))
    file = options.pop("config")
    begun = time.monotonic()
    try:
        config = PreferenceConfig.from_flags(options, file)
        run(config)
        print("\n".join(summary(config)))
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"\n{config.steps}: {time.monotonic() - begun:.0f} s in all", flush=True)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("steps", help=f"with commas: {', '.join(STEPS)}")
    out.add_argument("--config", help="a YAML file of these settings; flags go before it")
    for field in dataclasses.fields(PreferenceConfig):
        if field.name != "steps":
            help_ = f"{field.metadata['help']} ({field.default})".replace("%", "%%")
            names: Any = f"--{field.name.replace('_', '-')}"
            yes_or_no: Any = {"action": argparse.BooleanOptionalAction} if isinstance(field.default, bool) else {}
            out.add_argument(names, dest=field.name, help=help_, **yes_or_no)
    return out


if __name__ == "__main__":
    main()
