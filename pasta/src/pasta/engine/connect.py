"""From the address of a server to an engine that runs on it, or one clear line that says why not."""

from __future__ import annotations

import contextlib
import time
from numbers import Integral
from pathlib import Path
from typing import Any

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.tags import SYNC
from pasta.engine.exported import HINT_MODEL, read_json, read_taught, read_vocabulary
from pasta.engine.remote import RemoteEngine
from pasta.engine.remote_client import Client, Refused, ServerError
from pasta.errors import PastaError, UnknownModel, UsageError
from pasta.models import hub

GRAMMAR = 'start: value ","?\nvalue: %json {"type": "integer"}\n'
WORD = "Hello"  # to try a server with, whose model knows no tags


def connect_engine(url: str, model: str | None = None, *, key: str = "", context: int | None = None) -> RemoteEngine:
    """An engine on a completions server.

    Args:
        url: Up to and including `/v1`.
        model: The folder that the server loaded, for its tokenizer; None where the server says one that is also here.
        key: Sent as a bearer token.
        context: Use no more positions than this.
    """
    check_context(context)
    client = Client(url, key)
    try:
        served = find_served(client, model)
        folder = find_folder(served, model)
        vocabulary = read_vocabulary(folder, tagged=False)
        known: Any = served.get("max_model_len")
        if not str(known).isdecimal():  # it does not say
            known = read_json(folder / "config.json").get("max_position_embeddings") or 2048
        engine = RemoteEngine(
            client,
            vocabulary,
            model=str(served["id"]),
            name=folder.name,
            context=min(int(known), context or 1 << 30),
            taught=read_taught(folder),
        )
        check(engine)
        engine.penalises = knows_penalty(engine)
        engine.grammars = knows_grammars(engine)
    except BaseException:
        client.shut_down()
        raise
    return engine


def check_context(context: Any) -> None:
    whole = isinstance(context, Integral) and not isinstance(context, bool)
    if context is not None and not (whole and context >= 1):
        raise UsageError(f"context is {context!r:.40}, expected a whole number, 1 or more")


def find_served(client: Client, model: str | None) -> dict[str, Any]:
    """The server's own entry of the model."""
    listing = client.get("/v1/models")
    listed = listing.get("data") if isinstance(listing, dict) else None
    served = (
        [entry for entry in listed if isinstance(entry, dict) and "id" in entry] if isinstance(listed, list) else []
    )
    if not served:
        raise ServerError(f"{client.url} lists no models", "expected a completions server: http://HOST:PORT/v1")
    for entry in served:
        if model is not None and model in (entry["id"], entry.get("root")):
            return dict(entry)
    if len(served) > 1:
        names = ", ".join(str(entry["id"]) for entry in served)
        raise UsageError(f"{client.url} serves {names}", "pass one of them as --model")
    return dict(served[0])


def find_folder(served: dict[str, Any], model: str | None) -> Path:
    """Where the model's tokenizer is."""
    name = str(model or served.get("root") or served["id"])
    with contextlib.suppress(OSError, RuntimeError):  # no such home, or a name that no file can have
        path = Path(name).expanduser()
        if (path / "config.json").is_file():
            return path.resolve()
    if "/" in name and hub.is_id(name):
        return hub.tokenizer_folder(name)
    if "pasta" in served:  # as PASTA's own server lists a model
        hint = "ask it as any client of OpenAI's API does, or with `pasta chat URL`"
        raise UsageError("the server is PASTA's own, which decodes an answer's threads by itself", hint)
    raise UnknownModel(f"the tokenizer of {name:.200} is not here", HINT_MODEL)


def check(engine: RemoteEngine) -> None:
    """Whether the server's model has these tokens, tags included where there are any, and returns them as numbers."""
    tags = engine.vocabulary.tags
    word = SYNC if tags is not None else WORD
    tokens = engine.vocabulary.tokenizer(word, add_special_tokens=False)["input_ids"]
    spelled = engine.client.get("/tokenize", {"prompt": word, "add_special_tokens": False})
    if isinstance(spelled, dict) and spelled.get("tokens") not in (None, tokens):
        what = "tags" if tags is not None else "tokens"
        raise ServerError(f"the server's model does not know the {what} of {engine.name}", HINT_MODEL)
    thread = engine.open(short_prompt(engine), Expect.TEXT, SamplingParams())
    try:
        begun = time.monotonic()
        while not (answer := engine.step()):
            if time.monotonic() - begun > 60:
                raise ServerError(f"the server at {engine.client.url} decodes nothing", "see the server's log")
        if isinstance(answer[0][1], PastaError):
            raise answer[0][1]
    finally:
        engine.close(thread)


def knows_penalty(engine: RemoteEngine) -> bool:
    """Whether the server knows `repetition_penalty`: then it refuses this one. Else it passes over what it reads."""
    body = {"model": engine.model, "prompt": short_prompt(engine), "max_tokens": 1, "repetition_penalty": -1.0}
    try:
        engine.client.get("/v1/completions", body)
    except Refused:
        return True
    return False


def knows_grammars(engine: RemoteEngine) -> bool:
    """Whether the server takes grammars as `llguidance` reads them: then it refuses one that means nothing."""
    body = {"model": engine.model, "prompt": short_prompt(engine), "max_tokens": 1, "temperature": 0.0}
    try:
        engine.client.get("/v1/completions", {**body, "structured_outputs": {"grammar": GRAMMAR}})
    except (Refused, ServerError):
        return False
    try:
        engine.client.get("/v1/completions", {**body, "structured_outputs": {"grammar": "start: nothing"}})
    except Refused:
        return True
    return False


def short_prompt(engine: RemoteEngine) -> list[int]:
    tags = engine.vocabulary.tags
    return [tags.open, tags.close] if tags is not None else engine.vocabulary.encode(WORD)
