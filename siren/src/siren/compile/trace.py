"""The tracer: the interpreter runs a step on a traced copy of the state, and the tape of it joins a tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from siren.compile.branch import Leaf
from siren.compile.generator import TracedGenerator
from siren.compile.invariants import follows, plausible
from siren.compile.recorder import Recorder
from siren.compile.state import Reader
from siren.compile.tape import METHOD, RESAMPLE, Slot, Untraceable
from siren.compile.traced import TracedArray, TracedNumber
from siren.compile.tree import Tree
from siren.compile.writer import Writer
from siren.inference.population import Population
from siren.runtime.values import Value


class Structures(Protocol):
    """What is known of the structures of a fold."""

    whole_lists: bool

    def structure(self, key: Hashable) -> Any: ...


def trace(
    interpreter: Any, body: Callable[[Value, Value], Value], tree: Tree, row: Value, accumulator: Value,
    known: Structures,
) -> None:  # fmt: skip
    """Add the path that this step takes to the tree. The state and the run stay as they are."""
    engine, whole_lists = interpreter.engine, known.whole_lists
    drawn_before, draws_before = engine._drawn, engine.draws
    tape = Recorder(engine.graph.scope.size)
    reader = Reader(engine, engine.graph.scope, whole_lists, tape)
    with _apart(interpreter, reader, tape) as deferred:
        accumulator, engine.graph.log_weight, engine._drawn = reader.read(accumulator)
        state = reader.key()
        result = body(reader.read_row(row), accumulator)
        after_reader = Reader(engine, engine.graph.scope, whole_lists)
        key = _key_of(after_reader, result)
        drawn, engine._drawn = engine._drawn, drawn_before
        writer = Writer(reader, tree.constants)
        expression = writer.write(result, engine.graph.log_weight, drawn, engine.graph.joined())
        after = "None" if key is None else writer.constant(known.structure(key))
        lines = (
            "graph.past = None",
            "g0 = scope.now",
            *deferred.lines,
            *writer.lines,
            f"engine.draws += {engine.draws - draws_before}",
            "graph.changed()",
        )
        again = follows(reader.slots, after_reader.leaves) if key == state else None
        leaf = Leaf(
            lines,
            f"{expression}, {after}",
            frozenset(writer.uses | deferred.uses),
            _unchanged(tape, reader, after_reader, deferred.ancestors) if key == state else frozenset(),
            deferred.ancestors,
            again,
            None if again is None else _carry(reader, again, deferred.ancestors),
        )
    inputs = dict(zip(reader.slots, reader.leaves, strict=True))
    tree.add(tape.path, leaf, reader.places, plausible(inputs))


def _key_of(reader: Reader, result: Value) -> Hashable | None:
    """The key of the state that the step leaves, if that is the same for all steps of this path."""
    try:
        reader.read(result)
    except Untraceable:
        return None
    return reader.key()


def _unchanged(tape: Recorder, before: Reader, after: Reader, ancestors: int | None) -> frozenset[int]:
    """The slots of arrays that the step left as they were, but for the lanes: r becomes r.take(ancestors)."""
    if ancestors is None:
        return frozenset()
    taken = {op.out: op.arguments for op in tape.operations() if (op.form, op.function) == (METHOD, "take")}
    return frozenset(
        slot
        for slot, leaf in zip(before.slots, after.leaves, strict=False)
        if isinstance(leaf, TracedArray) and taken.get(leaf.slot) == (Slot(slot), Slot(ancestors))
    )


def _carry(before: Reader, again: dict[int, Any], ancestors: int | None) -> dict[int, Any] | None:
    """The inputs of the next step, routes included. None if that takes more than arrays."""
    if before.lists or (before.routes and ancestors is None) or len(before.routes) > 1:
        return None
    return dict.fromkeys(before.routes, Slot(ancestors or 0)) | again


@contextmanager
def _apart(interpreter: Any, reader: Reader, tape: Recorder) -> Iterator[Deferred]:
    """Whatever happens inside happens to copies."""
    engine = interpreter.engine
    saved = {name: getattr(engine, name) for name in ("rng", "_drawn", "draws", "site", "reported")}
    engine.reported = set(engine.reported)
    engine.rng = TracedGenerator(tape, engine.rng)
    deferred = Deferred(interpreter.population, reader, tape)
    try:
        with interpreter.traced(deferred), engine.graph.replaced(reader.twin):
            yield deferred
    finally:
        for name, value in saved.items():
            setattr(engine, name, value)
        for variable, node, origins in reversed(reader.originals):
            variable.node, variable.origins = node, origins


class Deferred:
    """Stands in for the population while a step is traced. Resampling is one operation of the tape; what it
    does to the run, and what else the run is told, waits for the end of the step (`lines`)."""

    def __init__(self, population: Population, reader: Reader, tape: Recorder) -> None:
        self.lines: list[str] = []
        self.uses: set[int] = set()
        self.frozen = False
        self._population = population
        self._reader = reader
        self._tape = tape
        self._moves = 0
        # The slot of the ancestors, if there is one resampling.
        self.ancestors: int | None = None

    def add(self, line: str) -> None:
        self.lines.append(line)

    def resample(self) -> None:
        graph = self._population.graph
        if graph.scope.parent is not None:
            raise Untraceable("a resampling of some of the particles")
        weight, graph.log_weight = graph.log_weight, 0.0
        if isinstance(weight, TracedArray):
            self._resample(weight)
        elif isinstance(weight, TracedNumber):
            self.uses.add(weight.slot)
            self.add(f"interpreter.population.apply_even(v{weight.slot})")
        else:
            self.add(f"interpreter.population.apply_even({float(weight)!r})")

    def _resample(self, weight: TracedArray) -> None:
        tape, graph = self._tape, self._population.graph
        slot = tape.record(RESAMPLE, "choose", (Slot(weight.slot),), pure=False)
        choice = self._population.choose(weight.value)
        self.uses.add(slot)
        self.add(f"interpreter.population.apply(v{slot})")
        if not TracedNumber(tape, tape.record(RESAMPLE, "moves", (Slot(slot),)), choice.moves):
            graph.log_weight = weight
            return
        assert choice.ancestors is not None
        ancestors = tape.record(RESAMPLE, "ancestors", (Slot(slot),), like=choice.ancestors)
        graph.scope.advance(TracedArray.make(tape, ancestors, choice.ancestors, False))
        self._moves += 1
        self.ancestors = ancestors if self._moves == 1 else None
        self._reader.gens[id(graph.scope.now)] = f"g{self._moves}"
        self.add(f"g{self._moves} = scope.now")
