"""Folders in the shapes in which models that people use come: what is read of them, and what is written again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.exported import read_vocabulary
from pasta.engine.load import load_engine
from pasta.errors import UsageError
from pasta.models import load_model
from pasta.models.checkpoint import quiet, read_tokenizer
from support import SIZES, byte_tokenizer, tiny_model
from toy_tokenizers import toy_tokenizer

QUESTION = [{"role": "user", "content": "Why?"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_the_end_of_an_answer_is_found_in_the_configuration_alone(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config.update(eos_token_id=[7, 9]))
    edit(folder / "generation_config.json", lambda config: config.pop("eos_token_id"))
    edit(folder / "tokenizer_config.json", lambda config: config.pop("eos_token"))
    assert load_model(str(folder), device="cpu").vocabulary.eos == {7, 9}
    assert read_vocabulary(folder, tagged=False).eos == {7, 9}


def test_a_template_of_the_processor_is_read(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    assert load_model(str(folder), device="cpu").tokenizer.chat_template is None
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "[{{ messages[0].content }}]"}))
    vocabulary = load_model(str(folder), device="cpu").vocabulary
    assert vocabulary.decode(vocabulary.encode_chat(QUESTION)) == "[Why?]"


def test_a_tokenizer_that_names_no_first_token_still_puts_it_in_front(folder: Path) -> None:
    """A bare tokenizer.json: what it puts in front of texts is all that says how they begin."""
    from tokenizers import processors

    tokenizer = byte_tokenizer()
    first = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", first)]
    )
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (folder / name).unlink()
    vocabulary = load_model(str(folder), device="cpu").vocabulary
    assert vocabulary.tokenizer.bos_token_id is None
    assert vocabulary.encode_chat(QUESTION)[0] == vocabulary.encode_text("Why?")[0] == first
    assert vocabulary.encode_text("Why?", bos=False)[0] != first


@pytest.mark.parametrize("legacy", [True, False])
def test_llamas_tokenizer_is_the_same_when_it_was_saved(legacy: bool, tmp_path: Path) -> None:
    toy_tokenizer("metaspace-always-whole").save_pretrained(tmp_path / "a")
    names = {"tokenizer_class": "LlamaTokenizer", "legacy": legacy}
    edit(tmp_path / "a" / "tokenizer_config.json", lambda config: config.update(names))
    transformers.LlamaConfig(**SIZES).save_pretrained(tmp_path / "a")
    with quiet():
        first = read_tokenizer(tmp_path / "a")
        first.save_pretrained(tmp_path / "b")
        again = read_tokenizer(tmp_path / "b")
    assert again.legacy is legacy
    assert Vocabulary(again).encode_chat(QUESTION) == Vocabulary(first).encode_chat(QUESTION)


def test_a_token_that_the_table_lacks_is_refused_in_a_prompt(folder: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.add_tokens(["smiley"])
    tokenizer.save_pretrained(folder)
    engine = load_engine(str(folder), device="cpu", slots=256, check=False)
    with pytest.raises(UsageError, match="token 1 is 258, expected 0 to 257"):
        generate(engine, [5, tokenizer.pad_token_id], max_tokens=1)
    for raw in (False, True):
        with pytest.raises(UsageError, match="no 'smiley', token 259 of its tokenizer, expected 0 to 257"):
            generate(engine, "A smiley?", max_tokens=1, raw=raw)
    with pytest.raises(UsageError, match="no 'smiley'"):
        generate(engine, [{"role": "user", "content": "smiley"}], max_tokens=1)
