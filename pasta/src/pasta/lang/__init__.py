"""PASTA-LANG as text: syntax tree, incremental parser, printer, checker, statistics."""

from pasta.lang.ast import (
    MAX_DEPTH,
    MAX_TOKENS,
    MAX_TOPIC_WORDS,
    MIN_TOKENS,
    Node,
    Promise,
    Response,
    Span,
    Sync,
    Text,
    is_topic_character,
)
from pasta.lang.errors import LangError

__all__ = [
    "MAX_DEPTH",
    "MAX_TOKENS",
    "MAX_TOPIC_WORDS",
    "MIN_TOKENS",
    "LangError",
    "Node",
    "Promise",
    "Response",
    "Span",
    "Sync",
    "Text",
    "is_topic_character",
]
