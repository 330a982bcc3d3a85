"""Models of known shapes with random weights: speed depends on the shape alone, and nothing is downloaded."""

from __future__ import annotations

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from pasta.errors import UsageError

CONTEXT = 40_960
SHAPES = {
    "smollm2-135m": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49_152, "tie_word_embeddings": True,
    },
    "qwen2.5-1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 151_936, "tie_word_embeddings": True,
    },
    "llama-3-8b": {
        "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128_256, "tie_word_embeddings": False,
    },
}  # fmt: skip
MEASURED = ("smollm2-135m", "llama-3-8b")  # by `pasta bench`, where no shape is named


def random_model(shape: str, dtype: torch.dtype, device: str) -> PreTrainedModel:
    if shape not in SHAPES:
        raise UsageError(f"unknown shape {shape!r}", hint=f"use one of {', '.join(SHAPES)}")
    config = transformers.LlamaConfig(**SHAPES[shape], max_position_embeddings=CONTEXT, pad_token_id=0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)
    return model


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token; enough for tokens that nobody reads."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def weight_bytes(model: PreTrainedModel) -> int:
    """What a step must read at the least: every weight once, of the embedding only the output's."""
    total = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return total if embedding is head else total - embedding.numel() * embedding.element_size()
