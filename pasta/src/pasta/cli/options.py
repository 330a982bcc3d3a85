"""Options that several commands share, said once."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Option(help="A name from `pasta models`, a folder, a GGUF file, or an id on the hub.")
]
Base = Annotated[
    str | None, typer.Option(help="Where an adapter's base model lies now, if not where the adapter says.")
]
EngineUrl = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="Decode on a completions server, http://HOST:PORT/v1; or inside vLLM, vllm://FOLDER.",
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU where there is one.")]
Dtype = Annotated[
    str | None,
    typer.Option(help="float32, bfloat16, float16; int8 (on a CPU unless --device says otherwise), fp8 (on a GPU)."),
]
Context = Annotated[int | None, typer.Option(help="Use no more positions than this.")]
MaxThreads = Annotated[int, typer.Option(help="Decoding at once; more wait their turn.")]
RepetitionPenalty = Annotated[
    float, typer.Option(help="Above 1, what stands in prompt and answer comes less readily again; 1 is off.")
]
Sequential = Annotated[bool, typer.Option("--sequential", help="The same answer, its threads one at a time.")]
Plain = Annotated[bool, typer.Option("--plain", help="Decode without tags: one thread of plain text.")]
Drafts = Annotated[
    bool | None,
    typer.Option(
        "--drafts/--no-drafts",
        help="Guess several tokens at once; the answer stays the same.",
        show_default="off",
    ),
]
MaxTokens = Annotated[
    int,
    typer.Option("--max-tokens", "--max-new-tokens", help="The answer is cut after so many tokens, tags included."),
]
Temperature = Annotated[float, typer.Option(help="0 always takes the likeliest token.")]
Seed = Annotated[int, typer.Option(help="The same seed draws the same answer.")]
Parallelism = Annotated[float, typer.Option(help="0 as trained; more opens more threads, less opens fewer.")]
Scheme = Annotated[
    str | None,
    typer.Option(metavar="SCHEME", help="predicted, ones, fixed:K, stitched; default: as trained."),
]
Template = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Set a variable of the model's chat template, as in enable_thinking=false; may be repeated.",
    ),
]
Trace = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write a timeline for ui.perfetto.dev (.json or .json.gz).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
