"""What need not be worked out at every step: functions of arrays that a step leaves as they are.

A parameter that was drawn once only ever changes lanes. So its logarithm at the next step is its logarithm at
this one, in other lanes: to follow the lanes costs a tenth of a logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from siren.compile.branch import Branch, Leaf
from siren.compile.tape import INPUT, UFUNC, Operation

# About how long a function takes, where to follow the lanes takes 1.
_COSTS: Final = {np.log: 6.0, np.exp: 6.0, np.sqrt: 1.5, np.divide: 1.5, np.log1p: 8.0}
_OTHER: Final = 0.4


@dataclass(frozen=True, slots=True)
class Carried:
    """The slots that go from step to step, and how they are worked out at first."""

    slots: tuple[int, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[Operation, ...]


def find_carried(root: Branch) -> Carried:
    """Of the operations that every path begins with, those worth carrying."""
    leaves = _leaves(root)
    prefix = _prefix(root)
    again = [leaf.unchanged for leaf in leaves if leaf.unchanged]
    if not again:
        return Carried((), (), ())
    steady = frozenset.intersection(*again)
    costs: dict[int, float] = dict.fromkeys(steady, 0.0)
    derived: dict[int, Operation] = {}
    used: set[int] = set()
    for operation in prefix:
        slots = operation.slots()
        if operation.form == UFUNC and slots and slots <= costs.keys():
            derived[operation.out] = operation
            costs[operation.out] = _COSTS.get(operation.function, _OTHER) + sum(costs[s] for s in slots)
        else:
            used |= slots
    for branch in _after(root):
        used |= {slot for operation in branch.operations for slot in operation.slots()}
    kept = tuple(slot for slot in derived if slot in used and costs[slot] > 1.2)
    needed: dict[int, Operation] = {}
    todo = list(kept)
    while todo:
        slot = todo.pop()
        if slot in derived and slot not in needed:
            needed[slot] = derived[slot]
            todo += derived[slot].slots()
    sources = {slot for operation in needed.values() for slot in operation.slots()}
    inputs = tuple(op for op in prefix if op.form == INPUT and op.out in sources)
    return Carried(kept, tuple(needed[slot] for slot in sorted(needed)), inputs)


def _leaves(branch: Branch) -> list[Leaf]:
    if branch.leaf is not None:
        return [branch.leaf]
    return [leaf for child in branch.children.values() for leaf in _leaves(child)]


def _prefix(branch: Branch) -> list[Operation]:
    """The operations before the first decision that has gone both ways."""
    operations = list(branch.operations)
    while len(branch.children) == 1:
        (branch,) = branch.children.values()
        operations += branch.operations
    return operations


def _after(branch: Branch) -> list[Branch]:
    """The branches after that decision."""
    while len(branch.children) == 1:
        (branch,) = branch.children.values()
    todo, found = list(branch.children.values()), []
    while todo:
        found.append(todo.pop())
        todo += found[-1].children.values()
    return found
