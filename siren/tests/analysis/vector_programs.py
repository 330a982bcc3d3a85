"""Random programs of vectors, dirichlets and categories, chosen by conditions and by places in lists.

Beside `random_programs`, whose variables are numbers and flags: here a choice is between whole vectors, a
category decides it, a probability is a component, and a loop carries up to six variables of three kinds.
"""

from random import Random

# Parents come before what may depend on them.
KINDS = ("weights", "probability", "precision", "category", "flag", "vector", "real")
# What stands where no variable of the kind does, and what is observed of it.
CONSTANTS = {
    "vector": "[0, 1]",
    "weights": "[0.1, 0.1, 0.8]",
    "precision": "1",
    "real": "0.5",
    "probability": "0.3",
}
VALUES = {"vector": "[y, 1]", "category": "1", "flag": "true", "precision": "1.3", "real": "y"}


class Writer:
    """The lines of a block, and the variables in scope by kind."""

    def __init__(self, rng: Random, scope: dict[str, list[str]]) -> None:
        self.rng = rng
        self.scope = scope
        self.lines: list[str] = []

    def condition(self) -> str:
        pool = ["y < 0.3", *self.scope["flag"] * 2]
        pool += [f"{category} = {self.rng.randint(0, 2)}" for category in self.scope["category"] * 2]
        return self.rng.choice(pool)

    def some(self, kind: str) -> str:
        """A variable of the kind, or a choice between two: by a condition, or by a place in a list."""
        if not self.scope[kind]:
            return CONSTANTS[kind]
        a, b = self.rng.choice(self.scope[kind]), self.rng.choice([*self.scope[kind], CONSTANTS[kind]])
        how = self.rng.random()
        if how < 0.6:
            return a
        if how < 0.85:
            return f"(if {self.condition()} then {a} else {b})"
        places = [f"(if {self.condition()} then 0 else 1)"]
        places += [f"min({category}, 1)" for category in self.scope["category"]]
        return f"([{a}, {b}][{self.rng.choice(places)}])"

    def vector(self) -> str:
        forms = ["[0, 1]", self.some("vector"), self.some("vector")]
        forms += [f"[[1, y], [0, 1]] * {self.some('vector')}", f"[{self.some('real')}, {self.some('real')}]"]
        covariances = ["identity(2)", "[[2, 0.5], [0.5, 1]]", "(1 + y * y) * identity(2)"]
        return f"mv_gaussian({self.rng.choice(forms)}, {self.rng.choice(covariances)})"

    def category(self) -> str:
        forms = ["[0.2, 0.3, 0.5]", f"(if {self.condition()} then [0.7, 0.2, 0.1] else [0.1, 0.1, 0.8])"]
        for w in self.scope["weights"]:
            forms += [self.some("weights"), self.some("weights"), f"[{w}[1], {w}[0], {w}[2]]"]
        for p in self.scope["probability"]:
            forms += [f"[{p}, 0.5 * (1 - {p}), 0.5 * (1 - {p})]"] * 2
            forms.append(f"[min(1, y * y) * {p}, 1 - min(1, y * y) * {p}, 0]")
        return f"categorical({self.rng.choice(forms)})"

    def flag(self) -> str:
        forms = ["0.4", self.some("probability"), self.some("probability")]
        forms.append(f"if {self.condition()} then 0.9 else 0.2")
        forms += [f"{w}[0]" for w in self.scope["weights"]]
        return f"bernoulli({self.rng.choice(forms)})"

    def real(self) -> str:
        means = ["0.5", self.some("real"), self.some("real"), f"2 * {self.some('real')} - 1"]
        means.append(f"y * {self.some('real')}")
        if self.scope["vector"]:
            v, other = self.some("vector"), self.rng.choice(self.scope["vector"])
            means += [f"{v}[0]", f"{v}[0] + y * {other}[1]", f"dot([1, 2], {v})", f"{v}[0] - {other}[1]"] * 2
        means += [f"(if {c} = 0 then {self.some('real')} else 1)" for c in self.scope["category"]]
        g = self.some("precision")
        variances = ["1", f"1 / {g}", f"(1 + y * y) / {g}"]
        return f"gaussian({self.rng.choice(means)}, {self.rng.choice(variances)})"

    def precision(self) -> str:
        g = self.some("precision")
        return self.rng.choice(["gamma(2, 2)", f"gamma(2, {g})", f"exponential({g})"])

    def distribution(self, kind: str) -> str:
        match kind:
            case "weights":
                return f"dirichlet({self.rng.choice(['[1, 1, 1]', '[2, 1, 0.5]'])})"
            case "probability":
                return "beta(2, 2)"
        written: str = getattr(self, kind)()
        return written

    def seen(self) -> str:
        kind, how = self.rng.choice([*VALUES, "category", "real", "flag"]), self.rng.random()
        if how < 0.15 and self.scope["precision"]:
            return f"observe(poisson({self.some('precision')} * (1 + y * y)), {self.rng.randint(0, 3)})"
        if how < 0.22 and self.scope["probability"]:
            return f"observe(binomial(4, {self.some('probability')}), 2)"
        return f"observe({self.distribution(kind)}, {VALUES[kind]})"

    def assume(self, name: str, kind: str) -> None:
        self.lines.append(f"let {name} <- {self.distribution(kind)} in")
        self.scope[kind].append(name)

    def write(self, count: int, favoured: str) -> None:
        for number in range(count):
            action = self.rng.choice(["assume", "assume", "observe", "observe", "branch"])
            if action == "assume":
                self.assume(f"v{number}", self.rng.choice([*KINDS, *[favoured] * 5]))
            elif action == "observe":
                self.lines.append(f"let () = {self.seen()} in")
            else:
                otherwise = self.rng.choice(["()", self.seen()])
                self.lines.append(f"let () = if {self.condition()} then {self.seen()} else {otherwise} in")

    def variables(self) -> list[str]:
        return [name for kind in KINDS for name in self.scope[kind]]


