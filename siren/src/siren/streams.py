"""A stream that can be fed by hand, saved, and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siren.api import Resampler, load, require_known
from siren.errors import SirenError
from siren.frames import bindings, plain
from siren.options import Method, require_options
from siren.result import Result, make_result
from siren.syntax import ast
from siren.syntax.check import require_valid

if TYPE_CHECKING:
    from siren.runtime import Online, RunResult


class Stream:
    """Rows stand in for the program's one `File.read`, or its free name `data`.

    >>> stream = Stream("val f = fun (row, n) -> n + List.hd(row) in fold(f, data, 0)")
    >>> stream.push([2.0])[0].mean, stream.push([3.0])[0].mean
    (2.0, 5.0)
    """

    def __init__(
        self,
        program: str | Path | ast.Program,
        *,
        data: Any = None,
        particles: int = 1000,
        method: Method = "ssi",
        seed: int | None = None,
        resample: Resampler = "multinomial",
        ess: float | None = None,
        plan: Mapping[str, str] | None = None,
        mean: str = "exact",
    ) -> None:
        from siren.runtime import Online
        from siren.runtime.session import make_session

        require_options(
            particles=particles, method=method, seed=seed, resample=resample, ess=ess, plan=plan, mean=mean
        )
        tree, _ = load(program)
        values = bindings(data)
        try:
            require_valid(tree, {"data", *values})
            require_known(tree, plan)
            session = make_session(tree, method, particles, seed, resample, ess, mean, plan)  # type: ignore[arg-type]
            self._keep(tree, Online(session, values))
        except SirenError as error:
            raise error.with_source(tree.source) from None

    def _keep(self, tree: ast.Program, online: Online) -> None:
        self.program = tree
        self._online = online

    @property
    def rows(self) -> int:
        """How many rows have been read, those before it was saved included."""
        return self._online.count

    @property
    def broken(self) -> bool:
        """Whether a row has failed too late to be taken back: nothing can be asked of the stream or saved."""
        return self._online.broken

    @property
    def options(self) -> dict[str, Any]:
        """How it runs, by the names of the parameters. Taken up again, it runs as it began."""
        session = self._online.session
        population = session.population
        return {
            "particles": session.particles,
            "method": session.engine.method,
            "seed": session.seed,
            "resample": population.scheme,
            "ess": population.threshold,
            "plan": dict(session.plan or {}),
            "mean": session.mean,
        }

    def push(self, row: Any) -> Result:
        """The result with one more row: a number, or cells as in `data`, in a list or by their names. A row
        that raises an error is left out, and the stream can go on, unless it is `broken` then."""
        cells = plain("row", row)
        return self._named(lambda: self._online.push(cells))

    def answer(self) -> Result:
        """The result with the rows so far: that of the latest `push`, or before any row what the program says
        without data."""
        return self._named(self._online.answer)

    def _named(self, answer: Callable[[], RunResult]) -> Result:
        try:
            return make_result(self.program, answer())
        except SirenError as error:
            raise error.with_source(self.program.source) from None

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs. The program goes with it; Python functions do not."""
        self._online.save(path)

    @classmethod
    def resume(cls, path: str | Path) -> Stream:
        """Go on where a stream was saved, as if it had never stopped. Read only files of your own: one made
        by somebody else can run anything."""
        from siren.runtime import Online
        from siren.syntax import parse

        online = Online.resume(path)
        source = online.program.source
        stream = cls.__new__(cls)
        stream._keep(parse(source.text, source.name), online)
        return stream
