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


class Compiled:
    """The trees of one fold under one plan, method and number of particles. They outlive a run."""

    def __init__(self) -> None:
        self.trees: dict[Hashable, Tree] = {}
        self.visits: dict[Hashable, int] = {}
        self.tapes = 0
        self.hits = 0
        self.whole_lists = False
        self.failures = 0
        self.reasons: list[str] = []

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
        # The key of the present state, unless somebody else may have changed it.
        self._key: Hashable | None = None
        # What the last step has worked out for the next, and the tree that can use it.
        self._carried: tuple[Tree, Any] | None = None

    def step(self, row: Value, accumulator: Value) -> Value:
        if self.compiled.hopeless or not self.engine.graph.at_top:
            return self.body(row, accumulator)
        state = self._key or self._read(lambda reader: reader.read(accumulator))
        kind = "number" if type(row) is float else self._read(lambda reader: reader.read_row(row))
        self._key = None
        if state is None or kind is None:
            return self.body(row, accumulator)
        key = state, kind
        tree = self.compiled.trees.get(key)
        if tree is None:
            visits = self.compiled.visits[key] = self.compiled.visits.get(key, 0) + 1
            if visits < _HOT:
                return self.body(row, accumulator)
            tree = self.compiled.trees[key] = Tree()
        carried = self._carried[1] if self._carried is not None and self._carried[0] is tree else None
        self._carried = None
        outcome = self._run(tree, row, accumulator, carried)
        if outcome is not None:
            self.compiled.hits += 1
        else:
            self.compiled.tapes += 1
            outcome = self._learn(tree, row, accumulator)
        if outcome is None:
            return self.body(row, accumulator)
        accumulator, key, carried = outcome
        if not self.shared:
            self._key, self._carried = key, (tree, carried)
        return accumulator

    def _read(self, walk: Callable[[Reader], Any]) -> Hashable | None:
        reader = Reader(self.engine, self.engine.graph.scope, self.compiled.whole_lists)
        try:
            walk(reader)
        except Untraceable as reason:
            self._fail(reason)
            return None
        return reader.key()

    def _run(self, tree: Tree, row: Value, accumulator: Value, carried: Any) -> Any:
        engine, graph = self.engine, self.engine.graph
        generator = engine.rng.bit_generator
        before = generator.state
        try:
            outcome = tree.run(
                row, accumulator, carried, self.interpreter, engine, graph, graph.scope, engine.rng
            )
        except Exception:
            outcome = None  # the interpreter will say what is wrong
        if outcome is None:
            generator.state = before
        return outcome

    def _learn(self, tree: Tree, row: Value, accumulator: Value) -> Any:
        generator = self.engine.rng.bit_generator
        before = generator.state
        try:
            trace(self.interpreter, self.body, tree, row, accumulator, self.compiled.whole_lists)
        except Unread:
            # The step looks into lists: from now on they are read as a whole.
            self.compiled.trees.clear()
            self.compiled.visits.clear()
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
