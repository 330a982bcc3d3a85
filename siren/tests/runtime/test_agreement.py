"""Random small programs: every plan that can be kept, under every method, gives the same posterior."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siren.errors import PlanError
from siren.runtime import RunResult, run
from siren.syntax.parser import parse

PARTICLES = 6_000


@dataclass
class Sketch:
    """A program under construction: its lines, and the variables of each kind that are in scope."""

    lines: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    precisions: list[str] = field(default_factory=list)
    chances: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        return self.numbers + self.precisions + self.chances + self.flags


@st.composite
def linear(draw, sketch: Sketch) -> str:
    """A mean: a constant, a linear form, or a choice."""
    constant = draw(st.sampled_from(["0.", "1.", "-0.5"]))
    if not sketch.numbers:
        return constant
    a = draw(st.sampled_from(sketch.numbers))
    forms = [constant, a, f"0.5 * {a} + 1.", f"1. - {a}"]
    b = draw(st.sampled_from(sketch.numbers))
    forms += [f"{a} - 0.7 * {b}", f"{a} + {b}"]
    if sketch.flags:
        flag = draw(st.sampled_from(sketch.flags))
        forms += [f"(if {flag} then {a} else {b})", f"(if {flag} then {a} else 0.3)"]
    forms.append(f"(if {a} < 0.2 then {b} else 1.)")
    return draw(st.sampled_from(forms))


@st.composite
def variance(draw, sketch: Sketch) -> str:
    forms = ["1.", "0.5"]
    if sketch.precisions:
        g = draw(st.sampled_from(sketch.precisions))
        h = draw(st.sampled_from(sketch.precisions))
        forms += [f"1. / {g}", f"2. / {g}"]
        if sketch.flags:
            forms.append(f"(if {draw(st.sampled_from(sketch.flags))} then 1. / {g} else 0.5 / {h})")
    return draw(st.sampled_from(forms))


@st.composite
def chance(draw, sketch: Sketch) -> str:
    forms = ["0.3"]
    if sketch.chances:
        p, q = (draw(st.sampled_from(sketch.chances)) for _ in range(2))
        forms += [p, f"1. - {p}"]
        if sketch.flags:
            forms.append(f"(if {draw(st.sampled_from(sketch.flags))} then {p} else {q})")
    if sketch.flags:
        forms.append(f"(if {draw(st.sampled_from(sketch.flags))} then 0.8 else 0.3)")
    return draw(st.sampled_from(forms))


@st.composite
def programs(draw) -> tuple[str, list[str]]:
    sketch = Sketch()
    for number in range(draw(st.integers(3, 7))):
        kind = draw(
            st.sampled_from(
                ["gaussian", "gaussian", "gamma", "beta", "bernoulli", "observe", "observe", "branch"]
            )
        )
        name = f"v{number}"
        if kind == "gaussian":
            sketch.lines.append(
                f"let {name} <- gaussian({draw(linear(sketch))}, {draw(variance(sketch))}) in"
            )
            sketch.numbers.append(name)
        elif kind == "gamma":
            sketch.lines.append(f"let {name} <- gamma(4., 3.) in")
            sketch.precisions.append(name)
        elif kind == "beta":
            sketch.lines.append(f"let {name} <- beta(2., 3.) in")
            sketch.chances.append(name)
        elif kind == "bernoulli":
            sketch.lines.append(f"let {name} <- bernoulli({draw(chance(sketch))}) in")
            sketch.flags.append(name)
        elif kind == "observe" or not sketch.flags:
            if sketch.chances and draw(st.booleans()):
                sketch.lines.append(f"let () = observe(bernoulli({draw(chance(sketch))}), true) in")
            else:
                sketch.lines.append(
                    f"let () = observe(gaussian({draw(linear(sketch))}, {draw(variance(sketch))}), 0.8) in"
                )
        else:
            one = f"observe(gaussian({draw(linear(sketch))}, {draw(variance(sketch))}), 0.4)"
            sketch.lines.append(f"let () = if {draw(st.sampled_from(sketch.flags))} then {one} else () in")
    names = sketch.names()
    sketch.lines.append("let () = resample() in")
    sketch.lines.append(f"({', '.join(names)})" if len(names) > 1 else (names or ["1."])[0])
    return "\n".join(sketch.lines), names


def attempt(source: str, method: str, plan: dict[str, str], seed: int) -> RunResult | None:
    try:
        return run(parse(source), method=method, plan=plan, particles=PARTICLES, seed=seed)
    except PlanError:
        return None


def estimates(result: RunResult) -> list:
    return list(result.value) if isinstance(result.value, tuple) else [result.value]


def assert_agree(one: RunResult, other: RunResult, what: str) -> None:
    size = min(one.ess[-1], other.ess[-1], PARTICLES)
    noise = 6.5 / np.sqrt(size)
    assert abs(one.log_evidence - other.log_evidence) < 2 * noise, what
    for a, b in zip(estimates(one), estimates(other), strict=True):
        spread = max(a.sd, b.sd)
        assert abs(a.mean - b.mean) <= 2 * noise * spread + 1e-9, what
        assert abs(a.sd - b.sd) <= 6 * noise * spread + 1e-9, what


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_plans_and_methods_agree(case: tuple[str, list[str]], data) -> None:
    check_one(case, data)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_plans_and_methods_agree_at_length(case: tuple[str, list[str]], data) -> None:
    check_one(case, data)


def check_one(case: tuple[str, list[str]], data) -> None:
    source, names = case
    plan = {name: data.draw(st.sampled_from(["sample", "symbolic"])) for name in names}
    everything = attempt(source, "ssi", dict.fromkeys(names, "sample"), 0)
    assert everything is not None
    for method in ("ssi", "ds", "bp"):
        free = attempt(source, method, {}, 1)
        assert free is not None
        assert_agree(everything, free, f"{method}, default plan {free.plan}\n{source}")
        kept = attempt(source, method, plan, 2)
        if kept is not None:
            assert {n: kept.plan[n] for n in names} == plan
            assert_agree(everything, kept, f"{method}, plan {plan}\n{source}")
