"""`pasta demo`: one answer, decoded twice before your eyes: as threads, then one token at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from pasta.cli import demo_extract
from pasta.cli.demo_extract import NAME as EXTRACT
from pasta.cli.replay import Comparison
from pasta.cli.running import load_engine, make_console, patiently, write_json
from pasta.errors import UsageError
from pasta.examples import DEFAULT, EXAMPLES, Example
from pasta.outputs import check_file

#: What the model is asked without an example: its answer forks into five, and takes seconds on a CPU.
LIVE = Example("", "Give me five tips for better sleep.")

if TYPE_CHECKING:
    from pasta.core.params import Options
    from pasta.decoding.events import StepOutput
    from pasta.decoding.request import Request
    from pasta.decoding.results import Result
    from pasta.engine.native import NativeEngine


def command(
    example: Annotated[
        str | None,
        typer.Argument(
            help=f"Replay an annotated example: {', '.join(EXAMPLES)}; or {EXTRACT}: an object out of a text. "
            "Without one, the model writes its own answer.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a timeline of both for ui.perfetto.dev.")
    ] = None,
) -> None:
    """Watch a model decode several parts of one answer at once, then the same answer one token at a time."""
    from pasta.trace import write_trace

    if example is not None and example not in (*EXAMPLES, EXTRACT):
        raise UsageError(f"no example {example!r}", f"choose one of: {', '.join((*EXAMPLES, EXTRACT))}")
    if trace is not None:
        check_file(trace)
    if example == EXTRACT:
        demo_extract.run(as_json, trace)
        return
    scripted = example is not None
    chosen = LIVE if example is None else EXAMPLES[example]
    engine = load_engine(None)
    console = make_console()
    stage = Stage(engine, Console(quiet=True) if as_json else console)
    stage.introduce(chosen, scripted)
    comparison = race(stage, chosen, scripted)
    if as_json:
        write_json(comparison.to_dict())
    else:
        stage.conclude(comparison, chosen)
    if trace is not None:
        write_trace(trace, [comparison.threads, comparison.sequence], engine.vocabulary)


def race(stage: Stage, example: Example, scripted: bool) -> Comparison:
    """Both laps, with the same tokens of text."""
    from pasta.core.tree import spell
    from pasta.decoding.api import replay
    from pasta.decoding.prompts import encode_prompt, make_request, replay_options
    from pasta.lang import parse

    engine, vocabulary = stage.engine, stage.engine.vocabulary
    tree = spell(parse(example.text), vocabulary, encode_prompt(engine, example.question)) if scripted else None
    options: Options = {"max_tokens": 256} if tree is None else replay_options({})
    with patiently("warming up"):
        replay(engine, example.question, tuple(vocabulary.encode("Warm.")))
    threads = stage.lap("Lap 1: as threads", make_request(engine, example.question, script=tree, **options))
    again = replay_options({"sequential": True})
    request = make_request(engine, example.question, script=threads.tree, **again)
    return Comparison(threads, stage.lap("Lap 2: one token at a time", request, threads))


class Bars:
    """The second lap against the first, which runs again beside it as fast as it was."""

    def __init__(self, first: Result, console: Console):
        from pasta.decoding.events import TextWritten

        self.seconds = 0.0
        self.done = 0.0  # of the second lap
        self._console = console
        self._times = [output.seconds for output in first.outputs]
        tokens = [sum(e.tokens for e in output.events if isinstance(e, TextWritten)) for output in first.outputs]
        self._ghost = [0, *accumulate(tokens)]

    def __rich__(self) -> RenderableType:
        ghost = self._ghost[bisect_right(self._times, self.seconds)] / max(1, self._ghost[-1])
        first = f"{min(self.seconds, self._times[-1]):.1f} s" + (" done" if ghost == 1 else "")
        return bars(
            self._console, ("lap 1, threads", ghost, first), ("lap 2, sequence", self.done, f"{self.seconds:.1f} s")
        )


def bars(console: Console, *rows: tuple[str, float, str]) -> Table:
    """A bar for each row: its name, how full it is, and a note."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    width = max(10, min(60, console.width - 32))
    for (name, done, note), style in zip(rows, ("green", "yellow"), strict=True):
        bar = ProgressBar(total=1.0, completed=done, width=width, complete_style=style, finished_style=style)
        grid.add_row(Text(name, style=style), bar, note)
    return grid


