"""`pasta render FILE --form plain|main|merged`: a response in one of its three forms, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from pasta.errors import PastaError
from pasta.lang import LangError, Response, main_thread, parse, plain, print_response
from pasta.lang.source import read_response, write_standard


class Form(StrEnum):
    PLAIN = "plain"
    MAIN = "main"
    MERGED = "merged"


RENDER: dict[Form, Callable[[Response], str]] = {
    Form.PLAIN: plain,
    Form.MAIN: main_thread,
    Form.MERGED: print_response,
}


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="The response, or what generate --json wrote; - reads stdin.")
    ],
    form: Annotated[
        Form,
        typer.Option(help="plain: no tags; main: the main thread alone; merged: each block after its promise."),
    ] = Form.PLAIN,
) -> None:
    source = read_response(file)
    try:
        response = parse(source.data)
    except LangError as error:
        place = f"{source.name}:{error.line}:{error.column}"
        hint = f"pasta check {source.name} lists all"
        raise PastaError(f"{place}: {error.code} {error.message}", hint) from None
    # Bytes and no line end of our own: the output is the form to the letter.
    write_standard(RENDER[form](response).encode())
