"""`pasta`: a table of commands, each imported only when it is called, and one place that reports errors."""

import errno
import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from pasta._version import __version__
from pasta.errors import PastaError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
#: What is wrong with a path that somebody named.
NO_WAY = {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM, errno.EROFS}
INTERRUPTED = 130  # 128 + SIGINT: what a shell reports for Ctrl-C


class Entry(NamedTuple):
    module: str  # defines `command`: a function with Typer annotations, or a Typer app with commands of its own
    help: str


# The help stands here so that `pasta --help` imports no command, and so no torch.
COMMANDS = {
    "demo": Entry("pasta.cli.demo", "Watch a model decode several parts of one answer at once."),
    "generate": Entry("pasta.cli.generate", "Answer a prompt, decoding independent parts at once."),
    "extract": Entry("pasta.cli.extract", "Answer with JSON of a given schema, its fields decoded at once."),
    "chat": Entry("pasta.cli.chat", "Talk with a model, or with a server."),
    "serve": Entry("pasta.cli.serve", "Serve a model to any client of OpenAI's API."),
    "key": Entry("pasta.cli.key", "Make a key for clients of the server."),
    "replay": Entry("pasta.cli.replay", "Force a recorded response through a model, to time it."),
    "check": Entry("pasta.cli.check", "Report what is wrong with an annotated text, and where."),
    "render": Entry("pasta.cli.render", "Print an annotated text: plain, main thread or merged."),
    "annotate": Entry("pasta.cli.annotate", "Mark what is independent in the answers of a data set."),
    "train": Entry("pasta.cli.train", "Finetune a model on annotated answers."),
    "eval": Entry("pasta.cli.eval", "Measure models: the quality of their answers, and their speed."),
    "models": Entry("pasta.cli.models", "List the models at hand, and where they came from."),
    "export": Entry("pasta.cli.export", "Write a model as one folder, for vLLM and other servers."),
    "bench": Entry("pasta.cli.bench", "Measure the engine on this machine."),
}

HINT_ENGINE = 'install the native engine: pip install "pasta-decoding[torch]"'
ENGINE_MODULES = {"torch", "transformers", "safetensors", "accelerate", "gguf", "huggingface_hub", "numpy"}


class LazyGroup(TyperGroup):
    """Lists the table's entries as they stand; imports a command's module when that command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # so that a closed pipe shows here, not while the interpreter shuts down
            return result
        except PastaError as error:
            print_error(error)
            raise typer.Exit(error.exit_code) from None
        except typer.BadParameter as error:
            name_value(error)
            raise
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ENGINE_MODULES:
                raise
            print_error(PastaError(f"{error.name} is not installed, and this command needs it", HINT_ENGINE))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if not told_of_files(error):
                raise
            raise typer.Exit(1) from None


def told_of_files(error: OSError) -> bool:
    """Whether an error was about what a user named, or where results go, and was told as one."""
    if isinstance(error, BrokenPipeError):  # the reader has gone, as in `pasta render x | head`
        give_a_sink()
        return True
    if error.errno in NO_WAY and error.filename is not None:
        print_error(PastaError(f"cannot use {error.filename}: {error.strerror}", "name another"))
        return True
    if error.errno not in NO_ROOM:
        return False
    if error.filename is None:  # stdout's
        give_a_sink()
    where = error.filename or "the result"
    print_error(PastaError(f"cannot write {where}: {error.strerror}", "make room, or write it elsewhere"))
    return True


def give_a_sink() -> None:
    """Stdout takes no more; Python would flush what is left once more at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def load_command(name: str) -> Any:
    """The command `name` of the table, with its module imported."""
    entry = COMMANDS[name]
    function = import_module(entry.module).command
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, help=function.__doc__ or entry.help)(function)
    return typer.main.get_command(single)


def print_error(error: PastaError) -> None:
    """One line on stderr, whatever the message holds."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)


def name_value(error: typer.BadParameter) -> None:
    """Puts the value of an option into the sentence about it, where the library leaves it out (typer with pydantic)."""
    told = getattr(error.__cause__, "errors", None)
    if told is not None:
        message = error.message.removeprefix("Value error, ")
        if message.startswith("Input should "):
            message = f"{told()[0]['input']!r:.60} {message.removeprefix('Input ')}"
        error.message = message


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"pasta {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decode the independent parts of a language model's answer at the same time."""


def list_only() -> None:
    """Stands in the listing for a command that is not imported yet."""


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.help)(list_only)


def main() -> None:
    """The console script."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us, as in `pasta serve >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        try:
            app(prog_name="pasta")
        finally:
            sys.stdout.flush()  # the help and the version are no command's
    except OSError as error:
        if not told_of_files(error):
            raise
        sys.exit(1)
