"""Random programs for the analysis: straight ones, and loops with a state that turns and shifts.

What makes the analysis hard is in them: data that may be 0 as coefficients and in conditions, equal
conditions in several places, lists that grow, variables that come back steps later, and work that goes on
after the loop. A seed gives a program: plain random numbers find faults sooner here than Hypothesis, which
repeats itself.
"""

import re
from random import Random

KINDS = ("real", "flag", "precision", "probability")
PRIORS = {
    "real": "gaussian(0., 2.)",
    "flag": "bernoulli(0.5)",
    "precision": "gamma(2., 2.)",
    "probability": "beta(2., 2.)",
}
# What a variable of a kind may be the parent of.
CHILDREN = {"real": "real", "flag": "flag", "precision": "real", "probability": "flag"}
VALUES = {"real": "y", "flag": "true", "precision": "1.1", "probability": "0.4"}


class Writer:
    """The lines of a block, and the variables in scope by kind."""

    def __init__(
        self, rng: Random, scope: dict[str, list[str]], tests: tuple[str, ...] = ("y < 0.3",)
    ) -> None:
        self.rng = rng
        self.scope = scope
        self.tests = tests
        self.lines: list[str] = []

    def some(self, kind: str) -> str:
        return self.rng.choice(self.scope[kind])

    def condition(self) -> str:
        """Asks for data, for the step or for a flag; now and then for a real number."""
        pool = [*self.tests, *self.scope["flag"] * 2]
        if self.scope["real"] and self.rng.random() < 0.15:
            pool.append(f"{self.some('real')} < 0.3")
        return self.rng.choice(pool)

    def mean(self) -> str:
        pool = self.scope["real"] or ["0.5"]
        a, b = self.rng.choice(pool), self.rng.choice([*pool, "0.5", "y"])
        simple = [a, a, a, f"2. * {a} - 1."]
        forms = [f"{a} + {b}", f"{a} - {b}", *[f"{a} * {b}"] * 3, f"y * {a}", f"y * {a} + {b}"]
        forms += [f"(if {self.condition()} then {a} else {b})"] * 3
        others = self.scope["precision"] + self.scope["flag"]
        if others:
            forms.append(f"{a} + {self.rng.choice(others)}")
        return self.rng.choice(simple if self.rng.random() < 0.5 else forms)

    def variance(self) -> str:
        if not self.scope["precision"] or self.rng.random() < 0.3:
            return "1."
        g, h = self.some("precision"), self.some("precision")
        forms = [f"1. / {g}"] * 4 + [f"2. / {g}", f"1. / {g} + 1. / {h}", f"(0.1 + y * y) / {g}"]
        forms.append(f"(if {self.condition()} then {self.rng.choice(['1.', f'1. / {h}'])} else 1. / {g})")
        return self.rng.choice(forms)

    def chance(self) -> str:
        forms = [f"(if {self.condition()} then 0.8 else 0.3)"]
        if self.scope["probability"]:
            p, q = self.some("probability"), self.some("probability")
            forms += [p, p, p, f"0.5 * {p}", f"(if {self.condition()} then {p} else {q})"]
        return self.rng.choice(forms)

    def distribution(self, kind: str) -> str:
        if kind == "real":
            if self.rng.random() < 0.05:
                return f"student_t({self.mean()}, 1., 3.)"
            return f"gaussian({self.mean()}, {self.variance()})"
        if kind == "flag":
            return f"bernoulli({self.chance()})"
        if kind == "precision":
            return f"gamma(2., {self.rng.choice(['2.', *self.scope['precision']])})"
        return "beta(2., 3.)"

    def seen(self) -> str:
        """An observation of something that depends on variables in scope."""
        kinds = [CHILDREN[kind] for kind in KINDS for _ in self.scope[kind]] or ["real"]
        kind = self.rng.choice(kinds)
        if kind == "flag" and self.scope["probability"] and self.rng.random() < 0.1:
            return f"observe(binomial(4., {self.some('probability')}), 2.)"
        if kind == "real" and self.scope["precision"] and self.rng.random() < 0.1:
            return f"observe(poisson({self.some('precision')}), 1.)"
        return f"observe({self.distribution(kind)}, {VALUES[kind]})"

    def write(self, prefix: str, count: int, favoured: str) -> None:
        for number in range(count):
            action = self.rng.choice(["assume", "assume", "observe", "observe", "branch", "let"])
            if action == "assume" or not any(self.scope.values()):
                kind = self.rng.choice([favoured, favoured, favoured, *KINDS])
                self.lines.append(f"let {prefix}{number} <- {self.distribution(kind)} in")
                self.scope[kind].append(f"{prefix}{number}")
            elif action == "let" and self.scope["real"]:
                # In an answer such a name would only cost time, so it begins with an `e`.
                self.lines.append(f"let e{prefix}{number} = {self.mean()} in")
                self.scope["real"].append(f"e{prefix}{number}")
            elif action == "branch":
                otherwise = self.rng.choice(["()", self.seen()])
                self.lines.append(f"let () = if {self.condition()} then {self.seen()} else {otherwise} in")
            else:
                self.lines.append(f"let () = {self.seen()} in")

    def variables(self) -> list[str]:
        return [name for kind in KINDS for name in self.scope[kind] if not name.startswith("e")]

    def answer(self) -> str:
        """Often not everything: what the answer leaves out, it does not ask for."""
        names = self.variables()
        kept = [name for name in names if self.rng.random() < 0.7]
        return ", ".join(kept or names[:1] or ["0."])


