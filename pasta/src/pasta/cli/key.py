"""`pasta key NAME`: a key for clients of the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    name: Annotated[str, typer.Argument(help="Whose it is: the access log and the metrics say it.")],
    keys: Annotated[Path, typer.Option(help="The file for `pasta serve --keys`; the key's hash is added to it.")],
    requests_per_minute: Annotated[float | None, typer.Option(help="More are refused with 429 [no limit].")] = None,
    concurrent: Annotated[int | None, typer.Option(help="Requests at once; more are refused [no limit].")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="What it opens: api (the default), metrics; may be given twice.")
    ] = None,
) -> None:
    """Make a key for clients of `pasta serve`. It is printed once; the file keeps its hash."""
    from pasta.serve.keys import new_key

    secret = new_key(
        keys, name, scopes=scope or ("api",), requests_per_minute=requests_per_minute, concurrent=concurrent
    )
    print(secret)
    print(f"added {name} to {keys}", file=sys.stderr)
