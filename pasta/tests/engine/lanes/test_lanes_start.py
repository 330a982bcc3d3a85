"""How vLLM is started, and what is said where it cannot be. Nothing of vLLM is needed."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from pasta.core.params import SamplingParams
from pasta.core.positions import Positions
from pasta.decoding.model import connect
from pasta.engine.vllm.core import arguments, command_line, print_command, read_value
from pasta.engine.vllm.terms import Terms
from pasta.errors import PastaError, UnknownModel, UnsupportedModel
from support import byte_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = byte_tokenizer()
    from pasta.core.vocabulary import Vocabulary

    Vocabulary(tokenizer).add_tags()
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
    return tmp_path


def test_the_command_says_what_the_arguments_say(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["core", str(folder)])
    print_command()
    words = shlex.split(capsys.readouterr().out)
    assert words == command_line(folder)
    assert words[:3] == ["vllm", "serve", str(folder)]
    assert "--no-async-scheduling" in words
    assert json.loads(words[words.index("--hf-overrides") + 1]) == {"architectures": ["PastaQwen3ForCausalLM"]}
    assert arguments(folder, max_model_len=99)["max_model_len"] == 99


def test_a_model_that_vllm_cannot_decode_in_threads(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(UnsupportedModel, match=r"GPT2LMHeadModel.*Llama"):
        arguments(folder)


def test_no_model_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="pasta export"):
        connect(f"vllm://{tmp_path}/nowhere?max_model_len=100")


def test_no_vllm_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(PastaError, match=r"pip install .*pasta-decoding\[vllm\]"):
        connect(f"vllm://{folder}")


def test_options_are_json_where_they_can_be() -> None:
    assert [read_value(text) for text in ("8", "true", "bfloat16")] == [8, True, "bfloat16"]


def test_terms_travel_as_text() -> None:
    params = SamplingParams(temperature=0.5, stop=("x",), logit_bias=((3, 1.5),), positions=Positions.parse("fixed:40"))
    terms = Terms(params, 100, 7, 2, {(): (1, 2), (0, 1): (3,)})
    assert Terms.read(terms.write()) == terms
