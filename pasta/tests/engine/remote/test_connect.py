"""Finding a model on a server: which servers and models are refused, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remote_support import ROWS, native_of, served

import pasta
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote_client import Client, ServerError
from pasta.errors import UnknownModel, UsageError
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_model


def test_nobody_is_there() -> None:
    with pytest.raises(ServerError, match=r"does not answer.*is it running") as caught:
        connect("http://127.0.0.1:9/v1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "", "http://", "https:///v1", "http://:8000/v1", "http://x/v1\n", None]
)
def test_what_is_no_address(url: Any) -> None:
    with pytest.raises(UsageError, match="not the address"):
        pasta.connect(url)


@pytest.mark.parametrize("key", ["sécret", "secret\n", " secret", "sec\rret", "\ud800"])
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(UsageError, match="the key holds what no header may") as caught:
        connect("http://127.0.0.1:9/v1", key=key)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize("context", [0, -5, "abc", True, 1.5])
def test_what_is_no_context(context: Any) -> None:
    with pytest.raises(UsageError, match=r"context is .*, expected a whole number, 1 or more"):
        connect("http://127.0.0.1:9/v1", context=context)


@pytest.mark.parametrize("model", ["~nobody-of-that-name/x", "x" * 5000])
def test_what_is_no_folder_and_cannot_be_one(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "get", lambda *_: {"data": [{"id": "a"}]})
    with pytest.raises(UnknownModel, match="is not here"):
        connect("http://127.0.0.1:9/v1", model)


def test_who_interrupts_it_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(client: Client, *_: Any) -> Any:
        clients.append(client)
        raise KeyboardInterrupt

    clients: list[Client] = []
    monkeypatch.setattr(Client, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connect("http://127.0.0.1:9/v1")
    assert not clients[0].shut_down.alive


@pytest.mark.parametrize("listing", [None, [], {"data": 3}, {"data": {"a": 1}}, {"data": [3]}, {"data": [{}, []]}])
def test_a_server_of_another_kind(listing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "get", lambda *_: listing)
    with pytest.raises(ServerError, match="lists no models"):
        connect("http://127.0.0.1:9/v1")


def test_a_context_that_is_no_number_is_the_models_own(
    native: NativeEngine, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = Client.get

    def odd(client: Client, path: str, body: Any = None) -> Any:
        if path == "/v1/models":
            return {"data": [{"id": folder, "root": folder, "max_model_len": [1]}]}
        return get(client, path, body)

    with served(native, folder) as server:
        monkeypatch.setattr(Client, "get", odd)
        assert connect(server.url).context == native.context


def test_a_server_without_token_ids(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-ids") as server, pytest.raises(ServerError, match="returns no token ids"):
        connect(server.url)


def test_a_server_that_does_not_say_why_it_stopped(native: NativeEngine, folder: str) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        server.quirks = ["mute-stop"]
        with pytest.raises(ServerError, match="which token stopped it"):
            generate(engine, ROWS[0]["prompt"])


def test_another_model(native: NativeEngine, folder: str, tmp_path: Path) -> None:
    """Neither one whose tokens are others, with tags or without, nor one that is not here."""
    other = Vocabulary(byte_tokenizer())
    other.tokenizer.add_tokens(["<x>"])
    other.add_tags()
    other.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    plainly = tmp_path / "plain"
    byte_tokenizer().save_pretrained(plainly)
    strange = byte_tokenizer()
    strange.add_tokens(["Hello"])
    strange.save_pretrained(tmp_path / "strange")
    (tmp_path / "strange" / "config.json").write_text("{}")
    (plainly / "config.json").write_text("{}")
    with served(native, folder) as server:
        with pytest.raises(ServerError, match="does not know the tags"):
            connect(server.url, str(tmp_path))
        with pytest.raises(ServerError, match="does not know the tokens"):
            connect(server.url, str(tmp_path / "strange"))
        untuned = connect(server.url, str(plainly))  # which knows no tags: for text, and for objects by schema
        assert untuned.vocabulary.tags is None
        assert isinstance(pasta.extract(untuned, "How many?", {"type": "integer", "maximum": 9}, max_tokens=50), int)
        untuned.client.shut_down()
        server.root = "/somewhere/else"
        with pytest.raises(UnknownModel, match="tokenizer of /somewhere/else is not here"):
            connect(server.url)
        assert connect(server.url, folder).name == Path(folder).name
    with served(native, folder, "no-tokenize") as server:
        server.model = tiny_model()  # without tags: too few tokens
        with pytest.raises(ServerError, match=r"400: Token id .* out of vocabulary"):
            connect(server.url)


def test_a_key(native: NativeEngine, folder: str) -> None:
    with served(native, folder, key="secret") as server:
        with pytest.raises(ServerError, match="401"):
            connect(server.url)
        assert connect(server.url, key="secret").context == 2048


def test_a_server_that_ignores_the_bias(tmp_path: Path) -> None:
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    with served(native_of(str(tmp_path)), str(tmp_path), "no-bias") as server:
        engine = connect(server.url)
        with pytest.raises(ServerError, match="ignores logit_bias"):
            for seed in range(50):
                generate(engine, "Why?", temperature=3.0, seed=seed, max_tokens=100)


def test_a_server_that_knows_no_penalty(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-penalty") as server:
        engine = connect(server.url)
        assert generate(engine, ROWS[0]["prompt"]).tree == generate(native, ROWS[0]["prompt"]).tree
        with pytest.raises(UsageError, match="server knows no repetition_penalty") as caught:
            generate(engine, ROWS[0]["prompt"], repetition_penalty=1.1)
        assert server.url not in str(caught.value), "whoever asks a server need not know what stands behind it"
