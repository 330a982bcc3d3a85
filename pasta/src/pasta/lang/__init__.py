"""PASTA-LANG as text: syntax tree, incremental parser, printer, checker, statistics."""

from pasta.lang.ast import Node, Promise, Response, Span, Sync, Text
from pasta.lang.errors import LangError

__all__ = ["LangError", "Node", "Promise", "Response", "Span", "Sync", "Text"]
