"""PASTA: a language model marks the independent parts of its answer; they are decoded at the same time."""

from pasta._version import __version__

__all__ = ["__version__"]
