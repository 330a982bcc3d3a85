"""Writes the Python function of a tree: its operations as NumPy calls, its decisions as branches.

An array is let go when nothing needs it any more, so that the next takes its memory while that is at hand.
Where several are divided by the same array, they are multiplied by its inverse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import numpy as np

from siren.compile.branch import Branch, Leaf
from siren.compile.carry import Carried, find_carried
from siren.compile.invariants import Invariants, check
from siren.compile.recorder import OPERATORS
from siren.compile.tape import DRAW, INPUT, METHOD, REDUCE, RESAMPLE, UFUNC, Operation, Slot
from siren.inference.node import Mixed, Node
from siren.runtime.values import NIL, Cons
from siren.symbolic.dist import Dist
from siren.symbolic.expr import Column, Op, Poly, Variable

_EFFECTS: Final = (DRAW, RESAMPLE)


def put(array: Any, index: Any, value: Any) -> Any:
    array[index] = value
    return array


_ONES: Final = np.ones(1 << 14)


def total(array: Any) -> Any:
    """The sum; of few numbers a product with ones is quicker."""
    size = array.size
    return array.dot(_ONES[:size]) if size <= _ONES.size else np.add.reduce(array)


NAMES: Final = {
    "Column": Column, "Poly": Poly, "Op": Op, "Cons": Cons, "NIL": NIL, "Variable": Variable,
    "Node": Node, "Mixed": Mixed, "Dist": Dist, "put": put, "total": total, "inf": math.inf, "nan": math.nan,
}  # fmt: skip


class Emitter:
    """Writes the function of a tree."""

    def __init__(self, constants: dict[str, Any], sources: dict[str, str]) -> None:
        self.constants = constants
        self.sources = sources
        self.functions: dict[str, Any] = {}
        self._carried: tuple[int, ...] = ()
        self._answered: frozenset[int] = frozenset()
        self._steady = False
        self._needed: set[int] = set()
        # The arrays that an operation is the last to use, and how often each is divided by.
        self._last: dict[int, list[int]] = {}
        self._divisors: Counter[int] = Counter()
        self._made: set[int] = set()
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
        live: set[int] = set(self._carried)
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
                self._last[id(operation)] = sorted(operation.slots() - live)
                live |= operation.slots()
                if operation.array and operation.form != INPUT:
                    self._made.add(operation.out)
                if _divides(operation):
                    self._divisors[operation.arguments[1].number] += 1
        return live

    def _branch(self, branch: Branch, depth: int, inverted: frozenset[int] = frozenset()) -> Iterator[str]:
        margin = "    " * depth
        while True:
            inverted = yield from self._operations(branch, margin, inverted)
            if branch.leaf is not None:
                yield from self._end(branch.leaf, margin)
                return
            assert branch.question is not None
            slot, _ = branch.question
            # The last outcome goes on at the same depth, so that a long path is not deep.
            *nested, (last, rest) = branch.children.items()
            for outcome, child in nested:
                yield f"{margin}if {_test(slot, outcome)}:"
                yield from self._branch(child, depth + 1, inverted)
            if id(branch) not in self._answered:
                yield f"{margin}if {_test(slot, last, negated=True)}:"
                yield f"{margin}    return None"
            branch = rest

    def _operations(
        self, branch: Branch, margin: str, inverted: frozenset[int]
    ) -> Generator[str, None, frozenset[int]]:
        """The operations of one branch; gives the divisors whose inverses have been worked out after it."""
        for operation in branch.operations:
            if id(operation) not in self._needed:
                continue
            divisor = operation.arguments[1].number if _divides(operation) else -1
            if divisor in self._made and self._divisors[divisor] > 1:
                if divisor not in inverted:
                    yield f"{margin}r{divisor} = {self._quick(1.0)} / v{divisor}"
                    inverted |= {divisor}
                yield f"{margin}v{operation.out} = {self._quick(operation.arguments[0])} * r{divisor}"
            else:
                yield f"{margin}v{operation.out} = {self._operation(operation)}"
            done = [f"v{slot}" for slot in self._last[id(operation)] if slot in self._made]
            if done:
                yield f"{margin}del {', '.join(done)}"
        return inverted

    def _end(self, leaf: Leaf, margin: str) -> Iterator[str]:
        again = "()" if self._steady and leaf.follows is not None else "None"
        if self._carried:
            again = "None"
        if self._carried and leaf.unchanged:
            again = f"({''.join(f'v{slot}.take(v{leaf.ancestors}), ' for slot in self._carried)})"
        for line in (*leaf.lines, f"return {leaf.result}, {again}"):
            self.use(line)
            yield margin + line

    def input(self, operation: Operation) -> str:
        self.use(operation.function)
        return str(operation.function)

    def made(self, parameters: str, lines: list[str]) -> Callable[..., Any]:
        head = [f"def made({parameters}):", *(f"    {p} = {self.sources[p]}" for p in self._places)]
        space: dict[str, Any] = {**NAMES, **self.constants}
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
        if operation.form == REDUCE and function is np.add:
            return f"total({arguments[0]})"
        if operation.form == REDUCE:
            self.functions[f"{function.__name__}_reduce"] = function.reduce
            return f"{function.__name__}_reduce({arguments[0]})"
        if (
            function is np.where
            and operation.arguments[1:] in ((1.0, 0.0), (0.0, 1.0))
            and operation.array == "f"
        ):
            self.functions["as_float"] = np.dtype(float)
            number = f"{arguments[0]}.astype(as_float)"  # quicker than to choose
            return number if operation.arguments[1] else f"{self._quick(1.0)} - {number}"
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


def _divides(operation: Operation) -> bool:
    """Whether it divides by an array of floats, or by something that may be one."""
    return (
        operation.form == UFUNC
        and operation.function is np.divide
        and operation.array == "f"
        and isinstance(operation.arguments[1], Slot)
    )
