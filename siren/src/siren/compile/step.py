"""Runs the steps of a fold: compiled where their structure is known, by the interpreter elsewhere.

A step is a transaction. A compiled step that meets something new has changed nothing but the generator, which
is set back, and the step is run again: by the tracer, which makes a tape of it and throws its results away,
and then from the tape. Where the tracer fails, the interpreter runs the step, and reports what is wrong with
it if something is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final


from siren.compile.state import Reader, Unread
from siren.compile.tape import RESAMPLE, Slot, Tape, Untraceable
from siren.compile.traced import TracedArray, TracedGenerator, TracedNumber
from siren.compile.tree import Leaf, Tree
from siren.compile.writer import Writer
from siren.inference.engine import Engine
from siren.inference.population import Choice, Population
from siren.runtime.values import Value
from siren.syntax import ast

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
        unsuccessful = self.tapes >= _TRIALS and self.hits < _WORTH * self.tapes
        return unsuccessful or self.failures >= _MOST_FAILURES


_CACHE: dict[int, dict[Hashable, Compiled]] = {}


def compiled(program: ast.Program, about: Hashable) -> Compiled:
    """What is compiled of a program so far; forgotten with the program."""
    if id(program) not in _CACHE:
        _CACHE[id(program)] = {}
        weakref.finalize(program, _CACHE.pop, id(program), None)
    return _CACHE[id(program)].setdefault(about, Compiled())


class Steps:
    """The steps of one fold in one run. `body` is the interpreter's step; `shared` says that somebody reads
    the state between steps."""

    def __init__(
        self,
        compiled: Compiled,
        engine: Engine,
        population: Population,
        body: Body,
        tracing: Tracing,
        shared: bool,
    ) -> None:
        self.compiled = compiled
        self.engine = engine
        self.population = population
        self.body = body
        self.tracing = tracing
        self.shared = shared
        # The key of the present state, unless somebody else may have changed it.
        self._key: Hashable | None = None

    def step(self, row: Value, accumulator: Value) -> Value:
        if self.compiled.hopeless or not self._eligible():
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
        outcome = self._run(tree, row, accumulator)
        if outcome is not None:
            self.compiled.hits += 1
        else:
            self.compiled.tapes += 1
            outcome = self._learn(tree, row, accumulator)
        if outcome is None:
            return self.body(row, accumulator)
        accumulator, key = outcome
        if not self.shared:
            self._key = key
        return accumulator

    def _eligible(self) -> bool:
        graph = self.engine.graph
        return graph.at_top and not self.tracing.active and not self.population.frozen

    def _read(self, walk: Callable[[Reader], Any]) -> Hashable | None:
        reader = Reader(self.engine, self.engine.graph.scope, self.compiled.whole_lists)
        try:
            walk(reader)
        except Untraceable as reason:
            self._fail(reason)
            return None
        return reader.key()

    def _run(self, tree: Tree, row: Value, accumulator: Value) -> Any:
        engine, graph = self.engine, self.engine.graph
        generator = engine.rng.bit_generator
        before = generator.state
        try:
            outcome = tree.run(row, accumulator, graph, engine, self.population, graph.scope, engine.rng)
        except Exception:
            outcome = None  # the interpreter will say what is wrong
        if outcome is None:
            generator.state = before
        return outcome

    def _learn(self, tree: Tree, row: Value, accumulator: Value) -> Any:
        generator = self.engine.rng.bit_generator
        before = generator.state
        try:
            self.tracing.trace(self, tree, row, accumulator)
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
        return self._run(tree, row, accumulator)

    def _fail(self, reason: object) -> None:
        self.compiled.failures += 1
        self.compiled.reasons.append(str(reason))


class Tracing:
    """Lets the interpreter run a step on a traced copy of the state. `hooks` are the interpreter's."""

    def __init__(self, engine: Engine, set_population: Callable[[Any], None]) -> None:
        self.engine = engine
        self.active = False
        self._set_population = set_population

    def trace(self, steps: Steps, tree: Tree, row: Value, accumulator: Value) -> None:
        """Add the path that this step takes to the tree."""
        engine = self.engine
        tape = Tape(engine.graph.scope.size)
        reader = Reader(engine, engine.graph.scope, steps.compiled.whole_lists, tape)
        with self._apart(reader, steps.population, tape) as population:
            accumulator, engine.graph.log_weight, engine._drawn = reader.read(accumulator)
            row = reader.read_row(row)
            draws = engine.draws
            result = steps.body(row, accumulator)
            key = self._key_of(steps, result)
            writer = Writer(reader, tree.constants)
            drawn, engine._drawn = engine._drawn, population.drawn
            expression = writer.write(result, engine.graph.log_weight, drawn)
            after = "None" if key is None else writer.constant(key)
            lines = [
                "g0 = scope.now",
                *population.lines,
                *writer.lines,
                f"engine.draws += {engine.draws - draws}",
                "graph.changed()",
            ]
            uses = frozenset(writer.uses | population.uses)
            leaf = Leaf(tuple(lines), f"{expression}, {after}", uses)
        tree.add(tape.path, leaf, reader.places)

    def _key_of(self, steps: Steps, result: Value) -> Hashable | None:
        """The key of the state that the step leaves, if that is the same for all steps of this path."""
        reader = Reader(self.engine, self.engine.graph.scope, steps.compiled.whole_lists)
        try:
            reader.read(result)
        except Untraceable:
            return None
        return reader.key()

    @contextmanager
    def _apart(self, reader: Reader, population: Population, tape: Tape) -> Iterator[TracedPopulation]:
        """Whatever happens inside happens to copies."""
        engine, graph = self.engine, self.engine.graph
        saved = engine.rng, engine._drawn, engine.draws, engine.site
        traced = TracedPopulation(population, reader, tape, engine._drawn)
        self.active = True
        self._set_population(traced)
        engine.rng = TracedGenerator(tape, engine.rng)  # type: ignore[assignment]
        inner = graph.replaced(reader.twin)
        try:
            with inner:
                yield traced
        finally:
            engine.rng, engine._drawn, engine.draws, engine.site = saved
            for variable, node, origins in reversed(reader.originals):
                variable.node, variable.origins = node, origins
            self._set_population(population)
            self.active = False


