"""A model, ready to decode: what `load` and `connect` give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pasta.core.vocabulary import Vocabulary
from pasta.decoding import api

if TYPE_CHECKING:
    from pasta.engine.base import Engine


class Model:
    """A model over one engine. Any number of threads and tasks may use it at the same time; they share its steps.

    Its methods are the functions of the same names, with the model as their first argument.

    Example:
        >>> model = pasta.load()
        >>> model.generate("Name three fruits.", max_tokens=64).text
    """

    def __init__(self, engine: Engine):
        self.engine = engine

    def __repr__(self) -> str:
        tags = "decodes in parallel" if self.vocabulary.tags is not None else "has no tags: decodes in one thread"
        return f"<pasta.Model {self.name!r}, context {self.context}, {tags}>"

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def vocabulary(self) -> Vocabulary:
        return self.engine.vocabulary

    @property
    def context(self) -> int:
        """The positions that the model knows."""
        return self.engine.context

    generate = api.generate
    generate_all = api.generate_all
    stream = api.stream
    agenerate = api.agenerate
    astream = api.astream
    replay = api.replay


def load(
    name: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    context: int | None = None,
    slots: int | None = None,
    tags: bool = False,
    base: str | None = None,
) -> Model:
    """Loads a model, ready to decode.

    Args:
        name: A Hugging Face id, a folder (of a model, or of an adapter), a GGUF file; None is the default model,
            finetuned to decode in parallel. Its base by itself is `smollm2-135m-instruct`.
        device: `cpu`, `cuda`, …; None picks a GPU where there is one.
        dtype: `float32`, `bfloat16`, `float16`; None picks float32 on a CPU, the checkpoint's own on a GPU.
            `int8` (on a CPU, or with `device="cuda"`) and `fp8` (on a GPU since 2022) round the weights of the
            projections: half the memory or less, faster on a CPU, and no longer exact.
        context: Use no more positions than this.
        slots: The size of the KV pool in tokens, all requests together; None takes half of a GPU's free memory.
        tags: Give a model that knows no tags untrained ones, so that responses can be replayed on it.
        base: Where an adapter's base model lies, if not where the adapter says.

    Example:
        >>> model = pasta.load()
    """
    from pasta.engine.load import load_engine

    return Model(load_engine(name, device=device, dtype=dtype, context=context, slots=slots, tags=tags, base=base))


def connect(url: str, model: str | None = None, *, key: str = "", context: int | None = None) -> Model:
    """A model on a completions server such as vLLM; or inside vLLM, in this process.

    Args:
        url: The server, up to and including `/v1`. `vllm://FOLDER` starts vLLM here, and decodes exact threads in it.
        model: The folder that the server loaded, for its tokenizer; None where the server says one that is also here.
        key: Sent as a bearer token.
        context: Use no more positions than this.

    Example:
        >>> model = pasta.connect("http://localhost:8000/v1")
    """
    if str(url).startswith("vllm://"):
        from pasta.engine.vllm.core import start_at

        return Model(start_at(url, context=context))
    from pasta.engine.connect import connect_engine

    return Model(connect_engine(url, model, key=key, context=context))
