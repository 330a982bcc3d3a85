"""`pasta generate PROMPT`: the answer; in a terminal, its threads side by side while they are decoded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pasta.cli.options import (
    AsJson,
    Base,
    Context,
    Device,
    Drafts,
    Dtype,
    EngineUrl,
    MaxThreads,
    MaxTokens,
    Model,
    Parallelism,
    Plain,
    RepetitionPenalty,
    Scheme,
    Seed,
    Sequential,
    Temperature,
    Template,
    Trace,
)
from pasta.cli.running import (
    check_least,
    check_text,
    make_console,
    note_untagged,
    open_engine,
    read_prompt,
    read_variables,
    stream_plain,
    write_json,
)
from pasta.errors import UsageError
from pasta.outputs import check_file

if TYPE_CHECKING:
    from pasta.decoding.api import Stream


def command(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT|-", help="The question; - reads standard input.")],
    model: Model = None,
    base: Base = None,
    engine_url: EngineUrl = None,
    system: Annotated[str | None, typer.Option(help="A system message before the question.")] = None,
    template: Template = None,
    sequential: Sequential = False,
    plain: Plain = False,
    max_tokens: MaxTokens = 512,
    max_threads: MaxThreads = 16,
    temperature: Temperature = 0.0,
    top_k: Annotated[int, typer.Option(help="Draw among the K likeliest; 0 is off.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw among the likeliest that make up P; 1 is off.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Leave out what is P times less likely than the best; 0 is off.")] = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = 0,
    parallelism: Parallelism = 0.0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be repeated.")] = None,
    drafts: Drafts = None,
    positions: Scheme = None,
    device: Device = None,
    dtype: Dtype = None,
    context: Context = None,
    as_json: AsJson = False,
    trace: Trace = None,
) -> None:
    """Answer a prompt, decoding independent parts at once.

    In a terminal the threads fill side by side; into a pipe goes the answer alone.
    """
    question = read_prompt(prompt)
    messages = [{"role": "user", "content": question}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": check_text(system, "system message")})
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "max_threads": max_threads,
        "sequential": sequential,
        "plain": plain,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "parallelism": parallelism,
        "stop": [check_text(text, "stop string") for text in stop or ()],
        "drafts": drafts,
        "positions": positions,
    }
    check_options(question, options, context)
    variables = read_variables(template)
    if trace is not None:
        check_file(trace, read=[model, base])
    engine = open_engine(engine_url, model, base=base, device=device, dtype=dtype, context=context, positions=positions)
    if not plain:
        note_untagged(engine)

    from pasta.decoding.api import stream

    with stream(engine, messages, chat_template_kwargs=variables, **options) as answer:
        if as_json:
            write_json(answer.result.to_dict())
        else:
            show(answer)
    if trace is not None:
        from pasta.trace import write_trace

        write_trace(trace, [answer.result], engine.vocabulary)


def check_options(question: str, options: dict[str, Any], context: int | None) -> None:
    """What can be refused before a model is loaded."""
    from pasta.core.params import SamplingParams

    if not question.strip():
        raise UsageError("the prompt is empty", "pass a question")
    if "" in options["stop"]:
        raise UsageError("--stop is empty", "pass the text to end before, or leave --stop out")
    check_least(context=context)
    SamplingParams(**options)


def show(answer: Stream) -> None:
    """Prints an answer while it is decoded, in the way that suits where it goes."""
    from pasta.display import Board, Screen, harmless, is_interactive, legend, summary

    console = make_console()
    terminal = console.file.isatty()
    if is_interactive(console):
        with Screen(console, Board()) as screen:
            for output in answer:
                screen.take(output)
    else:
        stream_plain(harmless(output.text) if terminal else output.text for output in answer)
    result = answer.result
    if terminal:
        console.print()
        if len(result.threads) > 1:
            console.print(legend(result, console))
        console.print(summary(result, console))
    elif result.finish_reason == "length":
        print("note: a limit cut the answer (--max-tokens, or the context)", file=sys.stderr, flush=True)
