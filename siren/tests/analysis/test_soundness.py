"""Whatever the analysis accepts, no run breaks: random programs, with and without loops, random plans."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import siren
from siren.analysis import analyze
from siren.errors import PlanError
from siren.syntax import parse

METHODS = ("ssi", "ds", "bp")


@st.composite
def means(draw, reals: list[str], flags: list[str], others: list[str]) -> str:
    pool = ["0.5", "y", *reals * 2]
    a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
    forms = [a, a, f"2. * {a} - 1.", f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"y * {a}", f"y * {a} + {b}"]
    forms.append(f"(if {a} < 0.3 then {b} else 1.)")
    if flags:
        flag = draw(st.sampled_from(flags))
        forms += [f"(if {flag} then {a} else {b})", f"(if {flag} then {a} else 0.)"]
    if others:
        forms.append(f"{a} + {draw(st.sampled_from(others))}")
    return draw(st.sampled_from(forms))


@st.composite
def variances(draw, precisions: list[str], flags: list[str]) -> str:
    forms = ["1.", "1.", "0.4"]
    if precisions:
        g, h = (draw(st.sampled_from(precisions)) for _ in range(2))
        forms += [f"1. / {g}", f"1. / {g}", f"2. / {g}", f"1. / {g} + 1. / {h}", f"(0.1 + y * y) / {g}"]
        if flags:
            forms.append(f"(if {draw(st.sampled_from(flags))} then 1. / {g} else 1. / {h})")
    return draw(st.sampled_from(forms))


@st.composite
def chances(draw, probabilities: list[str], flags: list[str], reals: list[str]) -> str:
    forms = ["0.3"]
    if probabilities:
        p, q = (draw(st.sampled_from(probabilities)) for _ in range(2))
        forms += [p, p, f"1. - {p}", f"0.5 * {p}"]
        if flags:
            forms.append(f"(if {draw(st.sampled_from(flags))} then {p} else {q})")
    if flags:
        forms.append(f"(if {draw(st.sampled_from(flags))} then 0.8 else 0.3)")
    if reals:
        forms.append(f"(if {draw(st.sampled_from(reals))} < 0. then 0.8 else 0.3)")
    return draw(st.sampled_from(forms))


@st.composite
def distributions(draw, scope: dict[str, list[str]]) -> tuple[str, str, str]:
    """A distribution, the kind of its variable, and a value that it may take."""
    reals, flags = scope["real"], scope["flag"]
    others = scope["precision"] + flags
    kind = draw(
        st.sampled_from(["real", "real", "real", "flag", "flag", "precision", "probability", "count"])
    )
    if kind == "real":
        mean = draw(means(reals, flags, others))
        heavy = draw(st.integers(0, 9)) == 0
        variance = draw(variances(scope["precision"], flags))
        return (f"student_t({mean}, 1., 3.)" if heavy else f"gaussian({mean}, {variance})"), kind, "0.7"
    if kind == "flag":
        return f"bernoulli({draw(chances(scope['probability'], flags, reals))})", kind, "true"
    if kind == "precision":
        rate = draw(st.sampled_from(["2.", *scope["precision"]]))
        return f"gamma(2., {rate})", kind, "1.1"
    if kind == "probability":
        return "beta(2., 3.)", kind, "0.4"
    if scope["probability"] and draw(st.booleans()):
        return f"binomial(4., {draw(st.sampled_from(scope['probability']))})", kind, "2."
    return f"poisson({draw(st.sampled_from(['2.', *scope['precision']]))})", kind, "1."


@st.composite
def statements(draw, scope: dict[str, list[str]], prefix: str, most: int) -> list[str]:
    lines = []
    for number in range(draw(st.integers(1, most))):
        action = draw(st.sampled_from(["assume", "assume", "observe", "observe", "branch"]))
        text, kind, value = draw(distributions(scope))
        if action == "assume":
            lines.append(f"let {prefix}{number} <- {text} in")
            scope[kind].append(f"{prefix}{number}")
        elif action == "observe" or not scope["flag"]:
            lines.append(f"let () = observe({text}, {'y' if kind == 'real' else value}) in")
        else:
            flag = draw(st.sampled_from(scope["flag"]))
            lines.append(f"let () = if {flag} then observe({text}, {value}) else () in")
    return lines


KINDS = ("real", "flag", "precision", "probability", "count")


@st.composite
def straight(draw) -> str:
    scope: dict[str, list[str]] = {kind: [] for kind in KINDS}
    lines = ["let y = 0.6 in", *draw(statements(scope, "v", 7))]
    names = [name for kind in KINDS for name in scope[kind]]
    return "\n".join([*lines, f"[{', '.join(names)}]"])


@st.composite
def loops(draw) -> str:
    """State carried from step to step: a real number, a flag, a precision, a probability, and a history."""
    outer = {
        "real": ("gaussian(0., 2.)", "x"),
        "flag": ("bernoulli(0.5)", "s"),
        "precision": ("gamma(2., 2.)", "g"),
        "probability": ("beta(2., 2.)", "p"),
    }
    carried = [kind for kind in outer if draw(st.booleans())] or ["real"]
    scope: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind in carried:
        scope[kind].append(outer[kind][1])
    keep = draw(st.booleans())
    body = draw(statements(scope, "v", 4))
    after = [draw(st.sampled_from([outer[kind][1], scope[kind][-1], *scope[kind]])) for kind in carried]
    names = [outer[kind][1] for kind in carried]
    history = draw(st.sampled_from([name for kind in KINDS for name in scope[kind]]))
    state = ["hs", *names] if keep else [*names, "n"]
    result = [f"{history} :: hs", *after] if keep else [*after, "n + 1."]
    start = ["[]", *names] if keep else [*names, "0."]
    lines = [
        f"val step = fun (y, ({', '.join(state)})) ->",
        *body,
        "let () = resample() in",
        f"({', '.join(result)})",
        "in",
        *(f"let {outer[kind][1]} <- {outer[kind][0]} in" for kind in carried),
        f"let ({', '.join(state)}) = fold(step, ys, ({', '.join(start)})) in",
        f"({', '.join(state)})",
    ]
    return "\n".join(lines)


DATA = ([], [0.7], [0.4, 0.0], [0.0, -1.2, 0.3, 0.9], [1.0, 0.0, 0.0, -0.5, 2.0, 0.1])


def check(text: str, data) -> None:
    program = parse(text)
    names = siren.syntax.traverse.random_variables(program)
    plan = {name: data.draw(st.sampled_from(["symbolic", "symbolic", "sample", None])) for name in names}
    plan = {name: annotation for name, annotation in plan.items() if annotation}
    looped = "fold" in text
    for method in METHODS:
        verdict = analyze(program, method, plan, {"ys": [1.0]} if looped else None)
        if not verdict.satisfiable:
            continue
        for seed, ys in enumerate(DATA if looped else DATA[:2]):
            with contextlib.suppress(siren.errors.RunError):
                try:
                    siren.run(
                        program, data={"ys": ys} if looped else None, method=method, plan=plan,
                        particles=20, seed=seed,
                    )  # fmt: skip
                except PlanError as error:
                    raise AssertionError(f"{method} {plan}\n{text}\n{error.render()}") from None


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=40, **SETTINGS)
@given(st.one_of(straight(), loops()), st.data())
def test_what_is_accepted_holds(text: str, data) -> None:
    check(text, data)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=1500, **SETTINGS)
@given(st.one_of(straight(), loops()), st.data())
def test_what_is_accepted_holds_at_length(text: str, data) -> None:
    check(text, data)
