"""`pasta extract TEXT --schema FILE`: an object; in a terminal, its fields while they are decoded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pasta.cli.options import (
    AsJson,
    Base,
    Context,
    Device,
    Dtype,
    EngineUrl,
    MaxThreads,
    MaxTokens,
    Model,
    Seed,
    Temperature,
    Template,
    Trace,
)
from pasta.cli.running import (
    check_least,
    check_text,
    decode,
    make_console,
    open_engine,
    read_prompt,
    read_variables,
    write,
    write_json,
)
from pasta.errors import UsageError
from pasta.outputs import check_file

if TYPE_CHECKING:
    from pasta.structured.extract import Extracting
    from pasta.structured.result import StructuredResult


def command(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT|-", help="What to read it from; - reads standard input.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE", help="The JSON schema of the answer; - reads standard input.")
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from a file.")] = None,
    model: Model = None,
    base: Base = None,
    engine_url: EngineUrl = None,
    system: Annotated[str | None, typer.Option(help="A system message before the text.")] = None,
    template: Template = None,
    mode: Annotated[
        str,
        typer.Option(
            help="parallel: fields at once; lead: the first, then the others at once, seeing it; leftover: optional "
            "ones after the required, one by one; sequential: one after another, each seeing those before it; checked: "
            "the same answer, guessed at once and then looked at, in fewer steps."
        ),
    ] = "parallel",
    after: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=FIELD", help="The first needs the second; may be repeated.")
    ] = None,
    show_schema: Annotated[bool, typer.Option(help="Tell the model the schema.")] = True,
    max_tokens: MaxTokens = 512,
    max_value_tokens: Annotated[
        int | None, typer.Option(min=1, help="A string or list with more tokens is closed there, if the schema allows.")
    ] = None,
    at_limit: Annotated[
        str, typer.Option(help="cut: what a limit leaves unfinished is missing; close: it is completed, shortly.")
    ] = "cut",
    max_threads: MaxThreads = 16,
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    device: Device = None,
    dtype: Dtype = None,
    context: Context = None,
    as_json: AsJson = False,
    trace: Trace = None,
) -> None:
    """Answer with JSON of a given schema, its fields decoded at once.

    Any model can do it: the schema says which parts there are, and every value is held to its type. In a terminal the
    fields fill in while you watch; into a pipe goes the JSON alone, on one line.
    """
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "max_thread_tokens": max_value_tokens,
        "max_threads": max_threads,
        "temperature": temperature,
        "seed": seed,
    }
    told = read_text(text, file, schema)
    messages = [{"role": "user", "content": told}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": check_text(system, "system message")})
    waits = read_after(after or [])
    read = read_schema(schema)
    check_options(read, mode, waits, at_limit, options, context)
    variables = read_variables(template)
    if trace is not None:
        check_file(trace, read=[schema, file, model, base])
    engine = open_engine(engine_url, model, base=base, device=device, dtype=dtype, context=context)

    from pasta.structured.extract import Incomplete, extract_stream

    how: dict[str, Any] = {"mode": mode, "after": waits, "at_limit": at_limit, "show": show_schema}
    answer = extract_stream(engine, messages, read, chat_template_kwargs=variables, **how, **options)
    result = watch(answer, quiet=as_json)
    if trace is not None:
        from pasta.trace import write_trace

        write_trace(trace, [result], engine.vocabulary)
    if as_json:
        write_json(result.to_dict())
    if not result.complete:
        raise Incomplete(result)
    if not as_json:
        show(result)


# -- what is asked ---------------------------------------------------------------------------------------------


def read_text(text: str | None, file: str | None, schema: str | None) -> str:
    if (text is None) == (file is None):
        raise UsageError("expected one text", "pass it as an argument, as - for standard input, or with --file")
    if text == "-" and schema == "-":
        raise UsageError("standard input cannot be both the text and the schema")
    told = read_prompt(text) if text is not None else decode(read_bytes(str(file)), str(file))
    if not told.strip():
        raise UsageError("the text is empty")
    return told


def read_schema(file: str | None) -> Any:
    if file is None:
        raise UsageError("expected a schema", "pass the JSON schema of the answer with --schema FILE")
    name = "standard input" if file == "-" else file
    data = (sys.stdin.buffer.read() if sys.stdin is not None else b"") if file == "-" else read_bytes(file)
    try:
        value = json.loads(decode(data, name))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}") from None
    if not isinstance(value, dict | bool):
        raise UsageError(f"{name} holds {json.dumps(value)[:40]}, expected a JSON schema, which is an object")
    return value


def read_bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None


def read_after(pairs: list[str]) -> dict[str, list[str]]:
    """`tax=total` says that the field tax needs total."""
    waits: dict[str, list[str]] = {}
    for pair in pairs:
        field, found, other = pair.partition("=")
        if not (field and found and other):
            raise UsageError(f"--after is {pair!r}, expected FIELD=FIELD", "tax=total: tax waits for total and sees it")
        waits.setdefault(field, []).append(other)
    return waits


def check_options(
    schema: Any,
    mode: str,
    after: dict[str, list[str]],
    at_limit: str,
    options: dict[str, Any],
    context: int | None,
) -> None:
    """What can be refused before a model is loaded."""
    from pasta.core.params import SamplingParams
    from pasta.structured.planner import compile_schema
    from pasta.structured.request import check_at_limit

    check_least(context=context)
    SamplingParams(**options)
    compile_schema(schema, mode=mode, after=after)
    check_at_limit(at_limit)


# -- what is shown ---------------------------------------------------------------------------------------------


def watch(answer: Extracting, *, quiet: bool = False) -> StructuredResult:
    """Decodes, with the fields to look at where there is a terminal."""
    from pasta.display import Board, Fields, is_interactive

    console = make_console()
    if not quiet and is_interactive(console):
        with Fields(console, Board()) as fields:
            for output in answer.steps:
                fields.take(output)
    return answer.result


def show(result: StructuredResult) -> None:
    from pasta.display import figures, object_text

    console = make_console()
    if not console.file.isatty():
        write(result.text + "\n")
        return
    console.print(object_text(result), soft_wrap=True)
    console.print()
    console.print(figures(result, console))
