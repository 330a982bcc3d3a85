"""How a program is run: checked here once, for Python and the command line alike."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from importlib.util import find_spec
from numbers import Real
from typing import Any, Literal, get_args

from siren.errors import SirenError, did_you_mean

Method = Literal["ssi", "ds", "bp"]
METHODS: tuple[str, ...] = get_args(Method)
RESAMPLERS = ("multinomial", "systematic", "stratified", "residual")
MEANS = ("exact", "plugin")
BACKENDS = ("numpy", "jax")
Annotation = Literal["symbolic", "sample"]
ANNOTATIONS: tuple[str, ...] = get_args(Annotation)
Plan = dict[str, Annotation]


class OptionError(SirenError):
    """An option has a value that it cannot have."""

    code = "option"


def require_options(
    *,
    particles: Any,
    method: Any,
    seed: Any,
    resample: Any,
    ess: Any,
    plan: Any,
    mean: Any,
) -> None:
    """Every value that would be without effect, or would fail deep inside, is refused by name."""
    whole("particles", particles, at_least=1)
    one_of("method", method, METHODS)
    if seed is not None:
        whole("seed", seed, at_least=0)
    one_of("resample", resample, RESAMPLERS)
    if ess is not None:
        fraction("ess is a share of the particles", ess)
    one_of("mean", mean, MEANS)
    if plan is not None and not isinstance(plan, Mapping):
        raise OptionError(f"a plan is a dict such as {{'x': 'symbolic'}}, not {plan!r}")
    for name, annotation in (plan or {}).items():
        one_of(f"the plan of `{name}`", annotation, ANNOTATIONS)


def require_backend(backend: Any) -> None:
    one_of("backend", backend, BACKENDS)
    if backend == "jax" and find_spec("jax") is None:
        raise OptionError("backend jax needs JAX", hint="pip install 'siren-ppl[jax]', or JAX for your GPU")


def whole(name: str, value: Any, at_least: int) -> int:
    """A whole number; NumPy's are as good as Python's, true and false are none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least or isinstance(value, bool):
        raise OptionError(f"{name} is a whole number of at least {at_least}, not {value!r}")
    return number


def fraction(what: str, value: Any) -> None:
    """`what` says which number it is, and of what."""
    plain = value.item() if getattr(value, "ndim", None) == 0 else value  # an array of one number
    number = float(plain) if isinstance(plain, Real) else math.nan
    if not 0 <= number <= 1:
        hint = f"write {number / 100:g} for {number:g} %" if 2 <= number <= 100 else None
        raise OptionError(f"{what}, from 0 to 1, not {value!r}", hint=hint)


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        near = did_you_mean(value, known) if isinstance(value, str) else None
        raise OptionError(f"{name} is one of {', '.join(known)}, not {value!r}", hint=near)
