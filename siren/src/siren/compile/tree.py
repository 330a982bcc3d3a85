"""All tapes of one structure as a tree that branches at decisions, and the Python function that it becomes.

The function runs the operations and follows the decisions. It changes nothing until it has reached the end of
a known path; there it puts the new state in place. On a decision that no tape has made so far it returns
None, and nothing has happened but draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from siren.compile.branch import Branch, Leaf
from siren.compile.emitter import NAMES, Emitter
from siren.compile.facts import Fact
from siren.compile.invariants import find_invariants
from siren.compile.state import Places
from siren.compile.tape import Decision, Operation, Untraceable

# What a number may turn out to be before we stop following it.
_MOST_OUTCOMES: Final = 4


class Tree:
    """`run(row, accumulator, carried, ...)` gives the next accumulator, the key of the state after, and what
    the next step of this tree may use again; or None."""

    def __init__(self) -> None:
        self.root = Branch()
        self.constants: dict[str, Any] = {}
        self.paths = 0
        self.source = ""
        self.sources: dict[str, str] = {}
        self.run: Callable[..., Any] = _miss
        self.loop: Any = None  # on a device, once somebody asks for it
        # What has been so of the inputs at every step that was traced.
        self._plausible: set[Fact] | None = None

    def add(self, path: list[Operation | Decision], leaf: Leaf, places: Places, plausible: set[Fact]) -> None:
        branch, i = self.root, 0
        known = branch.operations
        started = self.paths > 0
        for entry in path:
            if isinstance(entry, Operation):
                if started:
                    if i >= len(known) or known[i].key != entry.key or known[i].out != entry.out:
                        raise Untraceable("a step that is not the same when it is run again")
                    i += 1
                else:
                    known.append(entry)
                continue
            question = entry.slot, entry.kind
            if branch.question is None:
                branch.question = question
            if branch.question != question or (started and i != len(known)):
                raise Untraceable("a step that is not the same when it is run again")
            started = entry.outcome in branch.children
            branch = branch.children.setdefault(entry.outcome, Branch())
            known, i = branch.operations, 0
        branch.leaf = leaf
        self.paths += 1
        self.loop = None
        self.sources |= places.sources
        self._plausible = plausible if self._plausible is None else self._plausible & plausible
        self._compile(self._plausible)

    def too_wide(self) -> bool:
        todo = [self.root]
        while todo:
            branch = todo.pop()
            if len(branch.children) > _MOST_OUTCOMES:
                return True
            todo += branch.children.values()
        return False

    def _compile(self, plausible: set[Fact]) -> None:
        emitter = Emitter(self.constants, self.sources)
        self.source = emitter.function(self.root, find_invariants(self.root, plausible))
        space: dict[str, Any] = {**NAMES, **self.constants, **emitter.functions}
        exec(compile(self.source, "<compiled step>", "exec"), space)
        self.run = space["step"]


def reading(tree: Tree, inputs: list[Operation]) -> Callable[..., Any]:
    """A function from a row and an accumulator to these inputs."""
    emitter = Emitter(tree.constants, tree.sources)
    values = ", ".join(emitter.input(operation) for operation in inputs)
    return emitter.made("row, accumulator, interpreter, engine, graph, scope", [f"return ({values},)"])


def writing(tree: Tree, leaf: Leaf) -> Callable[..., Any]:
    """A function that puts the state at the end of a path in place, given the values of its slots."""
    emitter = Emitter(tree.constants, tree.sources)
    lines = [f"v{slot} = values[{slot}]" for slot in sorted(leaf.uses)]
    lines += [*leaf.lines, f"return {leaf.result}"]
    for line in lines:
        emitter.use(line)
    return emitter.made("row, accumulator, interpreter, engine, graph, scope, values", lines)


def _miss(*args: Any) -> None:
    return None
