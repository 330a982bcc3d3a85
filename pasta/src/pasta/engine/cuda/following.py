"""Rows that follow: a thread's next token is in a step before the host has read it.

A step may be launched while the one before it runs. What the host knows of a thread that simply goes on, its place,
position and segment, stands in the plan; its token is the one that its row of the step before chose. That, and what the
grammar allows after it, is filled in on the device.

The host reads the tokens later, and asks of each row that followed whether it is what the interpreter put. Where it is
not (the thread waits, lost its turn, or ended) nobody sees the row, nor what was decided after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl

from pasta.core.grammar import MAX_TOPIC_TOKENS, Expect, Grammar
from pasta.engine.request import OVER, Row

ROWS = 1 << 16  # of a step
PROMISE, LENGTH, SPACE = 1, 2, 4  # bits of a token's kind: the tags, and that it ends with a space
_PROMISE, _LENGTH, _SPACE = tl.constexpr(PROMISE), tl.constexpr(LENGTH), tl.constexpr(SPACE)
_TOPIC_START, _TOPIC_SPACE = tl.constexpr(int(Expect.TOPIC_START)), tl.constexpr(int(Expect.TOPIC_SPACE))
_TOPIC, _LAST = tl.constexpr(int(Expect.TOPIC)), tl.constexpr(int(Expect.LENGTH))


class Board:
    """By row: the tokens that a step chose, for the next one; and for its own choice what may come next."""

    def __init__(self, grammar: Grammar | None, tokens: int, device: torch.device):
        self.chosen = torch.zeros(ROWS, dtype=torch.int64, device=device)
        self.states = torch.zeros(ROWS, dtype=torch.int32, device=device)
        self.forced = torch.full((ROWS,), -1, dtype=torch.int32, device=device)
        kinds = kinds_of(grammar, tokens)
        self.kinds = kinds.tobytes()  # is read number by number faster than an array
        self._kinds = torch.from_numpy(kinds).to(device)

    def follow(self, tokens: torch.Tensor, states: torch.Tensor, forced: torch.Tensor) -> None:
        """Fills in the tokens and the states of the rows that follow: `token` -1 - r follows row r."""
        rows = tokens.shape[0]
        _follow[(triton.cdiv(rows, 1024),)](
            tokens, states, forced, self.chosen, self._kinds, self.states, self.forced, rows, BLOCK=1024
        )


def kinds_of(grammar: Grammar | None, tokens: int) -> np.ndarray:
    kinds = np.zeros(tokens, dtype=np.uint8)
    if grammar is not None:
        kinds[: len(grammar.ends_in_space)] |= np.where(grammar.ends_in_space, np.uint8(SPACE), np.uint8(0))
        kinds[grammar.tags.promise] |= PROMISE
        kinds[list(grammar.tags.lengths)] |= LENGTH
    return kinds


def packed(before: int, *, child: bool, promise: bool, topic: int) -> int:
    """What the device must know to say what comes after a token: what it was chosen under, its topic and thread."""
    if before < Expect.TOPIC_START:
        return before
    home = Expect.text(child=child, promise=promise, sync=True)
    return before | home << 4 | (topic + 1 >= MAX_TOPIC_TOKENS) << 8


def state_after(before: int, token: int, kinds: Sequence[int]) -> int:
    """What may come after a token that was chosen under `before`, as it was packed. The kernel's twin."""
    kind, state = kinds[token], before & 15
    if state < Expect.TOPIC_START:
        return int(Expect.TOPIC_START) if kind & PROMISE else state
    if kind & LENGTH:
        return before >> 4 & 15
    if before >> 8 & 1:
        return int(Expect.LENGTH)
    return int(Expect.TOPIC_SPACE if kind & SPACE else Expect.TOPIC)


@triton.jit
def _follow(tokens, states, forced, chosen, kinds, all_states, all_forced, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    token = tl.load(tokens + row, mask=real, other=0)
    state = tl.load(states + row, mask=real, other=0)
    follows = real & (token < 0)
    token = tl.load(chosen + (-1 - token), mask=follows, other=0).to(tl.int32)
    kind = tl.load(kinds + token, mask=follows, other=0).to(tl.int32)
    before = state & 15
    topic = tl.where((kind & _SPACE) != 0, _TOPIC_SPACE, _TOPIC)
    topic = tl.where(((state >> 8) & 1) != 0, _LAST, topic)
    topic = tl.where((kind & _LENGTH) != 0, (state >> 4) & 15, topic)
    text = tl.where((kind & _PROMISE) != 0, _TOPIC_START, before)
    after = tl.where(before >= _TOPIC_START, topic, text)
    state = tl.where(follows, after, state)
    tl.store(tokens + row, token, mask=follows)
    tl.store(states + row, state, mask=follows)
    tl.store(all_states + row, state, mask=real)
    tl.store(all_forced + row, tl.load(forced + row, mask=real, other=-1), mask=real)


@dataclass(slots=True, eq=False)
class Follower(Row):
    """A row that follows, until the interpreter says whether it was right.

    `expect` is packed until then: what its token was chosen under. Until that is read, the token is -1 - r, of row r of
    the step before.
    """

    expected: bool = False  # of a thread that forks or joins, if another's token says so

    def confirm(self, token: int, position: int, segment: int, expect: Expect | None, kinds: Sequence[int]) -> bool:
        """Whether it is this token that was put. From then on it is a row like any other."""
        right = self.token == token and self.position == position and self.segment == segment
        right = right and (expect is None or expect == state_after(self.expect, token, kinds))
        self.expect = expect if right and expect is not None else OVER
        return right
