"""Which right answers are also written as was asked: a model that learns from the others learns their ways."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from pasta.tasks.marking import FENCE
from pasta.tasks.numbers import STATED

CODE = re.compile(r"```|\bpython\b", re.IGNORECASE)
LATEX = re.compile(r"\\[\[(]|\\boxed")
#: What a module may hold beside its functions: nothing that does something by itself when it is run.
QUIET = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


def misses(row: Mapping[str, Any]) -> str | None:
    """What an answer (`code`, `style`, `text`) does that it was not asked to; None where it is as it should be."""
    text = row["text"]
    if row["code"]:
        return None if is_functions_alone(text) else "code that runs by itself"
    if CODE.search(text):  # the output that such answers show is made up: nothing was run
        return "a program for a sum"
    if row["style"] == "brief" and not is_brief(text):
        return "not brief"
    return None


def is_brief(text: str) -> bool:
    """Calculations alone, one a line: each line has a number, one before the answer comes to something."""
    lines = [line for line in STATED.sub("", text).splitlines() if line.strip()]
    has_numbers = all(re.search(r"\d", line) for line in lines)
    return has_numbers and any("=" in line for line in lines) and not LATEX.search(text)


def is_functions_alone(text: str) -> bool:
    """Whether the first block of code defines things and does nothing else: no tests, no prints."""
    found = FENCE.findall(text)
    try:
        body = ast.parse(found[0] if found else text).body
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.FunctionDef) for node in body) and all(
        isinstance(node, QUIET) or is_docstring(node) for node in body
    )


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
