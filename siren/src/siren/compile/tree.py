"""All tapes of one structure as a tree that branches at decisions, and the Python function that it becomes.

The function runs the operations and follows the decisions. It changes nothing until it has reached the end of
a known path; there it puts the new state in place. On a decision that no tape has made so far it returns
None, and nothing has happened but draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from siren.compile.branch import Branch, Leaf
from siren.compile.carry import Carried, find_carried
from siren.compile.facts import Fact
from siren.compile.invariants import Invariants, check, find_invariants
from siren.compile.recorder import OPERATORS
from siren.compile.state import Places
from siren.compile.tape import (
    DRAW,
    INPUT,
    METHOD,
    REDUCE,
    RESAMPLE,
    UFUNC,
    Decision,
    Operation,
    Slot,
    Untraceable,
)
from siren.inference.graph import Mixed, Node
from siren.runtime.values import NIL, Cons
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Op, Poly, Variable

# What a number may turn out to be before we stop following it.
_MOST_OUTCOMES: Final = 4
_EFFECTS: Final = (DRAW, RESAMPLE)


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
        emitter = _Emitter(self.constants, self.sources)
        self.source = emitter.function(self.root, find_invariants(self.root, plausible))
        space: dict[str, Any] = {**_NAMES, **self.constants, **emitter.functions}
        exec(compile(self.source, "<compiled step>", "exec"), space)
        self.run = space["step"]


def reading(tree: Tree, inputs: list[Operation]) -> Callable[..., Any]:
    """A function from a row and an accumulator to these inputs."""
    emitter = _Emitter(tree.constants, tree.sources)
    values = ", ".join(emitter.input(operation) for operation in inputs)
    return emitter.made("row, accumulator, interpreter, engine, graph, scope", [f"return ({values},)"])


def writing(tree: Tree, leaf: Leaf) -> Callable[..., Any]:
    """A function that puts the state at the end of a path in place, given the values of its slots."""
    emitter = _Emitter(tree.constants, tree.sources)
    lines = [f"v{slot} = values[{slot}]" for slot in sorted(leaf.uses)]
    lines += [*leaf.lines, f"return {leaf.result}"]
    for line in lines:
        emitter.use(line)
    return emitter.made("row, accumulator, interpreter, engine, graph, scope, values", lines)


def _miss(*args: Any) -> None:
    return None


def put(array: Any, index: Any, value: Any) -> Any:
    array[index] = value
    return array


_NAMES: Final = {
    "Column": Column, "Poly": Poly, "Op": Op, "Cons": Cons, "NIL": NIL, "Variable": Variable,
    "Node": Node, "Mixed": Mixed, "Dist": Dist, "put": put, "inf": math.inf, "nan": math.nan,
}  # fmt: skip


class _Emitter:
    """Writes the function of a tree."""

    def __init__(self, constants: dict[str, Any], sources: dict[str, str]) -> None:
        self.constants = constants
        self.sources = sources
        self.functions: dict[str, Any] = {}
        self._carried: tuple[int, ...] = ()
        self._answered: frozenset[int] = frozenset()
        self._steady = False
        self._needed: set[int] = set()
        self._places: dict[str, None] = {}
        self._numbers: dict[str, str] = {}

    def function(self, root: Branch, invariants: Invariants) -> str:
        self._answered = invariants.answered
        self._steady = bool(invariants.facts)
        carried = find_carried(root)
        self._carried = carried.slots
        live = self._mark(root) | {slot for _, slot in invariants.facts}
        live |= {operation.out for operation in carried.inputs}
        inputs = [op for op in root.operations if op.form == INPUT and op.out in live]
        body = [f"    v{op.out} = {self._operation(op)}" for op in inputs]
        self._needed -= {id(op) for op in inputs}
        arrays = {op.out for op in inputs if op.array}
        body += [*self._entry(carried, invariants, arrays), *self._branch(root, 1)]
        head = ["def step(row, accumulator, carried, interpreter, engine, graph, scope, rng):"]
        head += [f"    {place} = {self.sources[place]}" for place in self._places]
        return "\n".join([*head, *body, ""])

    def _entry(self, carried: Carried, invariants: Invariants, arrays: set[int]) -> Iterator[str]:
        """Have what is carried from the step before; at first, see to the invariants and work it out."""
        if not carried.slots and not invariants.facts:
            return
        self.functions |= {"minimum_reduce": np.minimum.reduce, "maximum_reduce": np.maximum.reduce}
        yield "    if carried is None:"
        for fact in sorted(invariants.facts):
            yield f"        if not {check(fact, fact[1] in arrays)}:"
            yield "            return None"
        for operation in carried.operations:
            yield f"        v{operation.out} = {self._operation(operation)}"
        if carried.slots:
            yield "    else:"
            yield f"        {''.join(f'v{slot}, ' for slot in carried.slots)} = carried"

    def _mark(self, branch: Branch) -> set[int]:
        """The slots that a branch needs from before; `_needed` gets the operations it needs."""
        live: set[int] = set()
        if branch.leaf is not None:
            live |= branch.leaf.uses
            if self._carried and branch.leaf.unchanged:
                live |= {branch.leaf.ancestors}  # type: ignore[arg-type]
        for child in branch.children.values():
            live |= self._mark(child)
        if branch.question is not None and id(branch) not in self._answered:
            live.add(branch.question[0])
        for operation in reversed(branch.operations):
            if operation.out in self._carried:
                continue
            if operation.out in live or operation.form in _EFFECTS:
                self._needed.add(id(operation))
                live |= operation.slots()
        return live

    def _branch(self, branch: Branch, depth: int) -> Iterator[str]:
        margin = "    " * depth
        for operation in branch.operations:
            if id(operation) in self._needed:
                yield f"{margin}v{operation.out} = {self._operation(operation)}"
        if branch.leaf is not None:
            again = "()" if self._steady and branch.leaf.follows is not None else "None"
            if self._carried:
                again = "None"
            if self._carried and branch.leaf.unchanged:
                again = f"({''.join(f'v{slot}.take(v{branch.leaf.ancestors}), ' for slot in self._carried)})"
            for line in (*branch.leaf.lines, f"return {branch.leaf.result}, {again}"):
                self.use(line)
                yield margin + line
            return
        assert branch.question is not None
        slot, _ = branch.question
        # The last outcome goes on at the same depth, so that a long path is not deep.
        *nested, (last, rest) = branch.children.items()
        for outcome, child in nested:
            yield f"{margin}if {_test(slot, outcome)}:"
            yield from self._branch(child, depth + 1)
        if id(branch) not in self._answered:
            yield f"{margin}if {_test(slot, last, negated=True)}:"
            yield f"{margin}    return None"
        yield from self._branch(rest, depth)

    def input(self, operation: Operation) -> str:
        self.use(operation.function)
        return str(operation.function)

    def made(self, parameters: str, lines: list[str]) -> Callable[..., Any]:
        head = [f"def made({parameters}):", *(f"    {p} = {self.sources[p]}" for p in self._places)]
        space: dict[str, Any] = {**_NAMES, **self.constants}
        exec("\n".join([*head, *(f"    {line}" for line in lines)]), space)
        return space["made"]  # type: ignore[no-any-return]

    def use(self, line: str) -> None:
        """Have the places in a line named at the head of the function."""
        for word in _words(line):
            if word in self.sources and word not in self._places:
                self.use(self.sources[word])
                self._places[word] = None

    def _operation(self, operation: Operation) -> str:
        function, arguments = operation.function, [self._argument(arg) for arg in operation.arguments]
        keywords = [f"{key}={self._argument(value)}" for key, value in operation.keywords]
        if operation.form == INPUT:
            self.use(function)
            return str(function)
        if operation.form == UFUNC:
            if operation.array == "f" and function in OPERATORS:
                arguments = [self._quick(arg) for arg in operation.arguments]
            if function in OPERATORS and len(arguments) == 2:
                return f"{arguments[0]} {OPERATORS[function][0]} {arguments[1]}"
            return f"{self._function(function)}({', '.join(arguments)})"
        if operation.form == REDUCE:
            self.functions[f"{function.__name__}_reduce"] = function.reduce
            return f"{function.__name__}_reduce({arguments[0]})"
        if operation.form == METHOD and function == "put":
            return f"put({', '.join(arguments)})"
        if operation.form == METHOD:
            first, *rest = arguments
            return f"{first}.size" if function == "size" else f"{first}.{function}({', '.join(rest)})"
        if operation.form == DRAW:
            return f"rng.{function}({', '.join([*arguments, *keywords])})"
        if operation.form == RESAMPLE:
            return (
                f"interpreter.population.choose({arguments[0]})"
                if function == "choose"
                else f"{arguments[0]}.{function}"
            )
        return f"{self._function(function)}({', '.join([*arguments, *keywords])})"

    def _function(self, function: Any) -> str:
        name = f"{function.__name__}_"
        self.functions[name] = function
        return name

    def _quick(self, value: Any) -> str:
        """A constant beside an array: NumPy takes an array of no dimension more quickly than a number."""
        if isinstance(value, Slot):
            return f"v{value.number}"
        name = f"c{len(self._numbers)}"
        name = self._numbers.setdefault(repr(float(value)), name)
        self.functions[name] = np.array(float(value))
        return name

    def _argument(self, value: Any) -> str:
        if isinstance(value, Slot):
            return f"v{value.number}"
        if isinstance(value, (type, np.dtype)):
            name = f"dtype_{np.dtype(value).name}"
            self.functions[name] = np.dtype(value)
            return name
        return repr(value)  # of numbers that are not finite: the names below


def _test(slot: int, outcome: bool | int | float, negated: bool = False) -> str:
    if type(outcome) is bool:
        return f"v{slot}" if outcome is not negated else f"not v{slot}"
    return f"v{slot} {'!=' if negated else '=='} {outcome!r}"


def _words(line: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in line).split()
