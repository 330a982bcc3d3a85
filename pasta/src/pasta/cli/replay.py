"""`pasta replay FILE`: the tokens of a recorded response go through a model, as threads and one thread at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pasta.cli.options import AsJson, Base, Context, Device, Dtype, MaxThreads, Model, Scheme
from pasta.cli.running import check_least, check_text, decode, load_engine, make_console, patiently, write_json
from pasta.errors import PastaError, UsageError
from pasta.examples import EXAMPLES
from pasta.lang import LangError, Response, parse
from pasta.lang.source import Source, read_source
from pasta.outputs import check_file

if TYPE_CHECKING:
    from pasta.decoding.results import Result
    from pasta.engine.native import NativeEngine

PROMPT = "Answer the question."  # of a response that came without one


@dataclass(frozen=True, slots=True)
class Recording:
    """A response, and what it answered: a text, token ids, or nothing that is known."""

    response: Response
    prompt: str | list[int] | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same answer, token for token, decoded as threads and one thread at a time."""

    threads: Result
    sequence: Result

    @property
    def speedup(self) -> float:
        """Realised: of the wall clock."""
        return self.sequence.wall_s / max(1e-9, self.threads.wall_s)

    @property
    def theoretical(self) -> float:
        return self.sequence.decoded_tokens / max(1, self.threads.critical_path)

    def to_dict(self) -> dict[str, Any]:
        sequence = {name: getattr(self.sequence, name) for name in ("tokens_total", "steps", "wall_s")}
        return self.threads.to_dict() | {
            "sequential": sequence,
            "speedup": self.speedup,
            "theoretical_speedup": self.theoretical,
        }


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="Merged PASTA-LANG, the output of `pasta generate --json`, or an example."
        ),
    ],
    prompt: Annotated[str | None, typer.Option(help="What the response answers.")] = None,
    model: Model = None,
    base: Base = None,
    max_threads: MaxThreads = 16,
    positions: Scheme = None,
    device: Device = None,
    dtype: Dtype = None,
    context: Context = None,
    as_json: AsJson = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a timeline of both for ui.perfetto.dev.")
    ] = None,
) -> None:
    """Force a recorded response through a model, to time it.

    Its tokens are put in place of the model's choices, so that speed can be measured on any model: once as threads, and
    once with one thread at a time, in the same engine. Each way runs twice, and the second run counts.
    """
    from pasta.core.positions import Positions
    from pasta.trace import write_trace

    recording = read_file(file)
    check_least(max_threads=max_threads, context=context)
    scheme = Positions.parse(positions) if positions is not None else None
    if trace is not None:
        check_file(trace, read=[file, model, base])
    if prompt is not None and not check_text(prompt, "prompt").strip():
        raise UsageError("the prompt is empty", "pass a question, or leave the option out")
    engine = load_engine(model, base=base, device=device, dtype=dtype, context=context, tags=True)
    asked = prompt if prompt is not None else recording.prompt or PROMPT
    with patiently("decoding, twice in each way"):
        comparison = compare(engine, asked, recording.response, max_threads=max_threads, positions=scheme)
    if as_json:
        write_json(comparison.to_dict())
    else:
        print_comparison(comparison)
    if trace is not None:
        write_trace(trace, [comparison.threads, comparison.sequence], engine.vocabulary)


def read_file(file: str) -> Recording:
    """A file, or one of the examples by its name."""
    if file in EXAMPLES and not Path(file).exists():
        example = EXAMPLES[file]
        return Recording(parse(example.text), example.question)
    return read_recording(read_source(file))


def read_recording(source: Source) -> Recording:
    """Reads either form. PASTA-LANG that begins like JSON but is none stays PASTA-LANG."""
    prompt: str | list[int] | None = None
    data = source.data
    if data.lstrip().startswith(b"{"):
        recorded = _as_object(data)
        if recorded is not None:
            if not isinstance(recorded.get("annotated"), str):
                raise UsageError(
                    f"{source.name} is JSON without a text 'annotated'", "pass what `generate --json` printed"
                )
            ids = recorded.get("prompt_ids")
            if ids and not (isinstance(ids, list) and all(type(token) is int and token >= 0 for token in ids)):
                raise UsageError(f"{source.name}: 'prompt_ids' is not a list of token ids")
            prompt, data = ids or None, recorded["annotated"].encode("utf-8", "replace")
    try:
        return Recording(parse(data), prompt)
    except LangError as error:
        # As `pasta check` says it, so that editors find the place.
        typer.echo(f"{source.name}:{error.line}:{error.column}: {error.code} {error.message}".encode(), err=True)
        raise typer.Exit(1) from None


def _as_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(decode(data, "the file"))
    except (ValueError, UsageError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def compare(engine: NativeEngine, prompt: str | list[int], response: Response, **options: Any) -> Comparison:
    """Decodes a response in both ways, twice each."""
    from pasta.core.layout import lay_out
    from pasta.core.tree import spell
    from pasta.decoding.api import Stream
    from pasta.decoding.prompts import encode_prompt, make_request, replay_options
    from pasta.lang import plain

    vocabulary = engine.vocabulary
    if isinstance(prompt, list) and max(prompt) >= vocabulary.usable:
        raise UsageError("the recorded prompt has tokens that this model does not know", "pass its text with --prompt")
    ids = encode_prompt(engine, prompt)
    tree = spell(response, vocabulary, ids)
    if not plain(response):
        raise UsageError("the response has no text", "there is nothing to replay")
    scheme = options.get("positions") or engine.positions
    needed = 1 + max(lay_out(ids, tree, vocabulary.tags, scheme).positions)
    if needed >= engine.context:
        raise PastaError(f"prompt and response take {needed} positions, but the context is {engine.context}")

    def lap(sequential: bool) -> Result:
        limits = replay_options({**options, "sequential": sequential})  # type: ignore[typeddict-item]
        return Stream(engine, make_request(engine, ids, script=tree, **limits)).result

    lap(False), lap(True)  # the first run pays for memory that is touched for the first time
    return Comparison(lap(False), lap(True))


def print_comparison(comparison: Comparison) -> None:
    threads, sequence = comparison.threads, comparison.sequence
    rows = [
        ("", f"{len(threads.threads)} threads", "one at a time"),
        ("tokens", f"{threads.tokens_total}", f"{sequence.tokens_total}"),
        ("critical path", f"{threads.critical_path}", f"{sequence.critical_path}"),
        ("steps", f"{threads.steps}", f"{sequence.steps}"),
        ("time a step", _milliseconds(threads), _milliseconds(sequence)),
        ("wall time", f"{threads.wall_s:.2f} s", f"{sequence.wall_s:.2f} s"),
    ]
    console = make_console()
    for name, left, right in rows:
        console.print(f"{name:<14}{left:>12}{right:>15}", style=None if name else "bold")
    console.print(f"\nspeedup: {comparison.speedup:.2f} realised, {comparison.theoretical:.2f} in theory", style="bold")


def _milliseconds(result: Result) -> str:
    return f"{1e3 * result.wall_s / max(1, result.steps):.1f} ms"
