"""What the commands that run a model share: reading, checking, loading, writing."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from pasta.core.variables import problem_of
from pasta.errors import UsageError

if TYPE_CHECKING:
    from pasta.engine.base import Engine
    from pasta.engine.native import NativeEngine

WORDS = ("true", "false", "null")
PATIENCE_S = 2.0  # what takes less goes without saying


def read_prompt(argument: str) -> str:
    """The prompt: the argument itself, or standard input for `-`, without the line end that a shell adds."""
    if argument != "-":
        return check_text(argument, "prompt")
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    return decode(data, "standard input").removesuffix("\n").removesuffix("\r")


def decode(data: bytes, place: str) -> str:
    """Text in UTF-8; a byte order mark at its head is none of it."""
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None


def check_text(text: str, what: str) -> str:
    """An argument as text: the shell may hand over bytes that are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the {what} is not UTF-8") from None
    return text


def read_variables(given: list[str] | None) -> dict[str, Any] | None:
    """Variables of a chat template, `NAME=VALUE` each: a value of JSON, in Python's spelling too, or else a text."""
    variables: dict[str, Any] = {}
    for each in given or ():
        name, sign, value = check_text(each, "template variable").partition("=")
        if not sign:
            raise UsageError(f"--template {each:.60}: expected NAME=VALUE, as in enable_thinking=false")
        word = value.lower()
        try:
            variables[name] = json.loads("null" if word == "none" else word if word in WORDS else value)
        except (ValueError, RecursionError):
            variables[name] = value
    if (problem := problem_of(variables)) is not None:
        raise UsageError(f"--template: {problem}")
    return variables or None


def check_least(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}, expected 1 or more")


def open_engine(url: str | None, model: str | None, *, positions: str | None = None, **options: Any) -> Engine:
    """A model on this machine; with `--engine`, one on a server, whose positions nobody here can set."""
    if url is None:
        return load_engine(model, **options)
    return connect_engine(url, model, positions=positions, **options)


def load_engine(name: str | None, **options: Any) -> NativeEngine:
    """Loads a model, and says so on stderr where it takes long."""
    from pasta.models import resolve

    resolve(name, options.get("base"))  # fetching has a bar of its own
    with patiently(f"loading {name or 'the default model'}"):
        from pasta.engine import load

        share_cores()
        return load.load_engine(name, **options)


def connect_engine(url: str, model: str | None, *, context: int | None = None, **local: Any) -> Engine:
    """Finds a model on a server, or starts vLLM here; `local` are the options that only our own engines have."""
    for name, value in local.items():
        if value is not None:
            raise UsageError(f"--{name} is for a model on this machine, and --engine decodes on another")
    if url.startswith("vllm://"):
        if model is not None:
            raise UsageError(f"--model {model} and --engine {url} both name a model", "leave --model out")
        with patiently(f"starting {url}"):
            from pasta.engine.vllm.core import start_at

            return start_at(url, context=context)
    with patiently(f"connecting to {url}"):
        from pasta.engine import connect

        engine = connect.connect_engine(url, model, key=os.environ.get("PASTA_ENGINE_KEY", ""), context=context)
    if engine.trained != engine.positions:
        why = f"{engine.name} was trained for positions {engine.trained}, a server decodes it {engine.positions}"
        print(f"note: {why}; see docs/engines.md", file=sys.stderr, flush=True)
    return engine


def note_untagged(engine: Engine) -> None:
    """Says that a model without tags cannot fork, and what would make it."""
    if engine.vocabulary.tags is None:
        why = f"{engine.name} knows no tags, so it answers in one thread"
        print(f"note: {why}; to teach it: pasta train sft, see docs/your-own-model.md", file=sys.stderr, flush=True)


def share_cores() -> None:
    """Leaves busy cores alone: a torch thread that waits for one of them holds up all the others, many times a step."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and hasattr(os, "getloadavg"):
        free = (os.cpu_count() or 1) - round(os.getloadavg()[0])
        torch.set_num_threads(max(1, min(torch.get_num_threads(), free)))


@contextlib.contextmanager
def patiently(label: str, *, quiet: bool = False) -> Iterator[None]:
    """Says on stderr what takes so long, once it does: a spinner on a terminal, else one line. Unless it is `quiet`."""
    if quiet:
        yield
        return
    from pasta.models.progress import spinner

    console = Console(stderr=True, highlight=False)
    status = console.status(Text(label), spinner=spinner(console))

    def show() -> None:
        if console.is_terminal and not console.is_dumb_terminal:
            status.start()
        else:
            typer.echo(f"{label} …".encode(), err=True)

    timer = threading.Timer(PATIENCE_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def write(text: str) -> None:
    """To stdout, to the letter: no locale, and no line end of our own."""
    typer.echo(text.encode("utf-8", "replace"), nl=False)


def stream_plain(texts: Iterator[str]) -> None:
    """An answer as it becomes ready, and a line end, also where it is cut short; none where nothing came of it."""
    begun = False
    try:
        for text in texts:
            if text:
                begun = True
                write(text)
        begun = True
    finally:
        if begun:
            write("\n")


def write_json(value: Any) -> None:
    write(json.dumps(value, ensure_ascii=False) + "\n")


def make_console() -> Console:
    """For stdout; nothing in a text is markup."""
    return Console(highlight=False, markup=False, emoji=False)
