"""GGUF files: the real one, and the real one damaged in every way that happens."""

import struct

import pytest
import torch

from pasta.errors import CorruptModel, UnknownModel, UnsupportedModel
from pasta.models import load_model, resolve
from pasta.models.header import read_header

pytestmark = pytest.mark.network


def test_header_of_the_real_file(default_gguf):
    header = read_header(default_gguf)
    assert header.architecture == "llama"
    assert header.parameters == 134_515_008
    assert header.metadata["tokenizer.ggml.pre"] == "smollm"
    assert len(header.tensors) == 272


@pytest.mark.parametrize("kept", [4, 20, 1_000, 500_000, 2_000_000, 50_000_000, 98_362_431])
def test_truncated_anywhere(default_gguf, tmp_path, kept):
    path = tmp_path / "short.gguf"
    with default_gguf.open("rb") as file:
        path.write_bytes(file.read(kept))
    with pytest.raises(CorruptModel, match="truncated") as caught:
        resolve(str(path))
    assert "\n" not in str(caught.value)


def test_bad_magic(tmp_path):
    path = tmp_path / "page.gguf"
    path.write_text("<!DOCTYPE html><title>404</title>")
    with pytest.raises(CorruptModel, match="not a GGUF file"):
        resolve(str(path))


def test_empty_file(tmp_path):
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(CorruptModel, match="not a GGUF file"):
        resolve(str(tmp_path / "empty.gguf"))


def test_unknown_version(tmp_path):
    path = tmp_path / "new.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 9, 0, 0))
    with pytest.raises(UnsupportedModel, match="version 9"):
        resolve(str(path))


def test_absurd_lengths_do_not_allocate(tmp_path):
    path = tmp_path / "absurd.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 1 << 62) + b"x" * 64)
    with pytest.raises(CorruptModel, match="string of"):
        resolve(str(path))


def pair(name, kind, value):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (pair(b"general.alignment", 8, struct.pack("<Q", 3) + b"abc"), "aligned to 'abc'"),
        (pair(b"general.alignment", 6, struct.pack("<f", float("nan"))), "aligned to nan"),
        (pair(b"general.alignment", 5, struct.pack("<i", -8)), "aligned to -8"),
        (pair(b"a", 9, 3000 * struct.pack("<IQ", 9, 1)), "recursion"),
    ],
)
def test_metadata_that_cannot_be(tmp_path, value, said):
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + value)
    with pytest.raises(CorruptModel, match=f"damaged or truncated GGUF file: .*{said}"):
        read_header(path)


def test_an_architecture_that_transformers_does_not_read(default_gguf, tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    data = default_gguf.read_bytes()
    # The length stays the same, so that the rest of the file keeps its place.
    at = data.index(b"llama", data.index(b"general.architecture"))
    path = tmp_path / "zebra.gguf"
    path.write_bytes(data[:at] + b"zebra" + data[at + 5 :])
    with pytest.raises(UnsupportedModel, match="'zebra'"):
        resolve(str(path))


def test_no_such_file():
    with pytest.raises(UnknownModel, match="no such file"):
        resolve("/no/such/model.gguf")


@pytest.mark.slow
def test_a_converted_file_is_exact_and_cached(default_gguf, tmp_path, monkeypatch):
    from gguf import GGUFReader, dequantize

    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    folder = resolve(str(default_gguf))
    assert folder.source == "gguf"
    assert resolve(str(default_gguf)) == folder
    assert resolve(folder.path.name).path == folder.path
    model = load_model(str(folder.path), device="cpu").model
    embedding = next(t for t in GGUFReader(default_gguf).tensors if t.name == "token_embd.weight")
    expected = torch.from_numpy(dequantize(embedding.data, embedding.tensor_type))
    assert torch.equal(model.get_input_embeddings().weight, expected)
