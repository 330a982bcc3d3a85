"""Writes a syntax tree as text, in its three forms."""

from __future__ import annotations

from collections.abc import Iterable

from pasta.lang.ast import Node, Promise, Response, Sync, Text
from pasta.lang.tags import ASYNC, CLOSE, SYNC, escape, promise_tag


def print_response(response: Response) -> str:
    """The merged form, each promise directly followed by its block. `parse` gives the same tree back."""
    pieces: list[str] = []
    _write(response.nodes, pieces, with_blocks=True)
    return "".join(pieces)


def main_thread(response: Response) -> str:
    """The main-thread form: what the main thread alone writes, the promises without their blocks."""
    pieces: list[str] = []
    _write(response.nodes, pieces, with_blocks=False)
    return "".join(pieces)


def plain(response: Response) -> str:
    """The answer to the letter: every text, no tag, nothing escaped."""
    return plain_text(response.nodes)


def plain_text(nodes: Iterable[Node]) -> str:
    """The plain text of some nodes and of the blocks in them."""
    pieces: list[str] = []
    for node in nodes:
        if isinstance(node, Text):
            pieces.append(node.text)
        elif isinstance(node, Promise):
            pieces.append(plain_text(node.block or ()))
    return "".join(pieces)


def _write(nodes: Iterable[Node], pieces: list[str], *, with_blocks: bool) -> None:
    for node in nodes:
        match node:
            case Text(text):
                pieces.append(escape(text))
            case Sync():
                pieces.append(SYNC)
            case Promise(topic, tokens, block):
                pieces.append(promise_tag(topic, tokens))
                if with_blocks and block is not None:
                    pieces.append(ASYNC)
                    _write(block, pieces, with_blocks=with_blocks)
                    pieces.append(CLOSE)
