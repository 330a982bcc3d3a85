"""Every decoder family of transformers through the engine: which run, how exactly, and why the others are refused.

python -m pasta.bench.families --json benchmarks/results/families.json --markdown docs/families.md
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from transformers import PreTrainedModel

from pasta.bench.machine import describe
from pasta.bench.shapes import byte_tokenizer
from pasta.bench.tiny import model_types, tiny_model
from pasta.core.vocabulary import Vocabulary
from pasta.engine.attention import IMPLEMENTATION
from pasta.engine.checked import check
from pasta.engine.make import make_engine
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import NEEDS_SLOTS, distance, own_logits, play
from pasta.engine.survey import FAILS, first_line
from pasta.errors import UnsupportedModel
from pasta.models.checkpoint import quiet
from pasta.outputs import output_file

PAGE = """# Model families

Made by `python -m pasta.bench.families` from [families.json](../benchmarks/results/families.json); do not edit.

All {all} decoders that transformers {transformers} knows: causal language models, and the text side of models that
read images. Each was tested with a tiny random model in float32, made from its own configuration class, by the script
of the self-check (`engine/selfcheck.py`): forks, a fork inside a block, joins, blocks longer than promised, text beyond
every window, and a second request in the same steps that stands at the end of the context.

- **{runs} run.** Their logits differ from those of the model's own forward pass by at most {worst} of the logits'
  spread.
- **{refused} are refused**, with a one-line error.
- {not_tried} were not tested, because no working tiny model of the family could be made.

The engine has no list of families: it reads from the model what its attention does (`engine/survey.py`), and checks
every model on its own weights when it is first loaded. `pasta models --check NAME` shows the result.

## Families that run

*Unforked* is the difference from the logits of the same text without threads: what would be seen if forks or joins were
lost.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """What became of a tiny random model of a family."""

    name: str
    outcome: Literal["runs", "refused", "not tried"]
    reason: str = ""  # why it does not run
    difference: float | None = None  # from its own forward pass, at worst; in units of the logits' spread
    unforked: float | None = None  # the same from a plain text: what would be seen if forks made no difference
    features: tuple[str, ...] = ()


def try_family(name: str) -> Family:
    try:
        model = tiny_model(name)
    except Exception as error:  # a configuration class with demands of its own, or a package that is not here
        return Family(name, "not tried", f"no tiny model could be made of it ({first_line(error)})")
    try:
        engine = make_engine(model, Vocabulary(byte_tokenizer()), name="it", slots=NEEDS_SLOTS)
        agreement = check(engine)
    except UnsupportedModel as refusal:
        reason = refusal.message.partition("cannot be run: ")[2]
        if FAILS in reason and (own := own_failure(model)):
            return Family(name, "not tried", f"the tiny model's own forward pass fails on a text ({own})")
        return Family(name, "refused", reason)
    difference = max(agreement.plain, agreement.forked)
    return Family(name, "runs", "", difference, unforked(engine), features(engine))


def own_failure(model: PreTrainedModel) -> str | None:
    try:
        own_logits(model, tuple(range(3, 9)))
    except Exception as error:
        return first_line(error)
    return None


def unforked(engine: NativeEngine) -> float:
    played = play(engine)
    try:
        return distance(played.told, own_logits(engine.model, played.layout.ids), worst=True)
    finally:
        engine.model.set_attn_implementation(IMPLEMENTATION)


def features(engine: NativeEngine) -> tuple[str, ...]:
    """What its attention does beyond seeing everything before it."""
    config, calls = engine.model.config, engine.calls
    layers = config.get_text_config(decoder=True).num_hidden_layers
    found = {
        "windows": any(call.window for call in calls),
        "chunks": any(call.reach is not None and not call.window for call in calls),
        "soft caps": any(call.softcap for call in calls),
        "sinks": any(call.sinks for call in calls),
        f"{len(calls) // layers} calls a layer": len(calls) > layers,
        "composite": config is not config.get_text_config(decoder=True),
    }
    return tuple(name for name, has in found.items() if has)


def try_all(names: Sequence[str]) -> Iterator[Family]:
    with quiet():
        for index, name in enumerate(names, 1):
            family = try_family(name)
            off = f" {family.difference:.1e}" if family.difference is not None else ""
            print(f"{index}/{len(names)} {name}: {family.outcome}{off} {family.reason}".rstrip(), file=sys.stderr)
            yield family
            gc.collect()


def as_markdown(report: dict[str, Any]) -> str:
    """The page of families."""
    families, machine = report["families"], report["machine"]
    by = {
        outcome: [row for row in families if row["outcome"] == outcome] for outcome in ("runs", "refused", "not tried")
    }
    counts = {outcome.replace(" ", "_"): len(rows) for outcome, rows in by.items()}
    head = PAGE.format(
        transformers=machine["transformers"],
        all=len(families),
        worst=f"{max(row['difference'] for row in by['runs']):.1e}",
        **counts,
    )
    lines = [head, "| family | difference | unforked | attention |", "| --- | --- | --- | --- |"]
    for row in by["runs"]:
        lines.append(
            f"| {row['name']} | {row['difference']:.1e} | {row['unforked']:.1f} | {', '.join(row['features'])} |"
        )
    for title, outcome in (("Families that are refused", "refused"), ("Families that were not tested", "not tried")):
        lines += ["", f"## {title}", "", "| why | families |", "| --- | --- |"]
        why: dict[str, list[str]] = {}
        for row in by[outcome]:
            why.setdefault(row["reason"].replace("|", "/"), []).append(row["name"])
        lines += [
            f"| {reason} | {', '.join(names)} |"
            for reason, names in sorted(why.items(), key=lambda each: -len(each[1]))
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pasta.bench.families", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="families, as transformers calls them; all by default")
    parser.add_argument("--json", metavar="FILE", type=output_file, help="write the report there, not to stdout")
    parser.add_argument("--markdown", metavar="FILE", type=output_file, help="write the page of families there")
    options = parser.parse_args()
    known = model_types()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"transformers knows no decoder called {unknown[0]!r}")
    families = [asdict(family) for family in try_all(options.names or known)]
    report = {"machine": describe(), "families": families}
    text = json.dumps(report, indent=1) + "\n"
    if options.json:
        options.json.write_text(text, "utf-8")
    else:
        print(text, end="")
    if options.markdown:
        options.markdown.write_text(as_markdown(report), "utf-8")


if __name__ == "__main__":
    main()
