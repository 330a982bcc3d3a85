"""GGUF files as llama.cpp writes them: how positions are stretched, and which tokens end an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pasta.errors import CorruptModel, UnsupportedModel
from pasta.models import load_model
from support import SIZES, byte_tokenizer, tiny_model

gguf = pytest.importorskip("gguf")

NAMES = {"embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYERS = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate",
    "up_proj": "ffn_up", "down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
THETA = 500_000.0


def tensor_name(name: str) -> str:
    found = next((short for long, short in NAMES.items() if long in name), None)
    if found is None:
        parts = name.split(".")
        found = f"blk.{parts[2]}.{LAYERS[parts[-2]]}"
    return f"{found}.{name.rpartition('.')[2]}"


def write(path: Path, also: Callable[[Any], None] = lambda file: None, *, eos: str = "<|im_end|>") -> Path:
    """A tiny Qwen 2, whose query and key weights lie in the file as they do in its folder."""
    model, tokenizer = tiny_model("qwen2"), byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|endoftext|>"]})
    tokenizer.add_tokens(["ab", "cd"])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    file = gguf.GGUFWriter(path, "qwen2")
    file.add_context_length(4096)
    file.add_embedding_length(SIZES["hidden_size"])
    file.add_block_count(SIZES["num_hidden_layers"])
    file.add_feed_forward_length(SIZES["intermediate_size"])
    file.add_head_count(SIZES["num_attention_heads"])
    file.add_head_count_kv(SIZES["num_key_value_heads"])
    file.add_layer_norm_rms_eps(1e-6)
    file.add_rope_freq_base(THETA)
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    control = set(tokenizer.all_special_tokens)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("qwen2")
    file.add_token_list(tokens)
    file.add_token_types([gguf.TokenType.CONTROL if t in control else gguf.TokenType.NORMAL for t in tokens])
    file.add_token_merges(["a b", "c d"])  # a list of one is read as its only element by transformers 5.17
    file.add_eos_token_id(tokenizer.convert_tokens_to_ids(eos))
    file.add_chat_template(tokenizer.chat_template)
    also(file)
    for name, weight in model.state_dict().items():
        file.add_tensor(tensor_name(name), weight.numpy())
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def frequencies(rope: dict[str, Any]) -> torch.Tensor:
    config = transformers.Qwen2Config(**SIZES, rope_parameters={"rope_theta": THETA, **rope})
    return transformers.Qwen2ForCausalLM(config).model.rotary_emb.inv_freq


LLAMA3 = {
    "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def says(kind: str, factor: float, length: int | None = None) -> Callable[[Any], None]:
    def also(file: Any) -> None:
        file.add_string("qwen2.rope.scaling.type", kind)
        file.add_rope_scaling_factor(factor)
        if length is not None:
            file.add_rope_scaling_orig_ctx_len(length)

    return also


def holds(factors: torch.Tensor) -> Callable[[Any], None]:
    return lambda file: file.add_tensor("rope_freqs.weight", factors.numpy().astype(np.float32))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "rope,also",
    [
        ({"rope_type": "default"}, lambda file: None),
        ({"rope_type": "linear", "factor": 8.0}, says("linear", 8.0)),
        (YARN, says("yarn", 4.0, 1024)),
        (LLAMA3, holds(frequencies({"rope_type": "default"}) / frequencies(LLAMA3))),
    ],
    ids=["plain", "linear", "yarn", "llama3"],
)
def test_positions_are_stretched_as_the_file_says(rope: dict[str, Any], also: Any, tmp_path: Path) -> None:
    loaded = load_model(str(write(tmp_path / "m.gguf", also)), device="cpu")
    torch.testing.assert_close(loaded.model.model.rotary_emb.inv_freq, frequencies(rope))


@pytest.mark.parametrize("also", [says("su", 4.0), holds(torch.linspace(1, 9, 4))], ids=["kind", "factors"])
def test_a_stretch_that_is_not_known_is_refused(also: Any, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="original Hugging Face folder"):
        load_model(str(write(tmp_path / "m.gguf", also)), device="cpu")


def test_an_answer_ends_where_its_template_ends_it(tmp_path: Path) -> None:
    """Gemma's and Phi's files name the end of a text alone."""
    loaded = load_model(str(write(tmp_path / "m.gguf", eos="<|endoftext|>")), device="cpu")
    ends = loaded.tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    assert loaded.vocabulary.eos == set(ends)
    kept = json.loads((loaded.folder.path / "generation_config.json").read_text())
    assert kept["eos_token_id"] == sorted(ends)


def claims(name: str, value: int) -> Callable[[Any], None]:
    number = gguf.gguf_writer.GGUFValue(value, gguf.GGUFValueType.UINT32)
    return lambda file: file.kv_data[0].update({f"qwen2.{name}": number})


@pytest.mark.parametrize(
    ("also", "said"),
    [
        (claims("block_count", 3), "lack 12 tensors, model.layers.2.input_layernorm.weight first"),
        (claims("feed_forward_length", 64), r"do not fit: .*\.mlp\.\w+\.weight is .*, expected "),
    ],
    ids=["missing", "odd"],
)
def test_what_a_file_lacks_is_not_filled_with_noise(also: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match=rf"the weights in {tmp_path}/m\.gguf {said}"):
        load_model(str(write(tmp_path / "m.gguf", also)), device="cpu")
    assert not list((tmp_path / "cache" / "models").glob("gguf-*"))
