"""What the tests of the remote engine share: examples to learn, and a server for a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from completions_server import CompletionsServer

from pasta.engine.native import NativeEngine
from pasta.models import load_model
from support import toy_rows

ROWS = toy_rows(5)


def native_of(folder: str) -> NativeEngine:
    loaded = load_model(folder, device="cpu")
    return NativeEngine(loaded.model, loaded.vocabulary, name=folder)


@contextlib.contextmanager
def served(native: NativeEngine, root: str, quirks: str = "", key: str = "") -> Iterator[CompletionsServer]:
    model = load_model(root, device="cpu").model
    server = CompletionsServer(model, native.vocabulary, root, quirks=quirks, key=key)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
    assert not server.errors
