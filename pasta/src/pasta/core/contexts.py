"""Contexts that begin alike, as one tree of tokens: what layout `stitched` is made of.

In this layout every context is ordinary text: the keys and values of a token are a function of the tokens before it
and of nothing else. Contexts therefore share all that they begin with, as they do in a server's prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable

START = -1  # the place before every text


class Contexts:
    """Places in a tree: each holds a token, after all those above it."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self._parents: list[int] = []
        self._below: dict[tuple[int, int], int] = {}

    def put(self, place: int, token: int) -> int:
        """The place right below `place` that holds this token, made where it is new."""
        known = self._below.setdefault((place, token), len(self.tokens))
        if known == len(self.tokens):
            self.tokens.append(token)
            self.depths.append(0 if place == START else self.depths[place] + 1)
            self._parents.append(place)
        return known

    def put_all(self, place: int, tokens: Iterable[int]) -> int:
        for token in tokens:
            place = self.put(place, token)
        return place

    def segments(self) -> tuple[list[int], list[int]]:
        """The segment of each place, and the bit set of the segments that each segment sees.

        A segment is a run of places made one after another, none of them a fork but the last.
        """
        below = [0] * (len(self.tokens) + 1)
        for parent in self._parents:
            below[parent] += 1
        segments: list[int] = []
        sees: list[int] = []
        for place, parent in enumerate(self._parents):
            if parent != START and parent == place - 1 and below[parent] == 1:
                segments.append(segments[parent])
                continue
            seen = 0 if parent == START else sees[segments[parent]]
            segments.append(len(sees))
            sees.append(seen | 1 << len(sees))
        return segments, sees
