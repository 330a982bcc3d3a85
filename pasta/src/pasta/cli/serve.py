"""`pasta serve [MODEL]`: an OpenAI-compatible server."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pasta.cli.options import Base, Context, Device, Dtype, EngineUrl, Model, Template
from pasta.cli.running import check_least, note_untagged, open_engine, patiently, read_variables
from pasta.core.garbage import collect_rarely
from pasta.core.params import Options
from pasta.errors import PastaError, UsageError
from pasta.serve.logs import say

if TYPE_CHECKING:
    from pasta.engine.base import Engine

MAX_RUNNING, MAX_RUNNING_GPU = 16, 128
SLOWDOWN = 2.0  # times as long that threads may make a step, where they give way
WARM_UP_TOKENS = 16  # of a prompt
#: Ways to choose a token that have kernels of their own.
WAYS: tuple[Options, ...] = ({"max_tokens": 2}, {"max_tokens": 2, "temperature": 1.0, "top_p": 0.9, "top_k": 20})
HINT = 'install the server: pip install "pasta-decoding[torch,serve]"'


class Terminated(KeyboardInterrupt):
    """SIGTERM: what is under way ends as by Ctrl-C, so that an engine ends what it started.

    To a supervisor it is the ordinary end, also while a model is loaded: exit code 0, or the service counts as failed.
    """


def terminate(*_: object) -> NoReturn:
    raise Terminated


def command(
    name: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="The same as --model.")] = None,
    model: Model = None,
    base: Base = None,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in; set an API key then.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 picks a free one.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="PASTA_API_KEY", help="Clients must send it; better in the environment than here."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="A file of keys with limits, one for each client (see `pasta key`).")
    ] = None,
    access_log: Annotated[bool, typer.Option(help="A line of JSON on stderr for each request.")] = True,
    max_connections: Annotated[int, typer.Option(help="Open at once; half-open ones make room.")] = 1024,
    max_running: Annotated[int | None, typer.Option(help="Requests that decode at once [on a GPU 128; 16].")] = None,
    queue: Annotated[int, typer.Option(help="Requests that wait; more are refused.")] = 64,
    slowdown: Annotated[
        float | None,
        typer.Option(help="Times as long that threads beyond one for each request may make a step [any; on a CPU 2]."),
    ] = None,
    plain_when_full: Annotated[
        bool | None,
        typer.Option(help="Begin answers without threads while there are many and threads do not pay [on a CPU]."),
    ] = None,
    drain: Annotated[float, typer.Option(help="Seconds that answers have to finish after SIGTERM.")] = 10.0,
    max_tokens: Annotated[int, typer.Option(help="The longest answer, in tokens, tags included.")] = 2048,
    template: Template = None,
    slots: Annotated[
        int | None,
        typer.Option(help="Size of the KV pool in tokens, all requests together [half of a GPU's free memory; 16384]."),
    ] = None,
    engine_url: EngineUrl = None,
    device: Device = None,
    dtype: Dtype = None,
    context: Context = None,
) -> None:
    """Serve a model to any client of OpenAI's API, its requests decoded side by side."""
    if None not in (name, model):
        raise UsageError(f"two models are named, {name} and {model}", "name one, with --model")
    model = model or name
    check_least(
        max_tokens=max_tokens, max_connections=max_connections, max_running=max_running, slots=slots, context=context
    )
    if queue < 0:
        raise UsageError(f"queue is {queue}, expected 0 or more")
    if slowdown is not None and not 1 <= slowdown < float("inf"):
        raise UsageError(f"--slowdown is {slowdown}, expected 1 or more")
    if not 0 <= drain < float("inf"):
        raise UsageError(f"--drain is {drain}, expected 0 or more")
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != ""):
        why = "the API key must be printable ASCII characters, without spaces around them"
        raise PastaError(why, "leave --api-key out to serve without one")
    if api_key is not None and keys is not None:
        raise UsageError("--api-key and --keys are both given", "put all keys into the file")
    variables = read_variables(template)
    signal.signal(signal.SIGTERM, terminate)
    with contextlib.suppress(Terminated):
        try:
            from pasta.serve.keys import Keys
            from pasta.serve.run import Server, bind
            from pasta.serve.settings import Settings
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "pydantic", "prometheus_client"):
                raise
            raise PastaError(f"{error.name} is not installed, and this command needs it", HINT) from None
        known = None if api_key is None else Keys.of_one(api_key)
        if keys is not None:
            known = Keys.of_file(keys)
        with bind(host, port) as bound:
            engine = open_engine(engine_url, model, base=base, device=device, dtype=dtype, context=context, slots=slots)
            note_untagged(engine)
            if variables is not None:  # what the template does not take is the operator's to know, and at once
                engine.vocabulary.encode_chat([{"role": "user", "content": "Hello"}], variables=variables)
            warm_up(engine)
            collect_rarely()
            slowdown, plain_when_full = regulation(slowdown, plain_when_full, on_gpu(engine))
            settings = Settings(
                host=host,
                keys=known,
                access_log=access_log,
                max_connections=max_connections,
                max_running=max_running or at_once(engine),
                max_queue=queue,
                slowdown=slowdown,
                plain_when_full=plain_when_full,
                grace_s=drain,
                max_tokens=max_tokens,
                aliases=() if model is None else (model,),
                chat_template_kwargs=variables,
            )
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{bound.getsockname()[1]}"

            def announce() -> None:
                say(f"serving {engine.name} at {address}/v1 (Ctrl-C ends it)")
                if known is None and not settings.is_local:
                    say("warning: other machines can reach this server, and it asks for no API key")

            def wait_for(answers: int) -> None:
                are = "1 answer has" if answers == 1 else f"{answers} answers have"
                say(f"ending: {are} {drain:g} s to finish (Ctrl-C ends at once)")

            Server(engine, settings, announce, wait_for).run_on(bound)
    say("the server has ended")


def warm_up(engine: Engine) -> None:
    """Does before the first client comes what would hold it up: on a GPU, compiling kernels and capturing graphs."""
    from pasta.decoding.api import generate
    from pasta.engine.base import Prepares

    if isinstance(engine, Prepares):
        with patiently("warming up"):
            for way in WAYS:
                generate(engine, [0] * WARM_UP_TOKENS, **way)
            engine.prepare()


def at_once(engine: Engine) -> int:
    return MAX_RUNNING_GPU if on_gpu(engine) else MAX_RUNNING


def regulation(slowdown: float | None, plain_when_full: bool | None, gpu: bool) -> tuple[float | None, bool]:
    """Whether threads give way to other users, and how much, where an operator has not said it all.

    Plain answers when the server is full need a bound: by it the server learns what steps cost.
    """
    plain = not gpu if plain_when_full is None else plain_when_full
    return SLOWDOWN if slowdown is None and (plain or not gpu) else slowdown, plain


def on_gpu(engine: Engine) -> bool:
    """Whether a step of many rows takes little longer than one of few. On a CPU each takes its time from the others."""
    device = getattr(engine.pool, "device", None)  # of another server's pool nothing is known
    return device is not None and device.type == "cuda"
