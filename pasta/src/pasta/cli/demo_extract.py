"""`pasta demo extract`: an object out of a text, decoded twice: all of its fields at once, then one after another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from pasta.cli.extract import watch
from pasta.cli.replay import Comparison
from pasta.cli.running import load_engine, make_console, patiently, write_json
from pasta.examples import ORDER

if TYPE_CHECKING:
    from pasta.engine.native import NativeEngine
    from pasta.structured.result import StructuredResult

NAME = "extract"
LAPS = (("Lap 1: all fields at once", "parallel"), ("Lap 2: one field after another", "sequential"))


def run(as_json: bool, trace: str | None) -> None:
    engine = load_engine(None)
    console = Console(quiet=True) if as_json else make_console()
    text, schema = ORDER.with_suffix(".txt").read_text("utf-8").strip(), json.loads(ORDER.read_text("utf-8"))
    console.print(Text.assemble(("Text      ", "bold"), text))
    console.print(Text.assemble(("Fields    ", "bold"), ", ".join(schema["properties"])))
    console.print(Text.assemble(("Model     ", "bold"), f"{engine.name}; any other would do, nothing is trained"))
    with patiently("reading the text"):  # which both laps then find in the cache: they differ in what is decoded
        decode(engine, text, schema, "parallel", quiet=True, max_tokens=1)
    laps = [lap(engine, console, title, text, schema, mode, quiet=as_json) for title, mode in LAPS]
    comparison = Comparison(*laps)
    if as_json:
        write_json(comparison.to_dict() | {"same": laps[0].value == laps[1].value})
    else:
        conclude(console, *laps)
    if trace is not None:
        from pasta.trace import write_trace

        write_trace(trace, laps, engine.vocabulary)


def lap(
    engine: NativeEngine, console: Console, title: str, text: str, schema: Any, mode: str, *, quiet: bool
) -> StructuredResult:
    from pasta.display import figures, object_text

    console.print()
    console.print(f"-- {title}", style="bold")
    result = decode(engine, text, schema, mode, quiet=quiet)
    console.print(object_text(result), soft_wrap=True)
    console.print(figures(result, console))
    return result


def decode(
    engine: NativeEngine, text: str, schema: Any, mode: str, *, quiet: bool, max_tokens: int = 256
) -> StructuredResult:
    from pasta.structured.extract import extract_stream

    return watch(extract_stream(engine, text, schema, mode=mode, max_tokens=max_tokens, cache_salt=NAME), quiet=quiet)


def conclude(console: Console, together: StructuredResult, apart: StructuredResult) -> None:
    said = "The same object" if together.value == apart.value else "An object of the same shape"
    ratio = apart.wall_s / max(1e-9, together.wall_s)
    console.print()
    steps = f"{together.steps} steps instead of {apart.steps}"
    console.print(f"{said} in {steps}: {ratio:.2f} times as fast here, the text read once before.")
    console.print("\nTry next", style="bold")
    line = 'pasta extract "Ada Lovelace, born in 1815" --schema person.json'
    console.print(Text.assemble("  ", (line, "cyan"), ("  a schema of your own", "dim")), soft_wrap=True)
