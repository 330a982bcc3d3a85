"""What a run gives back: named outputs as arrays, the plan that came out, evidence, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from siren.errors import SirenError, did_you_mean
from siren.options import fraction, whole
from siren.syntax import ast
from siren.syntax.printer import flat
from siren.syntax.spine import spine
from siren.syntax.traverse import random_variables

if TYPE_CHECKING:
    from siren.runtime import RunResult

QUANTILES: Final = (0.05, 0.5, 0.95)
_LABEL_WIDTH: Final = 40


class Leaf(Protocol):
    """One number of the output: a weighted mixture over the particles."""

    @property
    def mean(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def sd(self) -> float: ...
    def quantile(self, q: float) -> float: ...
    def draws(self, n: int, seed: int = 0) -> NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class Output:
    """One part of the main expression's value, named by its text. Shapes follow the program's lists."""

    name: str
    value: Any

    @property
    def mean(self) -> Any:
        return self._each(lambda leaf: leaf.mean)

    @property
    def sd(self) -> Any:
        return self._each(lambda leaf: leaf.sd)

    @property
    def share(self) -> Any:
        """The probability that there is such a number: below 1 for elements of a list that differs in length
        between particles. Mean, spread and quantiles are given that there is one."""
        return self._each(lambda leaf: leaf.share)

    @property
    def is_varying(self) -> bool:
        """It has a list whose length is uncertain."""
        return any(True for _ in _lengths("", self.value))

    @property
    def lengths(self) -> dict[str, Leaf]:
        """The lengths of lists whose length is uncertain, each a number like any other."""
        return dict(_lengths(self.name, self.value))

    def quantile(self, q: Any) -> Any:
        """Of several q, one quantile after the other, along a first axis as NumPy has it."""
        if np.ndim(q):
            return _tidy([self.quantile(each) for each in q])
        fraction("a quantile goes by a probability", q)
        return self._each(lambda leaf: leaf.quantile(q))

    def draws(self, n: int = 1000, seed: int = 0) -> NDArray[np.float64]:
        """n draws, first axis the draw. With the same n and seed those of several outputs are joint draws. An
        element that a draw does not have is NaN. Lists whose lengths are unequal come in one row."""
        whole("n", n, at_least=0)
        leaves = [leaf.draws(n, seed) for _, leaf in _leaves(self.name, self.value)]
        if not leaves:
            return np.empty((n, 0))
        mean = self.mean
        shape = () if isinstance(mean, list) else np.shape(mean)
        return np.stack(leaves, axis=1).reshape((n, *shape) if math.prod(shape) == len(leaves) else (n, -1))

    def leaves(self) -> Iterator[tuple[str, Leaf]]:
        """Every number with its own label, such as `xs[3]`, after the lengths that are uncertain."""
        yield from _lengths(self.name, self.value)
        yield from _leaves(self.name, self.value)

    @property
    def is_boolean(self) -> bool:
        """All of it is true or false, so that the mean is a probability and says everything."""
        return all(getattr(leaf, "kind", "number") == "bool" for _, leaf in self.leaves())

    @property
    def is_number(self) -> bool:
        return _is_leaf(self.value)

    def _each(self, measure: Callable[[Leaf], float]) -> Any:
        return _tidy(_map(self.value, measure))


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The outcome of one run. `result["xs"].mean` is an array; `result[0]` is the first output. It prints as
    the table of `siren run`."""

    outputs: dict[str, Output]
    plan: dict[str, str]
    raw: RunResult

    def __getitem__(self, key: str | int) -> Output:
        if isinstance(key, int):
            return list(self.outputs.values())[key]
        if key not in self.outputs:
            hint = did_you_mean(key, self.outputs) or f"there are: {', '.join(self.outputs)}"
            raise SirenError(f"no output `{key}`", hint=hint)
        return self.outputs[key]

    def __contains__(self, key: object) -> bool:
        """Whether there is an output of this name; of an output itself, whether it is one of them."""
        return key in self.outputs if isinstance(key, str) else any(key is output for output in self)

    def __iter__(self) -> Iterator[Output]:
        return iter(self.outputs.values())

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        from siren.cli.show import as_text, write_result  # brings in Rich

        return as_text(lambda console: write_result(console, self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it keeps the particles that its figures and draws are worked out from."""
        from siren.runtime import saved

        return _unpickled, (saved.dumps((self.outputs, self.plan, self.raw)),)

    @property
    def log_evidence(self) -> float:
        return float(self.raw.log_evidence)

    @property
    def seed(self) -> int:
        return int(self.raw.seed)

    @property
    def seconds(self) -> float:
        return float(self.raw.seconds)

    @property
    def particles(self) -> int:
        return int(self.raw.particles)

    @property
    def method(self) -> str:
        return str(self.raw.method)

    @property
    def missing(self) -> dict[str, int]:
        """Observations that were skipped because their datum is missing, by the text of the datum."""
        return dict(self.raw.missing)

    @property
    def ess(self) -> NDArray[np.float64]:
        """Effective sample size before each resampling."""
        return np.asarray(self.raw.ess, dtype=float)

    @property
    def smallest_ess(self) -> float:
        """Of the effective sample sizes before each resampling and that of the answer."""
        return float(min(*self.raw.ess, self.raw.answer_ess, self.particles))

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`; a number that JSON cannot hold becomes null."""
        return {
            "method": self.method,
            "particles": self.particles,
            "seed": self.seed,
            "seconds": self.seconds,
            "log_evidence": finite(self.log_evidence),
            "plan": self.plan,
            "missing": self.missing,
            "ess_min": finite(self.smallest_ess),
            "outputs": {output.name: _summary(output) for output in self},
        }

    def plot(
        self,
        title: str = "",
        axis: Sequence[Any] | None = None,
        data: Mapping[str, Any] | None = None,
        plane: Sequence[str] = (),
    ) -> Any:
        """The Matplotlib figure of `siren.plot.draw`, which a notebook shows."""
        from siren.plot import draw  # imports Matplotlib, which is optional

        return draw(self, title, axis, data, plane)

    def to_arviz(self, draws: int = 1000, seed: int = 0) -> Any:
        """ArviZ `InferenceData` with one chain of weighted draws. Needs `pip install siren-ppl[arviz]`."""
        from siren.inference_data import to_inference_data  # imports ArviZ, which is slow and optional

        return to_inference_data(self, draws, seed)


def make_result(program: ast.Program, raw: RunResult) -> Result:
    """Name the parts of a run's value after the expressions that they came from."""
    outputs: dict[str, Output] = {}
    for label, value in _labelled(spine(program)[-1], raw.value):
        name, copies = label, 2
        while name in outputs:
            name, copies = f"{label} #{copies}", copies + 1
        outputs[name] = Output(name, value)
    # The order of the text is the order in which plans are numbered.
    plan = {name: raw.plan[name] for name in random_variables(program) if name in raw.plan}
    return Result(outputs, plan, raw)


def _labelled(expr: ast.Expr, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            if part is not None:
                yield (name if isinstance(expr, ast.Record) else f"{_label(expr)}.{name}"), part
        return
    if not isinstance(value, tuple):
        if value is not None:
            yield _label(expr), value
        return
    if isinstance(expr, ast.Tuple):
        # Tuples nest to the right, so the last item takes all parts that are left.
        *items, last = expr.items
        for item, part in zip(items, value, strict=False):
            yield from _labelled(item, part)
        rest = value[len(items) :]
        yield from _labelled(last, rest if len(rest) > 1 else rest[0])
        return
    for index, part in enumerate(value, start=1):
        if part is not None:
            yield f"{_label(expr)}.{index}", part


def _label(expr: ast.Expr) -> str:
    if isinstance(expr, ast.If | ast.Let | ast.Assume):
        return "value"
    # How a list was turned round for output is of no interest to the reader of a table.
    while (
        isinstance(expr, ast.Call) and expr.function in ("List.rev", "List.tl") and len(expr.arguments) == 1
    ):
        expr = expr.arguments[0]
    text = flat(expr)
    return text if len(text) <= _LABEL_WIDTH else text[: _LABEL_WIDTH - 1] + "…"


def _is_leaf(value: Any) -> bool:
    return hasattr(value, "mean") and hasattr(value, "quantile")


def _leaves(label: str, value: Any) -> Iterator[tuple[str, Leaf]]:
    if _is_leaf(value):
        yield label, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(f"{label}[{index}]", item)
    elif isinstance(value, tuple):
        for index, item in enumerate(value, start=1):
            yield from _leaves(f"{label}.{index}", item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{label}.{name}", item)


def _lengths(label: str, value: Any) -> Iterator[tuple[str, Leaf]]:
    if hasattr(value, "length"):
        yield f"List.len({label})", value.length
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _lengths(f"{label}[{index}]", item)
    elif isinstance(value, tuple):
        for index, item in enumerate(value, start=1):
            yield from _lengths(f"{label}.{index}", item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _lengths(f"{label}.{name}", item)


def _map(value: Any, measure: Callable[[Leaf], float]) -> Any:
    if isinstance(value, list):
        return [_map(item, measure) for item in value]
    if isinstance(value, tuple):
        return tuple(_map(item, measure) for item in value)
    if isinstance(value, dict):
        return {name: _map(item, measure) for name, item in value.items()}
    return measure(value) if _is_leaf(value) else value


def _unpickled(data: bytes) -> Result:
    from siren.runtime import saved

    return Result(*saved.loads(data))


def _tidy(value: Any) -> Any:
    """A list of equal shapes as an array; anything else as it is."""
    if isinstance(value, list):
        try:
            return np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            return value
    return float(value) if isinstance(value, int | float | np.floating) else value


def _summary(output: Output) -> dict[str, Any]:
    summary = {
        "mean": plain(output.mean),
        "sd": plain(output.sd),
        "quantiles": {f"{q:g}": plain(output.quantile(q)) for q in QUANTILES},
    }
    if output.is_varying:
        summary["share"] = plain(output.share)
        summary["lengths"] = {
            name: {"mean": finite(leaf.mean), "sd": finite(leaf.sd)} for name, leaf in output.lengths.items()
        }
    return summary


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return finite(value) if isinstance(value, float) else value


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
