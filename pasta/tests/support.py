"""Small real parts for the tests: a byte tokenizer, tiny models, rows to teach them, an engine with a pilot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from pasta.core.grammar import Expect
from pasta.core.tags import TENS
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.request import Request, RequestState
from pasta.decoding.scheduler import Scheduler
from pasta.engine.native import NativeEngine
from pasta.engine.request import Handle, Row
from pasta.models.tags import add_tags

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token; two control tokens, as in ChatML."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", bos_token="<|im_start|>")
    fast.chat_template = CHATML
    return fast


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 258,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}

FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES),
    "gemma": lambda: transformers.GemmaConfig(**SIZES),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=None),
    "phi": lambda: transformers.PhiConfig(**{k: v for k, v in SIZES.items() if k != "head_dim"}),
    "phi3": lambda: transformers.Phi3Config(**SIZES),
    "smollm3": lambda: transformers.SmolLM3Config(**SIZES),
}


WINDOW = 12


def gemma3() -> Any:
    """The composite: a vision tower before a text model with windows."""
    text = transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, **WINDOWS)
    vision = transformers.SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4
    )
    return transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)


WINDOWS: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
QWEN = {**SIZES, "num_hidden_layers": 3, "use_sliding_window": True, **WINDOWS}
# Of each, some or all layers see no more than a window of 12 positions.
WINDOWED: dict[str, Callable[[], Any]] = {
    "mistral-window": lambda: transformers.MistralConfig(**SIZES, sliding_window=WINDOW),
    "phi3-window": lambda: transformers.Phi3Config(**SIZES, sliding_window=WINDOW),
    "qwen2-window": lambda: transformers.Qwen2Config(**QWEN),
    "qwen3-window": lambda: transformers.Qwen3Config(**QWEN),
    "gemma2": lambda: transformers.Gemma2Config(**SIZES, sliding_window=WINDOW, attn_logit_softcapping=5.0),
    "gemma3": gemma3,
    "gpt_oss": lambda: transformers.GptOssConfig(
        **SIZES, sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2, rope_parameters=None
    ),
}


def tiny_model(family: str = "llama", seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config({**FAMILIES, **WINDOWED}[family]())
    for parameter in model.parameters():  # larger weights than at the start of training: decided choices
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    return model.eval()


@dataclass(frozen=True)
class Choice:
    """One choice of a token: whose, the logits before any constraint, and whether the pilot made it."""

    request: Any
    path: tuple[int, ...]
    index: int
    logits: torch.Tensor
    piloted: bool


class PilotedEngine(NativeEngine):
    """Puts the tags where a pilot says, and lets the model choose the rest; keeps every row of logits.

    `pilot(path, index)` gives the token that the thread at `path` puts as its `index`-th choice, or None.
    """

    pilot: Callable[[tuple[int, ...], int], int | None] = staticmethod(lambda path, index: None)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.seen: list[Choice] = []
        self._fed: dict[Handle, int] = {}  # tokens after its beginning: the prompt, or a child's `<async>`

    def feed(self, thread: Handle, token: int, position: int, expect: Expect | None) -> None:
        super().feed(thread, token, position, expect)
        self._fed[thread] = self._fed.get(thread, -1 if thread.path else 0) + 1

    def rewrite(self, thread: Handle, position: int, tokens: Sequence[int]) -> None:
        before = self._fed[thread]
        super().rewrite(thread, position, tokens)
        self._fed[thread] = before  # nothing of this is new

    def choices(self, thread: Handle) -> int:
        """How many choices a thread made before, in this run or before it was computed again."""
        return self._fed.get(thread, 0)

    def _choose(self, logits: torch.Tensor, rows: list[Row]) -> list[int]:
        tokens = super()._choose(logits, rows)
        for index, row in enumerate(rows):
            path, choice = row.handle.path, self.choices(row.handle)
            forced = self.pilot(path, choice)
            self.seen.append(Choice(row.handle.request, path, choice, logits[index].clone(), forced is not None))
            if forced is not None:
                tokens[index] = forced
        return tokens


def tiny_engine(family: str = "llama", *, tags: bool = True, unit: int = TENS, **kwargs: Any) -> PilotedEngine:
    model, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    if tags:
        add_tags(model, vocabulary, unit)
    return PilotedEngine(model, vocabulary, name=f"tiny-{family}", **kwargs)


class Slow(threading.Event):
    """Holds an engine's steps back until it is set."""

    def __init__(self, engine: NativeEngine):
        super().__init__()
        step = engine.step

        def slow() -> Any:
            self.wait(300)
            return step()

        engine.step = slow  # type: ignore[method-assign]


ANSWERS = [
    'Two: <promise topic="{a}" tokens=9/><async>{a} is {a}.</async> '
    '<promise topic="{b}" tokens=1/><async>{b}, yes.</async><sync/> Done {a}.',
    'Say <promise topic="{a}" tokens=1/><async>{a}: <promise topic="in" tokens=1/><async>so {b}</async> and'
    "<sync/> {a}.</async> {b}.",
    "Only {a} and {b}.",
]
COLOURS = ["red", "blue", "green", "white", "black", "pink", "grey", "gold", "teal", "plum", "lime"]


def toy_rows(count: int = 10) -> list[dict[str, str]]:
    """Annotated answers that a tiny model can learn."""
    return [
        {"prompt": f"{a} {b}?", "response": ANSWERS[i % len(ANSWERS)].format(a=a, b=b)}
        for i, (a, b) in enumerate(pairwise(COLOURS[: count + 1]))
    ]


class Stepper(Scheduler):
    """The scheduler, stepped by hand."""

    def submit(self, request: Request, *, watched: bool = True) -> RequestState:
        """It gets its place in the engine at once, where there is one."""
        state = RequestState(request, self.engine, watched=watched)
        self.add(state)
        self._admit()
        return state


def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Waits for it, on the busiest machine."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
