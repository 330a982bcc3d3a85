"""PASTA: a language model marks the independent parts of its answer; they are decoded at the same time.

from pasta import load, generate, stream

model = load()
print(generate(model, "Compare three sorting algorithms.").text)
"""

from typing import TYPE_CHECKING, Any

from pasta._version import __version__
from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.decode import generate, generate_all, replay, stream
    from pasta.engine.connect import connect
    from pasta.engine.load import load
    from pasta.result import Result

__all__ = ["PastaError", "Result", "__version__", "connect", "generate", "generate_all", "load", "replay", "stream"]

# Looked up on first use: `import pasta.lang` needs no torch.
_HOMES = {
    "Result": "pasta.result",
    "connect": "pasta.engine.connect",
    "generate": "pasta.decode",
    "generate_all": "pasta.decode",
    "load": "pasta.engine.load",
    "replay": "pasta.decode",
    "stream": "pasta.decode",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pasta' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
