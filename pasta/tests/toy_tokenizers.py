"""Small tokenizers of every kind that puts a space in front of texts, trained on the examples; and chat templates."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pasta.examples import EXAMPLES
from pasta.lang import parse, plain
from support import CHATML

SPACE = "\u2581"
SPECIALS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{octet:02X}>" for octet in range(256)]

# Between the prompt and the answer stand a space of the template's, a control token, a control token that swallows the
# line break, and a line break of ordinary text.
TEMPLATES = {
    "llama2": "{% for m in messages %}{% if m.role == 'user' %}<s>[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}",
    "mistral": "<s>{% for m in messages %}{% if m.role == 'user' %}<|inst|> {{ m.content }}<|end|>"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}",
    "phi3": "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "zephyr": "{% for m in messages %}@{{ m.role }}@\n{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}@assistant@\n{% endif %}",
    "chatml": CHATML,
}
CONTROL = ["<|inst|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
SWALLOWING = ["<|user|>", "<|assistant|>"]


def toy_tokenizer(kind: str, template: str = "chatml") -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(KINDS[kind]().to_str()), bos_token="<s>", eos_token="</s>"
    )
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False, rstrip=True) for token in SWALLOWING])
    tokenizer.chat_template = TEMPLATES[template]
    return tokenizer


def corpus() -> list[str]:
    return [plain(parse(example.text)) for example in EXAMPLES.values()]


@cache
def learned() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Pieces of words with SentencePiece's letter for the space, and how they are merged."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)
    alphabet = [SPACE, *map(chr, range(0x21, 0x7F)), "é", "日"]
    tokenizer.train_from_iterator(
        corpus(), trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(tokenizer.to_str())["model"]
    pieces = [piece for piece in model["vocab"] if "\n" not in piece]
    merges = [(left, right) for left, right in model["merges"] if "\n" not in left + right]
    # A row of spaces is one token, as in Mistral's.
    merges += [(SPACE, SPACE), (SPACE * 2, SPACE * 2)]
    vocabulary = [*SPECIALS, *BYTES, *pieces, SPACE * 2, SPACE * 4]
    return {piece: index for index, piece in enumerate(vocabulary)}, merges


def sentencepiece(normalizer: Any, pre_tokenizer: Any, *, strips: bool) -> Tokenizer:
    vocabulary, merges = learned()
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if strips else parts)
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def metaspace(scheme: str, *, split: bool) -> Tokenizer:
    return sentencepiece(None, pre_tokenizers.Metaspace(SPACE, scheme, split), strips=scheme != "never")


def prepending() -> Tokenizer:
    normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    return sentencepiece(normalizer, None, strips=True)


def gemma() -> Tokenizer:
    before = pre_tokenizers.Split(" ", "merged_with_previous")
    return sentencepiece(normalizers.Replace(" ", SPACE), before, strips=False)


def unigram() -> Tokenizer:
    pieces = [piece for piece in learned()[0] if piece not in (*SPECIALS, *BYTES)]
    scores = [(piece, -10.0 + len(piece) + 1e-3 * index) for index, piece in enumerate(pieces)]  # no two ways are equal
    rare = [(piece, -100.0) for piece in [*SPECIALS, *BYTES]]
    tokenizer = Tokenizer(models.Unigram([*rare, *scores], unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, "always", True)])
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def byte_level(*, prefix: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=SPECIALS, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    **{
        f"metaspace-{scheme}-{'split' if split else 'whole'}": cache(
            lambda scheme=scheme, split=split: metaspace(scheme, split=split)
        )
        for scheme in ("always", "first", "never")
        for split in (True, False)
    },
    "prepend": cache(prepending),
    "gemma": cache(gemma),
    "unigram": cache(unigram),
    "byte-level": cache(lambda: byte_level(prefix=False)),
    "byte-level-prefix": cache(lambda: byte_level(prefix=True)),
}
