"""A tiny model that knows its examples, a server that serves it, and both engines over it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import pytest
from completions_server import CompletionsServer
from remote_support import ROWS, native_of, served

from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.train import sft
from pasta.train.config import SftConfig
from support import byte_tokenizer, tiny_model


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model, finetuned in this layout until it knows its examples."""
    base, data, out = (tmp_path_factory.mktemp(name) for name in ("base", "data", "out"))
    tiny_model().save_pretrained(base)
    byte_tokenizer().save_pretrained(base)
    (data / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    settings = SftConfig(
        data=str(data / "rows.jsonl"), output=str(out), model=str(base), positions="stitched", epochs=90,
        learning_rate=1e-2, batch_size=2, max_length=512, schedule="cosine",
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # of the trainer's libraries
        sft.train(settings)
    return str(out)


@pytest.fixture(scope="package")
def native(folder: str) -> NativeEngine:
    return native_of(folder)


@pytest.fixture(scope="package")
def server(native: NativeEngine, folder: str) -> Iterator[CompletionsServer]:
    with served(native, folder) as running:
        yield running


@pytest.fixture(scope="package")
def remote(server: CompletionsServer) -> Iterator[RemoteEngine]:
    engine = connect(server.url)
    yield engine
    engine.client.shut_down()


@pytest.fixture(autouse=True)
def fresh(server: CompletionsServer) -> None:
    server.seen.clear()
    server.pause, server.holds = 0.0, lambda seen: False