def _scope() -> dict[str, list[str]]:
    return {kind: [] for kind in KINDS}


def straight(rng: Random) -> str:
    writer = Writer(rng, _scope())
    writer.write("v", rng.randint(2, 7), rng.choice(KINDS))
    return "\n".join(["let y = List.hd(ys) in", *writer.lines, f"[{writer.answer()}]"])


def loop(rng: Random) -> str:
    """A register of up to three variables of a kind, which stays, turns or shifts; perhaps a variable of
    another kind; a history that the answer asks for, or none; perhaps a parent of the register that only the
    answer sees again, and work after the loop."""
    kind, other = rng.sample(KINDS, 2)
    register = [f"{kind[:3]}{place}" for place in range(rng.randint(1, 3))]
    single = [other[:3]] if rng.random() < 0.4 else []
    before = Writer(rng, _scope())
    before.lines.append("let y = 0.4 in")
    above = {"real": "real", "flag": "probability", "precision": "precision"}.get(kind)
    if above and rng.random() < 0.4:
        before.lines.append(f"let z <- {PRIORS[above]} in")
        before.scope[above].append("z")
    for name in register:
        prior = before.distribution(kind) if before.variables() else PRIORS[kind]
        before.lines.append(f"let {name} <- {prior} in")
    before.lines += [f"let {name} <- {PRIORS[other]} in" for name in single]
    inside = Writer(rng, {**_scope(), kind: list(register), other: list(single)}, ("y < 0.3", "n < 2."))
    inside.write("v", rng.choice([1, 1, 2, 2, 3, 4]), CHILDREN[kind])
    turned = [*register[1:], register[0]]
    shifted = [rng.choice(inside.scope[kind]), *register[:-1]]
    local = [name for name in inside.variables() if name.startswith("v")]
    state, after, start = ["n", *register, *single], ["n + 1."], ["0.", *register, *single]
    after += rng.choice([register, turned, turned, shifted])
    after += [rng.choice([name, inside.scope[other][-1]]) for name in single]
    keeps = rng.random() < 0.7
    if keeps:
        state, start = ["hs", *state], ["[]", *start]
        after = [f"{rng.choice(local or register)} :: hs", *after]
    outside = Writer(rng, {**_scope(), kind: list(register), other: list(single)})
    for name in before.variables():
        outside.scope[above].append(name)
    if rng.random() < 0.4:
        outside.write("w", rng.randint(1, 2), CHILDREN[kind])
    answer = "hs" if keeps and rng.random() < 0.3 else f"({outside.answer()}, {'hs' if keeps else '0.'})"
    return "\n".join(
        [
            f"val step = fun (y, ({', '.join(state)})) ->",
            *inside.lines,
            *(["let () = resample() in"] if rng.random() < 0.3 else []),
            f"({', '.join(after)})",
            "in",
            *before.lines,
            f"let ({', '.join(state)}) = fold(step, ys, ({', '.join(start)})) in",
            *outside.lines,
            answer,
        ]
    )


def ragged(seed: int) -> str:
    """A program whose history grows in some particles only: by data, by the step, or by a flag that has to be
    drawn for it."""
    rng = Random(seed)
    while ":: hs," not in (text := loop(rng)):
        pass
    flags = re.findall(r"let (\w+) <- bernoulli", text.split("\nin\n")[0])
    test = rng.choice(["y < 0.3", "n < 2.", *flags * 2])
    return re.sub(r"\((\w+) :: hs,", rf"((if {test} then \1 :: hs else hs),", text)


