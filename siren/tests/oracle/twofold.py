"""Random programs, each written twice: in Siren, and as NumPy code that draws everything and weighs it.

The second reading shares nothing with Siren: no parser, no graph, no distribution class. `if` is `np.where`,
an observation adds the log density of SciPy, and a particle that divides by zero or has an undefined density
weighs nothing.
"""

from dataclasses import dataclass, field
from random import Random

KINDS = ("real", "positive", "chance", "flag", "count")


@dataclass(frozen=True)
class Code:
    """The same expression in both languages."""

    siren: str
    numpy: str


def both(text: str) -> Code:
    return Code(text, text)


def call(siren: str, numpy: str, *parts: Code) -> Code:
    """Templates with `{0}`, `{1}` for the parts."""
    return Code(siren.format(*(p.siren for p in parts)), numpy.format(*(p.numpy for p in parts)))


@dataclass
class Program:
    siren: str
    numpy: str
    variables: list[str]
    outputs: int


@dataclass
class Writer:
    """Writes statements; `scope` has the names of each kind."""

    rng: Random
    scope: dict[str, list[Code]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    siren: list[str] = field(default_factory=list)
    numpy: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    prefix: str = "v"
    depth: int = 0

    # Expressions --------------------------------------------------------------------------------------------

    def pick(self, kind: str) -> Code:
        return self.rng.choice(self.scope[kind])

    def some(self, kind: str, otherwise: str) -> Code:
        return self.pick(kind) if self.scope[kind] and self.rng.random() < 0.85 else both(otherwise)

    def number(self) -> Code:
        """Any variable as a number, or a constant."""
        pool = [*self.scope["real"] * 2, *self.scope["positive"], *self.scope["count"]]
        pool += [call("(if {0} then 1 else 0)", "(1.0 * {0})", flag) for flag in self.scope["flag"]]
        return self.rng.choice(pool) if pool and self.rng.random() < 0.85 else both("0.7")

    def condition(self) -> Code:
        pool = list(self.scope["flag"]) * 2
        for kind, bound in (("real", "0.3"), ("positive", "1.1"), ("count", "2"), ("chance", "0.5")):
            pool += [call("{0} < " + bound, "({0} < " + bound + ")", name) for name in self.scope[kind]]
        if not pool:
            return Code("true", "True")
        test = self.rng.choice(pool)
        if self.rng.random() < 0.15:
            other = self.rng.choice(pool)
            joined = self.rng.choice([("{0} && {1}", "({0} & {1})"), ("{0} || {1}", "({0} | {1})")])
            test = call(f"({joined[0]})", joined[1], test, other)
        return call("not {0}", "np.logical_not({0})", test) if self.rng.random() < 0.1 else test

    def choice(self, then: Code, otherwise: Code) -> Code:
        return call(
            "(if {0} then {1} else {2})", "np.where({0}, {1}, {2})", self.condition(), then, otherwise
        )

    def mean(self) -> Code:
        a, b = self.some("real", "0.5"), self.number()
        forms = [a] * 4
        forms += [call(f, f, a, b) for f in ("({0} + {1})", "(2 * {0} - {1})", "({0} * {1})", "({0} * {0})")]
        forms += [call("({0} - {0} + {1})", "{1}", a, b), call("abs({0})", "np.abs({0})", a)]
        forms += [self.choice(a, b)] * 2
        return self.rng.choice(forms)

    def variance(self) -> Code:
        g, h = self.some("positive", "1.5"), self.some("positive", "0.8")
        forms = [both("1"), both("0.6"), *[call("1 / {0}", "1 / {0}", g)] * 3]
        forms += [call("2 / {0}", "2 / {0}", g), call("(0.5 + {0})", "(0.5 + {0})", g)]
        forms += [self.choice(both("1"), call("1 / {0}", "1 / {0}", g))] * 2
        forms.append(self.choice(call("1 / {0}", "1 / {0}", h), call("1 / {0}", "1 / {0}", g)))
        return self.rng.choice(forms)

    def probability(self) -> Code:
        p, q = self.some("chance", "0.4"), self.some("chance", "0.7")
        forms = [p, p, p, call("(1 - {0})", "(1 - {0})", p), call("0.5 * {0}", "0.5 * {0}", p)]
        forms += [self.choice(p, q), self.choice(both("0.8"), both("0.3"))]
        return self.rng.choice(forms)

    def rate(self) -> Code:
        g = self.some("positive", "1.2")
        return self.rng.choice([g, g, call("2 * {0}", "2 * {0}", g), self.choice(g, both("0.9"))])

    # Distributions ------------------------------------------------------------------------------------------

    def distribution(self, kind: str) -> tuple[Code, str]:
        """Siren's call and the NumPy arguments, and the name under which `brute` knows it."""
        rng = self.rng
        if kind == "real":
            family = rng.choice(["gaussian"] * 8 + ["student_t", "laplace", "uniform"])
            mean = self.mean()
            if family == "gaussian":
                return call("{0}, {1}", "{0}, {1}", mean, self.variance()), family
            tail = {"student_t": "{0}, 1, 9", "laplace": "{0}, 0.5", "uniform": "{0} - 1, {0} + 1"}[family]
            return call(tail, tail, mean), family
        if kind == "positive":
            family = rng.choice(["gamma"] * 3 + ["lognormal"])
            if family == "lognormal":
                return call("0.3 * {0}, 0.2", "0.3 * {0}, 0.2", self.some("real", "0.5")), family
            return call("5, {0}", "5, {0}", self.rng.choice([both("4"), both("3"), self.rate()])), family
        if kind == "chance":
            return both(rng.choice(["2, 3", "1, 1", "4, 2"])), "beta"
        if kind == "flag":
            return self.probability(), "bernoulli"
        family = rng.choice(["poisson", "binomial", "categorical"])
        if family == "poisson":
            return self.rate(), family
        if family == "binomial":
            return call("4, {0}", "4, {0}", self.probability()), family
        p = self.some("chance", "0.3")
        return call("0, 2, [0.5 * {0}, 1 - {0}, 0.5 * {0}]", "[0.5 * {0}, 1 - {0}, 0.5 * {0}]", p), family

    # Statements ---------------------------------------------------------------------------------------------

    def assume(self, name: str, kind: str) -> None:
        arguments, family = self.distribution(kind)
        self.siren.append(f"let {name} <- {family}({arguments.siren}) in")
        self.numpy.append(f"{name} = draw_{family}({arguments.numpy})")
        self.scope[kind].append(both(name))
        if name not in self.variables:
            self.variables.append(name)

    def observation(self) -> tuple[str, str]:
        """`observe(...)` in Siren and the log density in NumPy."""
        kind = self.rng.choice([k for k in KINDS for _ in self.scope[k]] or ["real"])
        kind = self.rng.choice([kind, {"positive": "real", "chance": "flag"}.get(kind, kind)])
        arguments, family = self.distribution(kind)
        values = {"real": ["0.4", "1.3"], "positive": ["0.9"], "chance": ["0.3"], "flag": ["1", "0"]}
        value = self.rng.choice(values.get(kind, ["1", "2"]))
        if kind == "real" and self.rng.random() < 0.05 and self.scope["real"]:
            # Undefined for some particles.
            root = self.rng.choice(["sqrt", "log"])
            a = self.pick("real")
            arguments = Code(f"{root}({a.siren} + 1), 1", f"np.{root}({a.numpy} + 1), 1")
            family = "gaussian"
        if kind == "count" and self.rng.random() < 0.15:
            value = self.rng.choice(["-1", "7", "1.5"]) if self.rng.random() < 0.3 else "4"
        return f"observe({family}({arguments.siren}), {value})", f"logp_{family}({value}, {arguments.numpy})"

    def observe(self) -> None:
        siren, numpy = self.observation()
        self.siren.append(f"let () = {siren} in")
        self.numpy.append(f"weigh({numpy})")

    def branch(self) -> None:
        test = self.condition()
        (a, b), (c, d) = self.observation(), self.observation()
        if self.rng.random() < 0.3:
            c, d = "()", "0.0"
        if self.rng.random() < 0.25:  # nested
            inner, (e, f) = self.condition(), self.observation()
            a, b = f"(if {inner.siren} then {a} else {e})", f"np.where({inner.numpy}, {b}, {f})"
        self.siren.append(f"let () = if {test.siren} then {a} else {c} in")
        self.numpy.append(f"weigh(np.where({test.numpy}, {b}, {d}))")

    def let(self, name: str) -> None:
        value = self.rng.choice([self.mean(), self.choice(self.number(), self.number())])
        self.siren.append(f"let {name} = {value.siren} in")
        self.numpy.append(f"{name} = {value.numpy}")
        self.scope["real"].append(both(name))

    def write(self, count: int, favourite: str) -> None:
        for number in range(count):
            name = f"{self.prefix}{number}"
            action = self.rng.choice(["assume"] * 4 + ["observe"] * 2 + ["branch", "let", "resample"])
            if action == "assume" or not any(self.scope.values()):
                self.assume(name, self.rng.choice([favourite, favourite, *KINDS]))
            elif action == "observe":
                self.observe()
            elif action == "branch":
                self.branch()
            elif action == "let":
                self.let(name)
            elif self.rng.random() < 0.3:
                self.siren.append("let () = resample() in")

    def output(self) -> Code:
        """A number of the answer, often not linear."""
        plain = [
            *self.scope["real"] * 3,
            *self.scope["positive"] * 2,
            *self.scope["chance"],
            *self.scope["count"],
        ]
        flags = [call("(if {0} then 1 else 0)", "(1.0 * {0})", flag) for flag in self.scope["flag"]]
        pool = plain + flags or [both("1")]
        a, b = self.rng.choice(pool), self.rng.choice(pool)
        forms = [a] * 5 + [call(f, f, a, b) for f in ("({0} + {1})", "{0} * {1}", "({0} - 2 * {1})")]
        forms += [self.choice(a, b), self.choice(both("3"), both("0")), self.choice(both("2"), b)]
        forms += [call("exp(0.3 * {0})", "np.exp(0.3 * {0})", g) for g in self.scope["chance"]]
        forms += [call("log({0})", "np.log({0})", g) for g in self.scope["positive"]] * 2
        forms += [call("1 / {0}", "1 / {0}", g) for g in self.scope["positive"]]
        return self.rng.choice(forms)


def straight(rng: Random) -> Writer:
    writer = Writer(rng)
    writer.write(rng.randint(3, 8), rng.choice(KINDS))
    return writer


def looping(rng: Random) -> Writer:
    """Two state variables go through a function, once for each of a few numbers."""
    writer = Writer(rng)
    kinds = [rng.choice(KINDS), rng.choice(KINDS)]
    for name, kind in zip(("a", "b"), kinds, strict=True):
        writer.assume(name, kind)
    inside = Writer(rng, prefix="w")
    inside.scope["real"].append(both("y"))
    for name, kind in zip(("a", "b"), kinds, strict=True):
        inside.scope[kind].append(both(name))
    inside.write(rng.randint(1, 4), rng.choice(kinds))
    after = [inside.pick(kind) for kind in kinds]
    rows = [f"{rng.choice([0.2, 1.0, 2.0])}" for _ in range(rng.randint(1, 3))]
    function = ["val step = fun (y, (a, b)) ->", *inside.siren, f"({after[0].siren}, {after[1].siren})", "in"]
    writer.siren = [*function, *writer.siren, f"let (a, b) = fold(step, [{', '.join(rows)}], (a, b)) in"]
    for row in rows:
        writer.numpy += [f"y = {row}", *inside.numpy, f"a, b = {after[0].numpy}, {after[1].numpy}"]
    writer.variables += inside.variables
    if rng.random() < 0.4:
        writer.write(rng.randint(1, 2), rng.choice(KINDS))
    return writer


def late(rng: Random) -> Writer:
    """Nothing is observed, so only the answer asks: it finds means that are not linear, draws, and then finds
    that the particles differ."""
    writer = Writer(rng)
    writer.assume("v0", "real")
    writer.assume("v1", "positive")
    for number in range(2, rng.randint(4, 6)):
        newest, x = writer.scope["real"][-1], writer.pick("real")
        mean = rng.choice([call("({0} * {1})", "({0} * {1})", newest, x), newest, x])
        precise = call("1 / {0}", "1 / {0}", both("v1"))
        test = rng.choice([both("(v0 < 0.3)"), writer.condition()])
        choice = call("(if {0} then 1 else {1})", "np.where({0}, 1, {1})", test, precise)
        spread = precise if number == 2 else rng.choice([choice, choice, precise])
        writer.siren.append(f"let v{number} <- gaussian({mean.siren}, {spread.siren}) in")
        writer.numpy.append(f"v{number} = draw_gaussian({mean.numpy}, {spread.numpy})")
        writer.scope["real"].append(both(f"v{number}"))
        writer.variables.append(f"v{number}")
    return writer


def program(seed: int) -> Program:
    rng = Random(seed)
    writer = rng.choices([straight, looping, late], [50, 30, 20])[0](rng)
    if not any("observe" in line for line in writer.siren):
        outputs = [writer.pick("real") if writer.scope["real"] else writer.output() for _ in range(3)]
    else:
        outputs = [writer.output() for _ in range(rng.randint(1, 3))]
    siren = "\n".join([*writer.siren, f"[{', '.join(code.siren for code in outputs)}]"])
    numpy = "\n".join([*writer.numpy, f"outputs = [{', '.join(code.numpy for code in outputs)}]"])
    return Program(siren, numpy, writer.variables, len(outputs))
