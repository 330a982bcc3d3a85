"""A run that is fed row by row, can be saved after any row, and goes on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from siren.errors import RunError
from siren.runtime import saved
from siren.runtime.attempt import Attempt
from siren.runtime.evaluator import Evaluator
from siren.runtime.loops import Env
from siren.runtime.session import RunResult, Session, environment, make_session
from siren.runtime.summary import Mean
from siren.runtime.values import Stream, Value, from_python
from siren.syntax import ast, parse
from siren.syntax.spine import floated, spine


class Online:
    """Rows come in place of the program's one `File.read`, or of its free name `data`."""

    def __init__(self, session: Session, data: Mapping[str, Any] | None = None) -> None:
        self._open(session)
        env: Env = {"data": self._source, **environment(data)}
        nodes, self._place = spine(self.program), 0
        with session.guarded():
            while not self._is_over_rows(node := nodes[self._place], env):
                if not isinstance(node, ast.Let | ast.Assume):
                    raise RunError(
                        "no `fold` over the rows in the main expression",
                        node.span,
                        hint="write fold(step, data, start) for a step of your own",
                    )
                env = self.evaluator.bind_next(node, env)
                self._place += 1
            fold = _fold(node)
            needed = self._needed_for_rows(fold, env)
            self._before = {name: value for name, value in env.items() if name in needed}
            self._function = self.evaluator.function(fold.function, env)
            start = self.evaluator.eval(fold.start, env)
            self.evaluator.forget(env, node.body if isinstance(node, ast.Let) else None)
            self._begin(node, env, start)

    def push(self, row: Any) -> RunResult:
        """The answer with one more row."""
        self._require_whole()
        self._rows.append(from_python(row))
        with self.session.guarded():
            self._step()
            self.session.forget_history()
            self.count += 1
            return self._result()

    def _step(self) -> None:
        """A step that fails leaves everything as it was, or the stream broken."""
        attempt = Attempt(self.evaluator)
        try:
            self._accumulator = next(self._steps)
        except BaseException:
            self._rows.clear()
            self.broken = not attempt.take_back()
            if not self.broken:
                self._begin(self._node, self._env, self._accumulator)
            raise
        attempt.succeeded()

    def _require_whole(self) -> None:
        if self.broken:
            raise RunError(
                f"the stream is broken: row {self.count + 1} failed too late to be taken back",
                hint="go on from where it was saved last, or begin a new stream, without that row",
            )

    def answer(self) -> RunResult:
        """The answer with the rows so far. The next row finds everything as it was."""
        self._require_whole()
        numbers = self.session.engine.rng.bit_generator
        state = numbers.state
        try:
            with self.session.guarded():
                return self._result()
        finally:
            numbers.state = state

    def _result(self) -> RunResult:
        with self.session.tentatively():
            return self.session.result(self._answer(), goes_on=True)

    def _open(self, session: Session) -> None:
        self.session = session
        self.program = session.program = floated(session.program)
        self.count = 0
        self.broken = False
        self._rows: deque[Value] = deque()
        self._source: Stream = Stream(iter(self._rows.popleft, None))
        self.evaluator: Evaluator = session.evaluator(lambda path: self._source)

    def _begin(self, node: ast.Expr, env: Env, accumulator: Value) -> None:
        self._node, self._env = node, env
        fold = _fold(node)
        for earlier in spine(self.program)[: self._place]:
            if _binds_rows(earlier, self._before):
                self._before[earlier.pattern.name] = self.evaluator.eval(earlier.value, self._before)
        rows = self.evaluator.eval(fold.list, self._before)
        self._steps: Iterator[Value] = self.evaluator.fold_steps(
            fold, self._function, [rows, accumulator], shared=True
        )
        del accumulator
        self._accumulator = next(self._steps)  # before any row

    def _needed_for_rows(self, fold: ast.Fold, env: Env) -> set[str]:
        """The names that it takes to make the list of rows again, from a new source."""
        needs = self.evaluator.effects.needs
        needed = set(needs(fold.list))
        for node in reversed(spine(self.program)[: self._place]):
            if _binds_rows(node, env) and node.pattern.name in needed:
                needed |= needs(node.value)
        return needed

    def _is_over_rows(self, node: ast.Expr, env: Env) -> bool:
        value = node.value if isinstance(node, ast.Let) else node
        return isinstance(value, ast.Fold) and isinstance(self.evaluator.eval(value.list, env), Stream)

    def _answer(self) -> Value:
        if not isinstance(self._node, ast.Let):
            return self._accumulator
        local = dict(self._env)
        self.evaluator.bind(self._node.pattern, self._accumulator, local)
        return self.evaluator.eval(self._node.body, local)

    # On disk ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        self._require_whole()
        session, source = self.session, self.program.source
        saved.save(path, {
            "text": source.text, "name": source.name, "engine": session.engine,
            "population": session.population, "plan": session.plan, "particles": session.particles,
            "seed": session.seed, "mean": session.mean, "compiled": session.compiled,
            "missing": self.evaluator.missing, "accumulator": self._accumulator, "count": self.count,
            "env": _without_rows(self._env), "before": self._before, "place": self._place,
            "function": self._function,
        })  # fmt: skip

    @classmethod
    def resume(cls, path: str | Path) -> Online:
        state = saved.load(path)
        program = parse(state["text"], state["name"])
        self = cls.__new__(cls)
        session = Session(
            program, state["engine"], state["population"], state["plan"], state["particles"], state["seed"],
            state["mean"], state["compiled"],
        )  # fmt: skip
        self._open(session)
        self.evaluator.missing.update(state["missing"])
        # Steps are counted on, or those that come would pass for those in which a datum was missing.
        self.evaluator._folded = max((max(steps) for steps in state["missing"].values()), default=0)
        self.count = state["count"]
        self._before = state["before"]
        if isinstance(self._before.get("data", self._source), Stream):
            self._before["data"] = self._source
        self._place = state["place"]
        self._function = state["function"]
        env = {"data": self._source, **state["env"]}
        with session.guarded():
            self._begin(spine(self.program)[self._place], env, state.pop("accumulator"))
        return self


def _binds_rows(node: ast.Expr, env: Env) -> TypeGuard[Any]:
    """Whether it is a `let` of a name for the rows, or for what is made of them one by one."""
    named = isinstance(node, ast.Let) and isinstance(node.pattern, ast.NamePattern)
    return named and isinstance(env.get(node.pattern.name), Stream)  # type: ignore[union-attr]


def _without_rows(env: Env) -> Env:
    return {name: value for name, value in env.items() if not isinstance(value, Stream)}


def _fold(node: ast.Expr) -> ast.Fold:
    fold = node.value if isinstance(node, ast.Let) else node
    assert isinstance(fold, ast.Fold)
    return fold


def stream(
    program: ast.Program,
    rows: Iterable[Any],
    *,
    data: Mapping[str, Any] | None = None,
    method: str = "ssi",
    particles: int = 1000,
    seed: int | None = None,
    resample: str = "multinomial",
    ess: float | None = None,
    mean: Mean = "exact",
    plan: Mapping[str, str] | None = None,
    compiled: bool = True,
) -> Iterator[RunResult]:
    """The answer after each row. The main expression must fold over the rows."""
    session = make_session(program, method, particles, seed, resample, ess, mean, plan, compiled)
    online = Online(session, data)
    for row in rows:
        yield online.push(row)
