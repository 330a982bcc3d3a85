"""The beginnings of prompts whose keys and values are still in the pool, for the next request that begins alike.

Kept are whole pages of tokens that stand at their own place and see all before them and nothing else: a prompt, and
an answer up to its first fork. Their keys and values are what a fresh prefill would compute, whoever computed them.
What a fork wrote is never kept: as part of the next prompt it stands at other positions and sees other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Key = tuple[str, tuple[int, ...]]  # a scope and a page's tokens: compared to the letter, never by a hash alone


@dataclass(slots=True, eq=False)
class Node:
    """A page that is kept; below it, the pages that were seen after it."""

    page: int
    key: Key
    siblings: dict[Key, Node]  # it stands there
    below: dict[Key, Node] = field(default_factory=dict)


class Prefixes:
    """A tree of pages. Requests of different scopes see nothing of each other's."""

    def __init__(self, page: int):
        self._size = page  # tokens to a page
        self._first: dict[Key, Node] = {}
        self._nodes: dict[int, Node] = {}  # by page

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, page: int) -> bool:
        return page in self._nodes

    def find(self, scope: str, prompt: Sequence[int]) -> list[int]:
        """The pages that hold a prompt's beginning. Its last token is always left, to decode after it."""
        pages = []
        level = self._first
        for key in self._keys(scope, prompt[: len(prompt) - 1]):
            node = level.get(key)
            if node is None:
                break
            pages.append(node.page)
            level = node.below
        return pages

    def keep(self, scope: str, tokens: Sequence[int], pages: Sequence[int]) -> None:
        """Keeps the pages that these tokens fill; those that are kept already stay as they are."""
        level = self._first
        for key, page in zip(self._keys(scope, tokens), pages, strict=False):
            if key not in level:
                level[key] = self._nodes[page] = Node(page, key, level)
            level = level[key].below

    def forget(self, page: int) -> list[int]:
        """Lets go of a page, and of those below it, which nobody can find without it. Returns them all."""
        node = self._nodes[page]
        del node.siblings[node.key]
        gone = [node]
        for each in gone:
            gone += each.below.values()
            del self._nodes[each.page]
        return [each.page for each in gone]

    def _keys(self, scope: str, tokens: Sequence[int]) -> Iterator[Key]:
        for end in range(self._size, len(tokens) + 1, self._size):
            yield scope, tuple(tokens[end - self._size : end])
