"""Compiled steps on a device: the tape of a step as one JAX function, looped over many rows at a time.

It takes a structure that leads to itself by its usual path, so that a step is a function from arrays to
arrays. All decisions of that path are checked on the device; a row at which one goes another way ends the
loop, and the host takes over for a step. Draws come from JAX's generator, seeded from the run's: a run is
reproducible, but draws other numbers than on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from siren.compile.branch import Branch, Leaf
from siren.compile.invariants import answered
from siren.compile.tape import INPUT, PART, Decision, Operation, Slot, Untraceable
from siren.compile.tree import Tree, reading, writing
from siren.inference.population import Choice
from siren.runtime.values import Cons, Named, Value

# Rows that the device runs before it reports.
CHUNK = 4096

_REDUCTIONS = {
    np.logical_and: "all",
    np.logical_or: "any",
    np.minimum: "min",
    np.maximum: "max",
    np.add: "sum",
}
_NUMPY = ("where", "count_nonzero", "zeros_like", "full_like", "clip")


class Loop:
    """The one path of a tree, as a loop on the device."""

    def __init__(self, tree: Tree, scheme: str, particles: int) -> None:
        import jax

        self.path, self.leaf = _usual_path(tree.root)
        if self.leaf.carry is None:
            raise Untraceable("a structure that changes, or a history")
        self.scheme = scheme
        self.particles = particles
        self.inputs = [op for op in self.path if isinstance(op, Operation) and op.form == INPUT]
        self.rows = [op.out for op in self.inputs if op.out not in self.leaf.carry]
        self.states = [op.out for op in self.inputs if op.out in self.leaf.carry]
        self.kept = sorted(self.leaf.uses)
        self._read = reading(tree, self.inputs)
        self._write = writing(tree, self.leaf)
        self._loop = jax.jit(self._run)

    def run(self, interpreter: Any, rows: list[Value], accumulator: Value) -> tuple[int, Value]:
        """Rows done, and the accumulator after them; none if the first of them goes another way."""
        import jax

        engine, graph = interpreter.engine, interpreter.engine.graph
        around = interpreter, engine, graph, graph.scope
        first = dict(
            zip((op.out for op in self.inputs), self._read(rows[0], accumulator, *around), strict=True)
        )
        numbers = [_numbers(row) for row in rows]
        same = next((t for t, row in enumerate(numbers) if len(row) != len(self.rows)), len(rows))
        data = np.zeros((CHUNK, len(self.rows)))
        data[:same] = numbers[:same]
        with jax.enable_x64(True):
            state = tuple(np.asarray(first[slot]) for slot in self.states)
            key = jax.random.key(int(engine.rng.integers(2**32)), impl="rbg")
            done, ok, kept, means, sizes = self._loop(key, state, data, same)
            if not bool(ok):
                same = int(done) - 1  # the last of them went another way: the same again, without it
                if same:
                    _, _, kept, means, sizes = self._loop(key, state, data, same)
            if not same:
                return 0, accumulator
            values = {slot: _host(value) for slot, value in zip(self.kept, kept, strict=True)}
            earlier = zip(
                np.asarray(means)[: same - 1].tolist(), np.asarray(sizes)[: same - 1].tolist(), strict=True
            )
        for log_mean, ess in earlier:
            interpreter.population.count(log_mean, ess)
        return same, self._write(rows[same - 1], accumulator, *around, values)[0]

    def _run(self, key: Any, state: Any, data: Any, count: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def once(t: Any, key: Any, state: Any) -> tuple[Any, Any, Any, Any]:
            return _Step(self, key).run(state, data[t])

        shapes = jax.eval_shape(partial(once, 0), key, state)
        kept = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes[2])

        def body(carry: Any) -> Any:
            t, _, key, state, _, means, sizes = carry
            key, now = jax.random.split(key)
            state, fine, kept, (log_mean, ess) = once(t, now, state)
            return t + 1, fine, key, state, kept, means.at[t].set(log_mean), sizes.at[t].set(ess)

        def going(carry: Any) -> Any:
            return (carry[0] < count) & carry[1]

        empty = jnp.zeros(CHUNK)
        done, ok, _, _, kept, means, sizes = jax.lax.while_loop(
            going, body, (0, True, key, state, kept, empty, empty)
        )
        return done, ok, kept, means, sizes


class _Step:
    """One step, while JAX traces it."""

    def __init__(self, loop: Loop, key: Any) -> None:
        self.loop = loop
        self.key = key
        self.values: dict[int, Any] = {}
        self.summary: tuple[Any, Any] = (0.0, float(loop.particles))

    def run(self, state: Any, row: Any) -> tuple[Any, Any, Any, Any]:
        import jax.numpy as jnp

        loop = self.loop
        self.values = dict(zip(loop.states, state, strict=True))
        self.values |= {slot: row[i] for i, slot in enumerate(loop.rows)}
        ok = jnp.bool_(True)
        for entry in loop.path:
            if isinstance(entry, Decision):
                ok &= self.values[entry.slot] == entry.outcome
            elif entry.form not in (INPUT, PART):
                self.values[entry.out] = self._apply(entry)
        assert loop.leaf.carry is not None
        after = tuple(
            jnp.asarray(self._value(loop.leaf.carry[slot]), dtype=old.dtype)
            for slot, old in zip(loop.states, state, strict=True)
        )
        return after, ok, tuple(self.values[slot] for slot in loop.kept), self.summary

    def _value(self, argument: Any) -> Any:
        return self.values[argument.number] if isinstance(argument, Slot) else argument

    def _apply(self, operation: Operation) -> Any:
        import jax.numpy as jnp
        import jax.scipy.special

        function, args = operation.function, [self._value(a) for a in operation.arguments]
        keywords = {name: self._value(value) for name, value in operation.keywords}
        match operation.form:
            case "ufunc":
                name = function.__name__
                found = getattr(jnp, name, None) or getattr(jax.scipy.special, name, None)
                if found is None:
                    raise Untraceable(f"{name} on the device")
                return found(*args)
            case "reduce":
                return getattr(jnp, _REDUCTIONS[function])(args[0])
            case "function" if function.__name__ in _NUMPY:
                return getattr(jnp, function.__name__)(*args, **keywords)
            case "method" if function == "take":
                return jnp.take(args[0], args[1], mode="clip")
            case "method" if function == "astype":
                return args[0].astype(args[1])
            case "draw":
                return self._draw(function, *args, **keywords)
            case "resample":
                return self._choose(args[0]) if function == "choose" else args[0][function]
        raise Untraceable(f"{function} on the device")

    def _next_key(self) -> Any:
        import jax

        self.key, key = jax.random.split(self.key)
        return key

    def _draw(self, name: str, *args: Any) -> Any:
        import jax

        key, shape = self._next_key(), (self.loop.particles,)
        draws: dict[str, Callable[..., Any]] = {
            "standard_normal": lambda size: jax.random.normal(key, shape),
            "random": lambda size: jax.random.uniform(key, shape),
            "standard_exponential": lambda size: jax.random.exponential(key, shape),
            "standard_gamma": lambda a, size: jax.random.gamma(key, a, shape),
            "standard_t": lambda nu, size: jax.random.t(key, nu, shape),
            "beta": lambda a, b, size: jax.random.beta(key, a, b, shape),
        }
        if name not in draws or args[-1] != self.loop.particles:
            raise Untraceable(f"draws of {name} on the device")
        return draws[name](*args)

    def _choose(self, log_weights: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        size = self.loop.particles
        top = log_weights.max()
        weights = jnp.exp(log_weights - top)
        total = weights.sum()
        key = self._next_key()
        if self.loop.scheme == "multinomial":
            spacings = jnp.cumsum(jax.random.exponential(key, (size + 1,)))
            points = spacings[:-1] / spacings[-1]
        elif self.loop.scheme == "systematic":
            points = (jnp.arange(size) + jax.random.uniform(key)) / size
        elif self.loop.scheme == "stratified":
            points = (jnp.arange(size) + jax.random.uniform(key, (size,))) / size
        else:
            raise Untraceable(f"{self.loop.scheme} resampling on the device")
        bounds = jnp.cumsum(weights)
        chosen = jnp.searchsorted(bounds, points * bounds[-1], side="right", method="scan_unrolled")
        log_mean = top + jnp.log(total / size)
        ess = total * total / jnp.sum(weights * weights)
        self.summary = log_mean, ess
        return {
            "ancestors": jnp.minimum(chosen, size - 1), "moves": True, "log_weights": log_weights,
            "log_mean": log_mean, "ess": ess,
        }  # fmt: skip


def _usual_path(branch: Branch) -> tuple[list[Operation | Decision], Leaf]:
    known, _ = answered(branch)
    path: list[Operation | Decision] = list(branch.operations)
    while branch.leaf is None:
        # Of several ways the one taken first: it is the usual one.
        outcome, child = next(iter(branch.children.items()))
        assert branch.question is not None
        if id(branch) not in known:
            path.append(Decision(*branch.question, outcome))
        branch = child
        path += branch.operations
    return path, branch.leaf


def _numbers(row: Value) -> list[float]:
    if type(row) is float:
        return [row]
    if isinstance(row, Named):
        parts: Any = [row.parts[name] for name in sorted(row.parts)]
    else:
        parts = row if type(row) is Cons else ()
    return [number for part in parts for number in _numbers(part)]


def _host(value: Any) -> Any:
    if isinstance(value, dict):
        ancestors = np.asarray(value["ancestors"], dtype=np.intp)
        return Choice(
            ancestors, np.asarray(value["log_weights"]), float(value["log_mean"]), float(value["ess"])
        )
    array = np.asarray(value)
    return array if array.ndim else array.item()