def gaps(seed: int) -> str:
    """A walk that is observed in some steps only; perhaps another one that leans on it, and an old state that
    is held; the answer may ask for the start."""
    rng = Random(seed)
    beside = ["u"] if rng.random() < 0.5 else []
    held = ["old"] if rng.random() < 0.5 else []
    names = ["x", *beside, *held]
    lines = ["let seen <- bernoulli(0.5) in"]
    lines.append(f"let x <- gaussian({rng.choice(['x', 'x', '0.9 * x + 1.', 'y * x'])}, 1.) in")
    lines += [f"let u <- gaussian({rng.choice(['u', 'u', 'x', 'u + x'])}, 1.) in" for _ in beside]
    for _ in range(rng.randint(0, 2)):
        test, name = rng.choice(["y < 0.3", "n < 2.", "seen"]), rng.choice(names)
        lines.append(f"let () = if {test} then observe(gaussian({name}, 1.), y) else () in")
    test, name = rng.choice(["n < 2.", "y < 0.3"]), rng.choice(["x", *beside])
    after = ["n + 1.", "x", *beside, *(f"(if {test} then {name} else old)" for _ in held)]
    asked = [name for name in ("z", *names) if rng.random() < 0.6] or ["x"]
    return "\n".join(
        [
            f"val step = fun (y, (n, {', '.join(names)})) ->",
            *lines,
            f"({', '.join(after)})",
            "in",
            "let z <- gaussian(0., 2.) in",
            *(f"let {name} = z in" for name in names),
            f"let (n, {', '.join(names)}) = fold(step, ys, (0., {', '.join(names)})) in",
            f"[{', '.join(asked)}]",
        ]
    )


def sensors(seed: int) -> str:
    """Two walks and a factor that up to three sensors see, each with a datum of its own, alone or as a
    vector: what the one draws the next need not."""
    rng = Random(seed)
    forms = ["x", "u", "x + u", "f * x", "f * f", "f", "x * u", "u - 2. * x", "(if f < 1. then x else u)"]
    lines = [
        f"let x <- gaussian({rng.choice(['x', 'x', 'x + u', 'f * x'])}, 1.) in",
        f"let u <- gaussian({rng.choice(['u', 'u', 'x'])}, {rng.choice(['1.', '1. / g'])}) in",
        *(["let f <- gaussian(1., 0.5) in"] if rng.random() < 0.5 else []),
    ]
    means = [rng.choice(forms) for _ in range(rng.randint(1, 3))]
    if len(means) == 2 and rng.random() < 0.6:
        noise = "[[1., 0.5], [0.5, 2.]]"
        lines.append(f"let () = observe(mv_gaussian([{', '.join(means)}], {noise}), [y[0], y[1]]) in")
    else:
        noises = [rng.choice(["1.", "1.", "1. / g"]) for _ in means]
        observed = zip(means, noises, strict=True)
        lines += [f"let () = observe(gaussian({m}, {v}), y[{n}]) in" for n, (m, v) in enumerate(observed)]
    asked = [name for name in "xufg" if rng.random() < 0.6] or ["x"]
    start = ["let f <- gaussian(1., 0.5) in", "let g <- gamma(2., 2.) in"]
    step = ["val step = fun (y, (x, u, f, g)) ->", *lines, "(x, u, f, g)", "in"]
    end = ["let (x, u, f, g) = fold(step, ys, (0., 1., f, g)) in", f"[{', '.join(asked)}]"]
    return "\n".join([*step, *start, *end])


def mapped(seed: int) -> str:
    """A random function of each datum, which sees variables outside; perhaps twice, perhaps work after it."""
    rng = Random(seed)
    before = Writer(rng, _scope())
    before.lines.append("let y = 0.4 in")
    before.write("z", rng.randint(1, 3), rng.choice(KINDS))
    inside = Writer(rng, {kind: list(names) for kind, names in before.scope.items()})
    inside.write("v", rng.choice([1, 2, 2, 3]), rng.choice(KINDS))
    local = [name for name in inside.variables() if name.startswith("v")] or ["y"]
    after = Writer(rng, before.scope)
    if rng.random() < 0.5:
        after.write("w", 1, rng.choice(KINDS))
    each = [
        "let each = fun y ->",
        *inside.lines,
        f"({', '.join(rng.sample(local, min(2, len(local))))})",
        "in",
    ]
    if rng.random() < 0.5:
        return "\n".join([*before.lines, *each, *after.lines, f"(List.map(each, ys), {after.answer()})"])
    again = ["let gs = List.map(each, ys) in"] if rng.random() < 0.3 else ["let gs = 0. in"]
    lines = [*before.lines, *each, "let hs = List.map(each, ys) in", *again, *after.lines]
    return "\n".join([*lines, f"({after.answer()}, hs, gs)"])


def program(seed: int) -> str:
    rng = Random(seed)
    return straight(rng) if rng.random() < 0.35 else loop(rng)
