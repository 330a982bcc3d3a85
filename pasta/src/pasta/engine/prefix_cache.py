"""The beginnings of prompts whose keys and values are still in the pool, for the next request that begins alike.

Cached are whole blocks of tokens that stand at their own place and see all before them and nothing else: a prompt, and
an answer up to its first fork. Their keys and values are what a fresh prefill would compute, whoever computed them.
What a fork wrote is never cached: as part of the next prompt it stands at other positions and sees other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Key = tuple[str, tuple[int, ...]]  # a salt and a block's tokens: compared to the letter, never by a hash alone


@dataclass(slots=True, eq=False)
class Node:
    """A block that is cached, and the cached blocks that were seen right after it."""

    block: int
    key: Key
    siblings: dict[Key, Node]  # the node's own place in the tree
    children: dict[Key, Node] = field(default_factory=dict)


class PrefixCache:
    """A tree of blocks. Requests of different salts see nothing of each other's."""

    def __init__(self, block_size: int):
        self._block_size = block_size
        self._roots: dict[Key, Node] = {}
        self._nodes: dict[int, Node] = {}  # by block

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, block: int) -> bool:
        return block in self._nodes

    def find(self, cache_salt: str, prompt: Sequence[int]) -> list[int]:
        """The blocks that hold a prompt's beginning. Its last token is always left, to decode after it."""
        blocks = []
        level = self._roots
        for key in self._keys(cache_salt, prompt[: len(prompt) - 1]):
            node = level.get(key)
            if node is None:
                break
            blocks.append(node.block)
            level = node.children
        return blocks

    def insert(self, cache_salt: str, tokens: Sequence[int], blocks: Sequence[int]) -> None:
        """Caches the blocks that these tokens fill; where the same tokens are cached already, those blocks stay."""
        level = self._roots
        for key, block in zip(self._keys(cache_salt, tokens), blocks, strict=False):
            if key not in level:
                level[key] = self._nodes[block] = Node(block, key, level)
            level = level[key].children

    def evict(self, block: int) -> list[int]:
        """Forgets a block and those below it, which nobody can find without it. Returns them all."""
        node = self._nodes[block]
        del node.siblings[node.key]
        gone = [node]
        for each in gone:
            gone += each.children.values()
            del self._nodes[each.block]
        return [each.block for each in gone]

    def _keys(self, cache_salt: str, tokens: Sequence[int]) -> Iterator[Key]:
        size = self._block_size
        for end in range(size, len(tokens) + 1, size):
            yield cache_salt, tuple(tokens[end - size : end])
