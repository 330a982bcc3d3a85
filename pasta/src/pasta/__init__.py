"""PASTA: a language model marks the independent parts of its answer; they are decoded at the same time.

from pasta import load, generate, stream

model = load()
print(generate(model, "Compare three sorting algorithms.").text)
"""

from typing import TYPE_CHECKING, Any

from pasta._version import __version__
from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.decoding.api import generate, generate_all, replay, stream
    from pasta.decoding.results import Result
    from pasta.engine.connect import connect
    from pasta.engine.load import load_engine as load

__all__ = ["PastaError", "Result", "__version__", "connect", "generate", "generate_all", "load", "replay", "stream"]

# Looked up on first use: `import pasta.lang` needs no torch. "module" or "module:name".
_HOMES = {
    "Result": "pasta.decoding.results",
    "connect": "pasta.engine.connect",
    "generate": "pasta.decoding.api",
    "generate_all": "pasta.decoding.api",
    "load": "pasta.engine.load:load_engine",
    "replay": "pasta.decoding.api",
    "stream": "pasta.decoding.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pasta' has no attribute {name!r}")
    from importlib import import_module

    module, _, own = _HOMES[name].partition(":")
    return getattr(import_module(module), own or name)
