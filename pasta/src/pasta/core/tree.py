"""A response as tokens: each block right after its promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pasta.core.detokenizer import without_lead
from pasta.core.tags import Tags
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError
from pasta.lang import Node, Promise, Response, Sync, Text, is_topic_character


@dataclass(frozen=True, slots=True)
class Block:
    """A child's tokens, `<async>` and `</async>` included; it stands right after its promise."""

    items: tuple[Item, ...]


Item = int | Block
Tree = tuple[Item, ...]  # a thread's tokens, the blocks of its promises among them


def flatten(tree: Tree) -> Iterator[int]:
    """The tokens in merged order."""
    for item in tree:
        if isinstance(item, Block):
            yield from flatten(item.items)
        else:
            yield item


def depth_of(tree: Tree) -> int:
    """How deep blocks lie in each other: 0 without any, 1 where none lies in another."""
    return max((1 + depth_of(item.items) for item in tree if isinstance(item, Block)), default=0)


def threads_of(tree: Tree) -> dict[tuple[int, ...], Sequence[int]]:
    """Each thread's own tokens by its path: what a replay feeds."""
    out: dict[tuple[int, ...], list[int]] = {}

    def walk(items: Tree, path: tuple[int, ...]) -> None:
        tokens = out.setdefault(path, [])
        forks = 0
        for item in items:
            if isinstance(item, Block):
                walk(item.items, (*path, forks))
                forks += 1
            else:
                tokens.append(item)

    walk(tree, ())
    return dict(out)


def spell(response: Response, vocabulary: Vocabulary, prompt: Sequence[int] = ()) -> Tree:
    """A merged response as tokens, in answer to a prompt."""
    tags = require_tags(vocabulary)
    lead = vocabulary.lead(prompt)

    def items(nodes: Sequence[Node]) -> Iterator[Item]:
        for node in nodes:
            match node:
                case Text(text):
                    yield from vocabulary.encode(text)
                case Sync():
                    yield tags.sync
                case Promise(topic, tokens, block):
                    if block is None:
                        raise PastaError(
                            f"the promise of {topic!r} has no block",
                            hint="pass the merged form of the response",
                        )
                    yield from (tags.promise, *vocabulary.encode(topic), tags.of_tens(tokens))
                    yield Block((tags.open, *items(block), tags.close))

    nodes = response.nodes
    if nodes and isinstance(nodes[0], Text):
        nodes = (Text(lead + nodes[0].text), *nodes[1:])
    return tuple(items(nodes))


def read(tree: Tree, vocabulary: Vocabulary, prompt: Sequence[int] = ()) -> Response:
    """A response's tokens as a syntax tree: the inverse of `spell`, up to how text is cut into tokens."""
    tags = vocabulary.tags
    lead = vocabulary.lead(prompt)

    def nodes(items: Sequence[Item]) -> tuple[Node, ...]:
        out: list[Node] = []
        text: list[int] = []  # also the topic, while a promise is open
        topic = ""

        def end_text() -> None:
            if text and (written := vocabulary.decode(text)):
                out.append(Text(written))
            text.clear()

        for index, item in enumerate(items):
            if isinstance(item, Block):
                continue  # read with its promise
            if tags is None or item not in tags:
                text.append(item)
            elif item == tags.promise:
                end_text()
            elif item in tags.length_of:
                topic = _clean(vocabulary.decode(text))
                text.clear()
                block = items[index + 1] if index + 1 < len(items) else None
                body = nodes(block.items) if isinstance(block, Block) else None
                out.append(Promise(topic, tags.in_tens(item), body))
            else:
                end_text()
                if item == tags.sync:
                    out.append(Sync())
        end_text()
        return tuple(out)

    found = nodes(tree)
    begins_with_tag = tags is not None and len(tree) > 0 and tree[0] in tags.all
    if found and isinstance(found[0], Text) and not begins_with_tag:
        found = (Text(without_lead(found[0].text, lead)), *found[1:])
    return Response(found)


def shorten(response: Response, length: int) -> Response:
    """The response up to so many characters of its text: what begins behind them is left out, tags too."""

    def kept(nodes: Sequence[Node]) -> Iterator[Node]:
        nonlocal length
        for node in nodes:
            if length == 0:
                return
            if isinstance(node, Text):
                node = Text(node.text[:length])
                length -= len(node.text)
            elif isinstance(node, Promise) and node.block is not None:
                node = Promise(node.topic, node.tokens, tuple(kept(node.block)))
            yield node

    return Response(tuple(kept(response.nodes)))


def _clean(topic: str) -> str:
    """A topic as the language spells it: tokens of half characters may add up to one that no topic has."""
    return "".join(c if is_topic_character(c) else "\ufffd" for c in topic).strip() or "\ufffd"


def require_tags(vocabulary: Vocabulary) -> Tags:
    if vocabulary.tags is None:
        raise PastaError("this model's tokenizer has no PASTA tags", hint="load it with tags=True, or finetune it")
    return vocabulary.tags
