"""Which particle sits where: resampling and branching as index maps that arrays follow only when they are
read.

A value that differs between particles is an array with one entry per *lane*. Resampling does not touch any
such array. It starts a new `Generation`, and an array of an older generation is gathered the next time it is
read. What is never read again is never copied, so a history of T values costs nothing per step, and an old
generation disappears with the last value that belongs to it, because links point only from old to new.

A `Scope` is a set of lanes that run together. The root scope holds all particles; a branch that only some
particles take runs in a child scope, whose lanes are an index into the lanes of its parent.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Index = NDArray[np.intp]


class Generation:
    """One arrangement of a scope's lanes: `ancestors[i]` is the lane here of which lane i of `next` is a
    copy.
    """

    __slots__ = ("__weakref__", "_route", "_route_end", "ancestors", "next", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.ancestors: Index | None = None
        self.next: Generation | None = None
        self._route: Index | None = None
        self._route_end: Generation | None = None


class Scope:
    """Lanes that run together, and their present generation."""

    __slots__ = ("_alive", "_sweep_at", "index", "now", "parent", "size")

    def __init__(self, size: int, parent: Scope | None = None, index: Index | None = None) -> None:
        self.size = size
        self.parent = parent
        self.index = index
        self.now = Generation(self)
        self._alive: list[weakref.ref[Generation]] = [weakref.ref(self.now)]
        self._sweep_at = 64

    def advance(self, ancestors: Index) -> None:
        """Lane i becomes a copy of lane `ancestors[i]`, here and in the scopes around."""
        if self.parent is not None:
            assert self.index is not None
            outer = np.arange(self.parent.size)
            outer[self.index] = self.index[ancestors]
            self.parent.advance(outer)
        last, self.now = self.now, Generation(self)
        last.ancestors, last.next = ancestors, self.now
        self._alive.append(weakref.ref(self.now))
        if len(self._alive) >= self._sweep_at:
            self._sweep()

    def route(self, generation: Generation) -> Index:
        """The index that brings an array of an earlier generation of this scope to the present one."""
        if generation.next is self.now:  # one resampling ago: nearly always
            assert generation.ancestors is not None
            return generation.ancestors
        path = []
        link: Generation | None = generation
        while link is not self.now and link._route_end is not self.now:  # type: ignore[union-attr]
            path.append(link)
            link = link.next  # type: ignore[union-attr]
        index = None if link is self.now else link._route  # type: ignore[union-attr]
        for earlier in reversed(path):
            assert earlier is not None and earlier.ancestors is not None
            index = earlier.ancestors if index is None else earlier.ancestors.take(index)
            earlier._route, earlier._route_end = index, self.now
        assert index is not None
        return index

    def _sweep(self) -> None:
        """Join generations that hold no value with their predecessor, so that one old value that is never
        read does not keep every later ancestor array.
        """
        chain = [generation for ref in self._alive if (generation := ref()) is not None]
        kept: list[Generation] = chain[:1]
        while len(chain) > 1:
            generation = chain.pop(1)
            # References to a generation that no value holds: its predecessor's `next`, `generation`, the
            # argument.
            if (
                generation is not self.now
                and kept[-1].next is generation
                and sys.getrefcount(generation) <= 3
            ):
                before = kept[-1]
                assert before.ancestors is not None and generation.ancestors is not None
                before.ancestors = before.ancestors.take(generation.ancestors)
                before.next = generation.next
            else:
                kept.append(generation)
        for generation in kept:
            generation._route = generation._route_end = None
        self._alive = [weakref.ref(generation) for generation in kept]
        self._sweep_at = max(64, 2 * len(self._alive))
