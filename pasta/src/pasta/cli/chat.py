"""`pasta chat [MODEL|URL]`: a conversation in the terminal, with a model on this machine or with a server."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pasta.cli.options import (
    Base,
    Context,
    Device,
    Dtype,
    MaxThreads,
    MaxTokens,
    Model,
    Parallelism,
    Plain,
    RepetitionPenalty,
    Seed,
    Sequential,
    Temperature,
    Template,
)
from pasta.cli.running import check_text, load_engine, make_console, note_untagged, read_variables, stream_plain
from pasta.errors import PastaError, UsageError

if TYPE_CHECKING:
    from pasta.decoding.events import StepOutput
    from pasta.decoding.results import Result
    from pasta.engine.native import NativeEngine

Messages = list[dict[str, str]]

HELP = """\
/new         forget the conversation and begin another
/undo        take the last question and its answer back
/sequential  write with one thread only, or with several again
/help        these lines
/quit        leave, as Ctrl-D does

Ctrl-C ends an answer where it is; what it says so far counts as said."""


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL|URL]", help="The same as --model; or a server: http://HOST:PORT"),
    ] = None,
    model: Model = None,
    base: Base = None,
    system: Annotated[str | None, typer.Option(help="A system message before the conversation.")] = None,
    template: Template = None,
    sequential: Sequential = False,
    plain: Plain = False,
    max_tokens: MaxTokens = 512,
    max_threads: MaxThreads = 16,
    temperature: Temperature = 0.0,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = 0,
    parallelism: Parallelism = 0.0,
    api_key: Annotated[
        str | None, typer.Option(envvar="PASTA_API_KEY", help="What a server asks for; better in the environment.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    context: Context = None,
) -> None:
    """Talk with a model: its threads fill side by side, and each answer counts in the next.

    Lines of standard input are the questions; into a pipe go the answers alone.
    """
    from pasta.core.params import SamplingParams

    options = {
        "max_tokens": max_tokens,
        "max_threads": max_threads,
        "sequential": sequential,
        "plain": plain,
        "temperature": temperature,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "parallelism": parallelism,
    }
    SamplingParams(**options)  # type: ignore[arg-type]
    variables = read_variables(template)
    if None not in (name, model):
        raise UsageError(f"two models are named, {name} and {model}", "name one, with --model")
    model = model or name
    voice: Voice
    if model is not None and model.startswith(("http://", "https://")):
        if (base, device, dtype, context) != (None, None, None, None):
            raise UsageError(
                "a server has its own --base, --device, --dtype and --context", "pass them to `pasta serve`"
            )
        voice = Remote(model, api_key, variables)
    elif model is not None and re.fullmatch(r"[\w.-]+:\d+(/.*)?", model):
        raise UsageError(f"{model} is a server's address without its beginning", f"pass http://{model}")
    else:
        engine = load_engine(model, base=base, device=device, dtype=dtype, context=context)
        if not plain:
            note_untagged(engine)
        voice = Local(engine, variables)
    console = make_console()
    opening = [] if system is None else [{"role": "system", "content": check_text(system, "system message")}]
    Chat(voice, options, opening, console).run()


# -- whom one talks with ------------------------------------------------------------------------------------


class Local:
    """A model on this machine."""

    def __init__(self, engine: NativeEngine, variables: dict[str, Any] | None = None):
        self._engine = engine
        self._how: dict[str, Any] = {"chat_template_kwargs": variables, "cache_salt": "chat"}
        self._result: Result | None = None
        self.name = engine.name

    def answer(self, messages: Messages, options: dict[str, Any]) -> Iterator[StepOutput]:
        from pasta.decoding.api import Stream
        from pasta.decoding.prompts import make_request

        self._result = None
        with Stream(self._engine, make_request(self._engine, messages, **self._how, **options)) as outputs:
            yield from outputs
            self._result = outputs.result

    def figures(self) -> dict[str, Any]:
        result = self._result
        assert result is not None
        return {
            "completion_tokens": result.tokens_total,
            "critical_path": result.critical_path,
            "threads": len(result.threads),
            "speedup": result.parallelism,
        }


class Remote:
    """A server."""

    def __init__(self, url: str, api_key: str | None, variables: dict[str, Any] | None = None):
        from pasta.serve.client import Client

        self._client = Client(url, api_key)
        self._how = {} if variables is None else {"chat_template_kwargs": variables}
        self.name = f"{self._client.model()} at {self._client.url}"

    def answer(self, messages: Messages, options: dict[str, Any]) -> Iterator[StepOutput]:
        extension = {name: options[name] for name in ("max_threads", "sequential", "plain", "parallelism")}
        return self._client.stream(
            messages,
            max_tokens=options["max_tokens"],
            temperature=options["temperature"],
            repetition_penalty=options["repetition_penalty"],
            seed=options["seed"],
            pasta=extension,
            **self._how,
        )

    def figures(self) -> dict[str, Any]:
        return self._client.usage


Voice = Local | Remote


# -- the conversation ---------------------------------------------------------------------------------------


class Chat:
    """Questions from standard input, answers to standard output, the rest to where people look."""

    def __init__(self, voice: Voice, options: dict[str, Any], opening: Messages, console: Console):
        self.messages = list(opening)
        self._opening = opening
        self._voice = voice
        self._options = options
        self._console = console
        self._typed = sys.stdin.isatty()  # by a person
        self._cut = False  # the last answer, by a limit

    def run(self) -> None:
        if self._typed:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  (it gives `input` its keys)
            self._remark(f"{self._voice.name}. /help says what can be typed, Ctrl-D leaves.")
        while True:
            try:
                line = input("> " if self._typed else "").strip()
            except EOFError:
                break
            except KeyboardInterrupt:  # away with the line
                if not self._typed:
                    raise
                self._remark("")
                continue
            except UnicodeDecodeError:
                if not self._typed:
                    raise UsageError("standard input is not UTF-8") from None
                self._remark("error: the question is not UTF-8")
                continue
            if line == "/quit":
                return
            if line.startswith("/") and line[1:].isalpha():
                self._obey(line)
            elif line:
                self._ask(line)
        if self._typed:
            self._remark("")

    def _obey(self, line: str) -> None:
        match line:
            case "/new":
                self.messages = list(self._opening)
                self._remark("A new conversation.")
            case "/undo" if len(self.messages) > len(self._opening):
                del self.messages[-2:]
                self._remark("The last question is taken back.")
            case "/undo":
                self._remark("Nothing was asked yet.")
            case "/sequential":
                self._options["sequential"] = not self._options["sequential"]
                self._remark(
                    "One thread at a time from now on." if self._options["sequential"] else "Threads from now on."
                )
            case "/help":
                self._remark(HELP)
            case _ if self._typed:
                self._remark(f"There is no {line}. /help says what there is.")
            case _:
                print(f"note: there is no command {line}, so that line is passed over", file=sys.stderr, flush=True)

    def _ask(self, question: str) -> None:
        """An answer is part of the conversation, also one that was cut; a question without any is not."""
        messages = [*self.messages, {"role": "user", "content": question}]
        texts: list[str] = []
        try:
            check_text(question, "question")
            with contextlib.closing(self._voice.answer(messages, self._options)) as outputs:  # type: ignore[type-var]
                self._show(outputs, texts)
        except KeyboardInterrupt:
            if not self._typed:  # there is nobody to ask the next question: all of them end
                raise
            self._remark("(ended)")
        except PastaError as error:
            if not self._typed:
                raise
            self._remark(f"error: {error}")
        else:
            self._close()
        if text := "".join(texts):
            self.messages = [*messages, {"role": "assistant", "content": text}]

    def _show(self, outputs: Iterator[StepOutput], texts: list[str]) -> None:
        """Shows an answer while it comes; `texts` is what was shown of it, whatever happens."""
        from pasta.display import Board, Screen, harmless, is_interactive

        if is_interactive(self._console):
            board = Board()
            try:
                with Screen(self._console, board) as screen:
                    for output in outputs:
                        screen.take(output)
                self._cut = board.finish_reason == "length"
            finally:
                texts.append("".join(span.text for span in board.settled)[: board.ready])
            return

        def shown() -> Iterator[str]:
            for output in outputs:
                texts.append(output.text)
                yield harmless(output.text) if self._console.file.isatty() else output.text

        stream_plain(shown())

    def _close(self) -> None:
        """One line of figures under an answer, for people."""
        if not self._console.file.isatty():
            return
        figures = self._voice.figures()
        parts = [f"{figures['completion_tokens']} tokens"]
        if figures["threads"] > 1:
            parts += [f"{figures['threads']} threads", f"theoretical speedup {figures['speedup']:.2f}"]
        if self._cut:
            parts.append(f"cut by a limit (--max-tokens is {self._options['max_tokens']})")
        self._remark(", ".join(parts))

    def _remark(self, text: str) -> None:
        if self._typed:
            self._console.print(Text(text, style="dim"))