def straight(rng: Random) -> str:
    writer = Writer(rng, {kind: [] for kind in KINDS})
    for kind in KINDS:
        if rng.random() < 0.5:
            writer.assume(kind, kind)
    writer.write(rng.randint(2, 5), rng.choice(KINDS))
    kept = [name for name in writer.variables() if rng.random() < 0.8] or ["0"]
    return "\n".join(["let y = ys[0] in", *writer.lines, f"({', '.join(kept)})"])


def loop(rng: Random) -> str:
    """One or two variables of up to three kinds, each of which stays or is the latest of its kind; a history,
    or a count."""
    before = Writer(rng, {kind: [] for kind in KINDS})
    kinds = sorted(rng.sample(KINDS, rng.randint(1, 3)), key=KINDS.index)
    state = {f"{kind}{place}": kind for kind in kinds for place in range(2)}
    state = {name: kind for name, kind in state.items() if name.endswith("0") or rng.random() < 0.5}
    for name, kind in state.items():
        before.assume(name, kind)
    inside = Writer(rng, {kind: list(names) for kind, names in before.scope.items()})
    inside.write(rng.randint(1, 4), rng.choice([*state.values()]))
    after = [rng.choice([name, inside.scope[kind][-1]]) for name, kind in state.items()]
    last, start, end = ("n", "0", "n + 1")
    if rng.random() < 0.4:
        last, start, end = "hs", "[]", f"{rng.choice(inside.variables())} :: hs"
    return "\n".join(
        [
            f"val step = fun (y, ({', '.join([*state, last])})) ->",
            *inside.lines,
            *(["let () = resample() in"] if rng.random() < 0.5 else []),
            f"({', '.join([*after, end])})",
            "in",
            "let y = 0.4 in",
            *before.lines,
            f"let ({', '.join([*state, last])}) = fold(step, ys, ({', '.join([*state, start])})) in",
            f"({', '.join([*state, last])})",
        ]
    )


def program(seed: int) -> str:
    rng = Random(seed)
    return straight(rng) if rng.random() < 0.4 else loop(rng)
