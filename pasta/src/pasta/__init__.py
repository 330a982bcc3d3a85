"""PASTA: a language model marks the independent parts of its answer; they are decoded at the same time.

from pasta import load

model = load()
print(model.generate("Compare three sorting algorithms.").text)
"""

from typing import TYPE_CHECKING, Any

from pasta._version import __version__
from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.core.params import SamplingParams
    from pasta.decoding.api import Stream, agenerate, astream, generate, generate_all, replay, stream
    from pasta.decoding.events import StepOutput
    from pasta.decoding.model import Model, connect, load
    from pasta.decoding.results import Result
    from pasta.structured.extract import Extracting, aextract, extract, extract_stream

# Looked up on first use: `import pasta.lang` needs no torch.
_HOMES = {
    "Extracting": "pasta.structured.extract",
    "Model": "pasta.decoding.model",
    "Result": "pasta.decoding.results",
    "SamplingParams": "pasta.core.params",
    "StepOutput": "pasta.decoding.events",
    "Stream": "pasta.decoding.api",
    "aextract": "pasta.structured.extract",
    "agenerate": "pasta.decoding.api",
    "astream": "pasta.decoding.api",
    "connect": "pasta.decoding.model",
    "extract": "pasta.structured.extract",
    "extract_stream": "pasta.structured.extract",
    "generate": "pasta.decoding.api",
    "generate_all": "pasta.decoding.api",
    "load": "pasta.decoding.model",
    "replay": "pasta.decoding.api",
    "stream": "pasta.decoding.api",
}

__all__ = [
    "Extracting",
    "Model",
    "PastaError",
    "Result",
    "SamplingParams",
    "StepOutput",
    "Stream",
    "__version__",
    "aextract",
    "agenerate",
    "astream",
    "connect",
    "extract",
    "extract_stream",
    "generate",
    "generate_all",
    "load",
    "replay",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pasta' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
