"""PASTA-LANG as text: syntax tree, incremental parser, printer, checker, statistics.

The language is specified in `docs/language.md`. Nothing here needs more than Python's standard library.
"""

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
    topic_problem,
)
from pasta.lang.checker import MIN_BLOCK_WORDS, check, estimate
from pasta.lang.diagnostics import RULES, Diagnostic, Edit, Fix
from pasta.lang.errors import LangError
from pasta.lang.fixer import fix
from pasta.lang.parser import Parser, parse
from pasta.lang.printer import main_thread, plain, plain_text, print_response
from pasta.lang.statistics import Statistics, TokenCounter, statistics
from pasta.lang.tags import escape, unescape

__all__ = [
    "MAX_DEPTH",
    "MAX_TOKENS",
    "MAX_TOPIC_WORDS",
    "MIN_BLOCK_WORDS",
    "MIN_TOKENS",
    "RULES",
    "Diagnostic",
    "Edit",
    "Fix",
    "LangError",
    "Node",
    "Parser",
    "Promise",
    "Response",
    "Span",
    "Statistics",
    "Sync",
    "Text",
    "TokenCounter",
    "check",
    "escape",
    "estimate",
    "fix",
    "is_topic_character",
    "main_thread",
    "parse",
    "plain",
    "plain_text",
    "print_response",
    "statistics",
    "topic_problem",
    "unescape",
]