class TracedPopulation:
    """Stands in for the population while a step is traced: resampling is one operation of the tape, and what
    it does to the run waits for the end of the step (`lines`)."""

    def __init__(self, population: Population, reader: Reader, tape: Tape, drawn: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.uses: set[int] = set()
        self.drawn = drawn
        self.frozen = False
        self._population = population
        self._reader = reader
        self._tape = tape
        self._count = 0

    def resample(self) -> None:
        graph = self._population.graph
        if graph.scope.parent is not None:
            raise Untraceable("a resampling of some of the particles")
        weight = graph.log_weight
        if isinstance(weight, TracedNumber):
            self.uses.add(weight.slot)
            self.lines.append(f"population.apply_even(v{weight.slot})")
            graph.log_weight = 0.0
            return
        if not isinstance(weight, TracedArray):
            self.lines.append(f"population.apply_even({float(weight)!r})")
            graph.log_weight = 0.0
            return
        slot = self._tape.record(RESAMPLE, "choose", (Slot(weight.slot),), pure=False)
        choice: Choice = self._population.choose(weight.value)
        self.uses.add(slot)
        self.lines.append(f"population.apply(v{slot})")
        moves = self._tape.record(RESAMPLE, "moves", (Slot(slot),))
        if TracedNumber(self._tape, moves, choice.moves):
            assert choice.ancestors is not None
            ancestors = self._tape.record(RESAMPLE, "ancestors", (Slot(slot),))
            graph.scope.advance(TracedArray.make(self._tape, ancestors, choice.ancestors, False))
            self._count += 1
            self._reader.gens[id(graph.scope.now)] = f"g{self._count}"
            self.lines.append(f"g{self._count} = scope.now")
            graph.log_weight = 0.0


__all__ = ["Compiled", "Steps", "Tracing", "compiled"]
