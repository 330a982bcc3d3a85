"""Runs the steps of a fold: compiled where their structure is known, by the interpreter elsewhere.

A step is a transaction. A compiled step that meets something new has changed nothing but the generator, which
is set back, and the step is run again: by the tracer, which makes a tape of it and throws its results away,
and then from the tape. Where the tracer fails, the interpreter runs the step, and reports what is wrong with
it if something is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

from siren.compile.state import Reader, Unread
from siren.compile.tape import Untraceable
from siren.compile.trace import trace
from siren.compile.tree import Tree
from siren.inference.engine import Engine
from siren.runtime.values import Value
from siren.syntax import ast
from siren.syntax.memo import Memo

# A structure is worth a tape when it is met again.
_HOT: Final = 2
# A fold is left to the interpreter when tracing fails this often, or when after so many tapes fewer steps
# than this have been run from each.
_MOST_FAILURES: Final = 3
_TRIALS: Final = 16
_WORTH: Final = 4

Body = Callable[[Value, Value], Value]


class Structure:
    """Stands for a key, which is long, and slow to look up."""

    __slots__ = ()


class Compiled:
    """The trees of one fold under one plan, method and number of particles. They outlive a run."""

    def __init__(self) -> None:
        self.structures: dict[Hashable, Structure] = {}
        self.trees: dict[Hashable, Tree] = {}
        self.visits: dict[Hashable, int] = {}
        self.tapes = 0
        self.hits = 0
        self.whole_lists = False
        self.failures = 0
        self.reasons: list[str] = []

    def structure(self, key: Hashable) -> Structure:
        return self.structures.setdefault(key, Structure())

    @property
    def hopeless(self) -> bool:
        tries = self.tapes + self.failures
        return self.failures >= _MOST_FAILURES + self.hits // 16 or (
            tries >= _TRIALS and self.hits < _WORTH * tries
        )


_MEMO: Final = Memo()


def compiled(program: ast.Program, about: Hashable) -> Compiled:
    """What is compiled of a program so far."""
    found: Compiled = _MEMO.of(program).setdefault(about, Compiled())
    return found


class Interpreter(Protocol):
    """What runs steps without compiling them."""

    engine: Engine
    population: Any

    def skipped(self, datum: str) -> None: ...


class Steps:
    """The steps of one fold in one run. `body` is the interpreter's step; `shared` says that somebody reads
    the state between steps."""

    def __init__(self, compiled: Compiled, interpreter: Interpreter, body: Body, shared: bool) -> None:
        self.compiled = compiled
        self.interpreter = interpreter
        self.engine = interpreter.engine
        self.body = body
        self.shared = shared
        # The structure of the present state, unless somebody else may have changed it.
        self._structure: Structure | None = None
        # What the last step has worked out for the next, and the tree that can use it.
        self._carried: tuple[Tree, Any] | None = None

    def step(self, row: Value, accumulator: Value) -> Value:
        tree = self._tree(row, accumulator)
        if tree is None:
            return self.body(row, accumulator)
        carried = self._carried[1] if self._carried is not None and self._carried[0] is tree else None
        outcome = self._run(tree, row, accumulator, carried)
        if outcome is not None:
            self.compiled.hits += 1
        else:
            self.compiled.tapes += 1
            outcome = self._learn(tree, row, accumulator)
        self._structure = self._carried = None
        if outcome is None:
            return self.body(row, accumulator)
        accumulator, structure, carried = outcome
        if not self.shared:
            self._structure, self._carried = structure, (tree, carried)
        return accumulator

    def run_ahead(self, rows: list[Value], accumulator: Value) -> tuple[int, Value]:
        """As many of these rows as the device can do, and the accumulator after them."""
        from siren.compile.device import CHUNK, Loop

        population = self.interpreter.population
        tree = self._tree(rows[0], accumulator)
        if tree is None or not tree.paths or not population.always or population.recorded:
            return 0, accumulator
        if tree.loop is None:
            try:
                tree.loop = Loop(tree, population.scheme, self.engine.graph.scope.size)
            except Untraceable as reason:
                self.compiled.reasons.append(str(reason))
                tree.loop = False
        if not tree.loop:
            return 0, accumulator
        return tree.loop.run(self.interpreter, rows[:CHUNK], accumulator)  # type: ignore[no-any-return]

    def _tree(self, row: Value, accumulator: Value) -> Tree | None:
        """The tree of the present structure, if there is one, or will be."""
        compiled, structure = self.compiled, self._structure
        kind: Hashable = "number" if type(row) is float else None
        tree = compiled.trees.get((structure, kind)) if structure is not None and kind is not None else None
        if tree is not None:
            return tree
        if compiled.hopeless or not self.engine.graph.at_top:
            self._structure = None
            return None
        structure = structure or self._read(lambda reader: reader.read(accumulator))
        kind = kind or self._read(lambda reader: reader.read_row(row))
        if structure is None or kind is None:
            return None
        tree = compiled.trees.get((structure, kind))
        if tree is None:
            visits = compiled.visits[structure, kind] = compiled.visits.get((structure, kind), 0) + 1
            if visits >= _HOT:
                tree = compiled.trees[structure, kind] = Tree()
        self._structure = None
        return tree

    def _read(self, walk: Callable[[Reader], Any]) -> Structure | None:
        reader = Reader(self.engine, self.engine.graph.scope, self.compiled.whole_lists)
        try:
            walk(reader)
        except Untraceable as reason:
            self._fail(reason)
            return None
        return self.compiled.structure(reader.key())

    def _run(self, tree: Tree, row: Value, accumulator: Value, carried: Any) -> Any:
        engine, graph = self.engine, self.engine.graph
        generator, sweeps = engine.rng.bit_generator, graph.sweeps
        before = generator.state
        try:
            outcome = tree.run(
                row, accumulator, carried, self.interpreter, engine, graph, graph.scope, engine.rng
            )
        except Exception:
            outcome = None  # the interpreter will say what is wrong
        if outcome is None:
            generator.state = before
        elif graph.sweeps != sweeps:  # which may have made nodes simpler
            return outcome[0], None, None
        return outcome

    def _learn(self, tree: Tree, row: Value, accumulator: Value) -> Any:
        generator = self.engine.rng.bit_generator
        before = generator.state
        try:
            trace(self.interpreter, self.body, tree, row, accumulator, self.compiled)
        except Unread:
            # The step looks into lists: from now on they are read as a whole.
            self.compiled.trees.clear()
            self.compiled.visits.clear()
            self.compiled.structures.clear()
            if self.compiled.whole_lists:
                self._fail("a list of changing length")
            self.compiled.whole_lists = True
            return None
        except Exception as reason:
            self._fail(reason)
            return None
        finally:
            generator.state = before
        if tree.too_wide():
            self._fail("a number that is different at every step")
            return None
        return self._run(tree, row, accumulator, None)

    def _fail(self, reason: object) -> None:
        self.compiled.failures += 1
        self.compiled.reasons.append(str(reason))
