"""APAR's way: fork, and never join. The same annotated answers, without their syncs, train a model of that kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pasta.data.fields import read_example, replaced
from pasta.data.rows import check_target, read_rows, write_rows
from pasta.errors import UsageError
from pasta.lang import LangError, Node, Promise, Response, Sync, parse, print_response
from pasta.outputs import check_apart


def without_syncs(annotated: str) -> tuple[str, int]:
    """The same answer, to the letter, whose threads never wait for each other; and how many syncs it had."""
    removed = 0

    def kept(nodes: Iterable[Node]) -> list[Node]:
        nonlocal removed
        out: list[Node] = []
        for node in nodes:
            if isinstance(node, Sync):
                removed += 1
            elif isinstance(node, Promise) and node.block is not None:
                out.append(Promise(node.topic, node.tokens, tuple(kept(node.block))))
            else:
                out.append(node)
        return out

    nodes = kept(parse(annotated).nodes)
    return print_response(Response(tuple(nodes))), removed


def write_without_syncs(source: str, target: str) -> int:
    """Rewrites the answers of a file that `pasta annotate` made; returns how many syncs there were."""
    check_apart(target, [source])
    check_target(target)
    total = 0

    def rewritten() -> Iterable[dict[str, Any]]:
        nonlocal total
        for number, row in enumerate(read_rows(source), start=1):
            example = read_example(number, row)
            if isinstance(example, str):
                raise UsageError(f"{source}: row {number}: {example}")
            try:
                response, removed = without_syncs(example.text)
            except LangError as error:
                raise UsageError(f"{source}: row {number}: {error}") from None
            total += removed
            yield replaced(row, response)

    write_rows(target, rewritten())
    return total
