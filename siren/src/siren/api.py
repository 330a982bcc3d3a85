"""The library's front door: `siren.run` and `siren.stream`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from siren.errors import SirenError, did_you_mean
from siren.frames import bindings
from siren.options import Method, OptionError, require_backend, require_options
from siren.record import Recorder
from siren.result import Result, make_result
from siren.syntax import ast, parse, parse_file
from siren.syntax.check import require_valid
from siren.syntax.traverse import random_variables

Resampler = Literal["multinomial", "systematic", "stratified", "residual"]
Progress = Callable[[int, int | None], None]


def run(
    program: str | Path | ast.Program,
    *,
    data: Any = None,
    particles: int = 1000,
    method: Method = "ssi",
    seed: int | None = None,
    resample: Resampler = "multinomial",
    ess: float | None = None,
    plan: Mapping[str, Literal["symbolic", "sample"]] | None = None,
    mean: Literal["exact", "plugin"] = "exact",
    progress: Progress | None = None,
    recorder: Recorder | None = None,
    backend: Literal["numpy", "jax"] = "numpy",
) -> Result:
    """Run a program (its text, the path of a `.si` file, or a parsed tree) and summarise its value.

    `data` binds names of the main expression to numbers, lists, arrays or columns; a data frame binds the
    names of its columns. An observation whose datum is missing (NaN, None) is skipped. `ess` resamples only
    when the effective sample size falls below that share of the particles; None resamples every time. `plan`
    overrides the annotations of the named variables. Without a seed one is drawn, and kept in the result.
    `backend="jax"` has a GPU, or whatever JAX finds, run ahead where a program keeps no history: for very
    many particles. It draws other numbers than NumPy does.
    """
    from siren import runtime  # brings in SciPy, which `import siren` need not pay for

    require_options(
        particles=particles, method=method, seed=seed, resample=resample, ess=ess, plan=plan, mean=mean
    )
    require_backend(backend)
    tree, base = load(program)
    values = bindings(data)
    try:
        require_valid(tree, values)
        require_known(tree, plan)
        raw = runtime.run(
            tree, data=values, base=base, method=method, particles=particles, seed=seed, resample=resample,
            ess=ess, plan=plan, mean=mean, progress=progress, recorder=recorder,
            compiled="jax" if backend == "jax" else True,
        )  # fmt: skip
        return make_result(tree, raw)
    except SirenError as error:
        raise error.with_source(tree.source) from None


def stream(
    program: str | Path | ast.Program,
    rows: Iterable[Any],
    *,
    data: Any = None,
    particles: int = 1000,
    method: Method = "ssi",
    seed: int | None = None,
    resample: Resampler = "multinomial",
    ess: float | None = None,
    plan: Mapping[str, Literal["symbolic", "sample"]] | None = None,
    mean: Literal["exact", "plugin"] = "exact",
) -> Iterator[Result]:
    """A result after each row. Rows stand in for the program's one `File.read`, or its free name `data`.

    `siren.Stream` is the same to be fed by hand, saved and taken up again.
    """
    from siren.streams import Stream

    online = Stream(
        program, data=data, particles=particles, method=method, seed=seed, resample=resample, ess=ess,
        plan=plan, mean=mean,
    )  # fmt: skip
    for row in rows:
        yield online.push(row)


def load(program: str | Path | ast.Program) -> tuple[ast.Program, Path]:
    """The tree, and the folder that paths in `File.read` are relative to."""
    if isinstance(program, ast.Program):
        return program, Path(program.source.name).parent
    if not isinstance(program, str | Path):
        hint = "give the program's text, the path of a .si file, or what `siren.parse` returns"
        raise OptionError(f"a program is no {type(program).__name__}", hint=hint)
    if isinstance(program, Path) or (program.endswith(".si") and "\n" not in program):
        return parse_file(program), Path(program).parent
    return parse(program), Path()


def require_known(tree: ast.Program, plan: Mapping[str, str] | None) -> None:
    """A plan for a variable that is not there would be silently without effect."""
    known = random_variables(tree)
    for name in plan or ():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise SirenError(
                f"the plan names `{name}`, which is no random variable of the program", hint=hint
            )