class Stage:
    """Where the race is shown: a terminal that moves, or a log."""

    def __init__(self, engine: NativeEngine, console: Console):
        from pasta.display import is_interactive

        self.engine = engine
        self.console = console
        self.moves = not console.quiet and is_interactive(console)

    def introduce(self, example: Example, scripted: bool) -> None:
        self.console.print(Text.assemble(("Question  ", "bold"), example.question))
        note = f"{self.engine.name} on {self.engine.model.device.type}, {self.engine.model.dtype}".replace("torch.", "")
        self.console.print(Text.assemble(("Model     ", "bold"), note))
        if scripted:
            self.console.print(
                "A replay: the words and tags come from an example. The decoding is real: every token goes through "
                "the model, step by step.",
                style="dim",
            )

    def lap(self, title: str, request: Request, first: Result | None = None) -> Result:
        """Decodes a request; the second lap races against the first."""
        from pasta.decoding.api import Stream

        self.console.print()
        self._rule(title)
        outputs = Stream(self.engine, request)
        if self.moves:
            self._watch(outputs, first)
        else:
            self._log(outputs, first)
        result = outputs.result
        if not self.moves and first is None:
            self.console.print(result.text.rstrip("\n"))
        figures = f"{result.tokens_total} tokens, {result.steps} steps, {result.wall_s:.2f} s"
        self.console.print(figures, style="dim")
        return result

    def conclude(self, comparison: Comparison, example: Example) -> None:
        threads, sequence = comparison.threads, comparison.sequence
        self.console.print()
        self._rule("Result")
        if self.moves:
            longest = max(threads.wall_s, sequence.wall_s)
            rows = [
                (name, lap.wall_s / longest, f"{lap.wall_s:.2f} s")
                for name, lap in (("threads", threads), ("one sequence", sequence))
            ]
            self.console.print(bars(self.console, *rows))
        self.console.print(
            f"The same answer in {threads.steps} steps instead of {sequence.steps}: "
            f"{comparison.speedup:.2f} times as fast here, {comparison.theoretical:.2f} in theory."
        )
        nested = any(thread.parent for thread in threads.threads)
        self.console.print("\nTry next", style="bold")
        for line, what in (
            ('pasta generate "How do I prepare for a job interview?"', "any question to the same model"),
            ("pasta demo sorting", "six threads") if nested else ("pasta demo breakfast", "threads within threads"),
            ("pasta demo extract", "an object, its fields at once"),
            (f"pasta replay {example.name or DEFAULT} --trace trace.json", "a timeline for ui.perfetto.dev"),
        ):
            self.console.print(Text.assemble("  ", (line, "cyan"), (f"  {what}", "dim")), soft_wrap=True)

    def _rule(self, title: str) -> None:
        if self.moves:
            self.console.print(Rule(title, align="left", characters="─"))
        else:
            self.console.print(f"-- {title}")

    def _watch(self, outputs: Iterator[StepOutput], first: Result | None) -> None:
        from pasta.display import Board, Screen

        board = Board()
        against = None if first is None else Bars(first, self.console)
        with Screen(self.console, board, against) as screen:
            for output in outputs:
                if first is not None and against is not None:
                    against.seconds = output.seconds
                    against.done = min(1.0, board.tokens / max(1, first.content_tokens))
                screen.take(output)

    def _log(self, outputs: Iterator[StepOutput], first: Result | None) -> None:
        from pasta.core.commands import MAIN
        from pasta.decoding.events import Ended, Forked, Joined

        topics = {MAIN: "main"}
        for output in outputs:
            for event in output.events:
                said = ""
                match event:
                    case Forked(_, child, topic):
                        topics[child] = topic
                        said = f"fork   {topic}"
                    case Ended(thread):
                        said = f"end    {topics[thread]}"
                    case Joined(thread, children):
                        said = f"join   {', '.join(topics[child] for child in children)} into {topics[thread]}"
                if said and first is None:
                    self.console.print(f"{output.seconds:7.2f} s  {said}", soft_wrap=True)
