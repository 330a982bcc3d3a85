"""Random programs with records, functions without a name and lists that differ in length, each written twice.

The NumPy reading knows no structures: a field is an array of its own, and a list has one reading for each way
that it can have come about.
"""

from dataclasses import dataclass, field
from random import Random

from twofold import Code, Program, Writer, both, call


@dataclass
class Listed:
    """A list: its name, and what it holds under which condition, in NumPy."""

    name: str
    ways: list[tuple[str, list[str]]]


@dataclass
class Structured(Writer):
    lists: list[Listed] = field(default_factory=list)
    count: int = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def element(self) -> Code:
        return self.rng.choice([self.mean(), self.number()])

    def named(self, code: Code) -> str:
        """The NumPy value under a name of its own: names of the program may be bound again."""
        name = self.fresh("n_")
        self.numpy.append(f"{name} = {code.numpy}")
        return name

    # Statements ---------------------------------------------------------------------------------------------

    def record(self) -> None:
        """Two fields, perhaps one of them changed, perhaps one of two records by a condition."""
        name, parts = self.fresh("r"), [self.element(), self.element()]
        siren = f"{{x = {parts[0].siren}, y = {parts[1].siren}}}"
        values = [self.named(part) for part in parts]
        if self.rng.random() < 0.5:
            test, others = self.condition(), [self.element(), self.element()]
            siren = f"if {test.siren} then {siren} else {{y = {others[1].siren}, x = {others[0].siren}}}"
            values = [f"np.where({test.numpy}, {a}, {b.numpy})" for a, b in zip(values, others, strict=True)]
            values = [self.named(Code("", value)) for value in values]
        self.siren.append(f"let {name} = {siren} in")
        if self.rng.random() < 0.4:
            changed = self.element()
            self.siren.append(f"let {name} = {{{name} with y = {changed.siren}}} in")
            values[1] = self.named(changed)
        if self.rng.random() < 0.4:
            self.siren.append(f"let {{x = {name}x, y = {name}y}} = {name} in")
            names = [f"{name}x", f"{name}y"]
        else:
            names = [f"{name}.x", f"{name}.y"]
        self.scope["real"] += [Code(siren, numpy) for siren, numpy in zip(names, values, strict=True)]

    def function(self) -> None:
        """A function of one number that sees variables around it, called once or twice."""
        name, a, b = self.fresh("f"), self.element(), self.number()
        self.siren.append(f"let {name} = fun z -> {a.siren} + z * {b.siren} in")
        a_, b_ = self.named(a), self.named(b)
        for _ in range(self.rng.randint(1, 2)):
            given, result = self.number(), self.fresh("c")
            self.siren.append(f"let {result} = {name}({given.siren}) in")
            self.numpy.append(f"{result} = {a_} + {given.numpy} * {b_}")
            self.scope["real"].append(both(result))

    def list(self) -> None:
        name, test = self.fresh("l"), self.condition()
        if self.lists and self.rng.random() < 0.6:
            old, item = self.rng.choice(self.lists), self.element()
            at_end = f"List.rev({item.siren} :: List.rev({old.name}))"
            grown = self.rng.choice([f"{item.siren} :: {old.name}", at_end])
            siren, value = f"if {test.siren} then {grown} else {old.name}", self.named(item)
            first = grown is not at_end
            yes = [(way, [value, *items] if first else [*items, value]) for way, items in old.ways]
            no = old.ways
        else:
            sides = [[self.element() for _ in range(self.rng.randint(0, 2))] for _ in range(2)]
            texts = [f"[{', '.join(item.siren for item in side)}]" for side in sides]
            siren = f"if {test.siren} then {texts[0]} else {texts[1]}"
            yes, no = ([("True", [self.named(item) for item in side])] for side in sides)
        held = self.named(test)
        self.siren.append(f"let {name} = {siren} in")
        ways = [(f"({held} & {way})", items) for way, items in yes]
        ways += [(f"(np.logical_not({held}) & {way})", items) for way, items in no]
        self.lists.append(Listed(name, ways))

    def reading(self) -> None:
        """A number that is made of a list."""
        listed, result = self.rng.choice(self.lists), self.fresh("s")
        form = self.rng.choice(["sum", "length", "head", "map", "filter"])
        if form == "sum":
            siren, item = f"fold(fun (z, s) -> 0.5 * s + z, {listed.name}, 0)", "0.5 * {s} + {z}"
        elif form == "map":
            a = self.number()
            mapped = f"List.map(fun z -> z * {a.siren}, {listed.name})"
            siren, item = f"fold(fun (z, s) -> s + z, {mapped}, 0)", f"{{s}} + {{z}} * {self.named(a)}"
        elif form == "filter":
            kept = f"List.filter(fun z -> z < 0.5, {listed.name})"
            siren, item = f"fold(fun (z, s) -> s + z, {kept}, 0)", "{s} + np.where({z} < 0.5, {z}, 0)"
        elif form == "length":
            siren, item = f"List.len({listed.name})", "{s} + 1"
        else:
            siren, item = f"(if List.len({listed.name}) > 0 then List.hd({listed.name}) else 0)", "{z}"
        total = "0.0"
        for way, items in listed.ways:
            s = "0.0"
            for z in items[:1] if form == "head" else items:
                s = f"({item.format(s=s, z=z)})"
            total = f"np.where({way}, {s}, {total})"
        self.siren.append(f"let {result} = {siren} in")
        self.numpy.append(f"{result} = {total}")
        self.scope["real"].append(both(result))

    def weighing(self) -> None:
        """An observation for each element."""
        listed, spread = self.rng.choice(self.lists), self.variance()
        observed = f"observe(gaussian(0.3 * z, {spread.siren}), 0.4)"
        self.siren.append(f"let () = fold(fun (z, ()) -> {observed}, {listed.name}, ()) in")
        spread_ = self.named(spread)
        total = "0.0"
        for way, items in listed.ways:
            score = " + ".join(f"logp_gaussian(0.4, 0.3 * {z}, {spread_})" for z in items) or "0.0"
            total = f"np.where({way}, {score}, {total})"
        self.numpy.append(f"weigh({total})")


def program(seed: int) -> Program:
    rng = Random(seed)
    writer = Structured(rng)
    writer.write(rng.randint(2, 4), rng.choice(["real", "flag"]))
    for _ in range(rng.randint(2, 5)):
        actions = [writer.record, writer.function, writer.list]
        if writer.lists:
            actions += [writer.reading, writer.reading, writer.weighing]
        rng.choice(actions)()
        if rng.random() < 0.2:
            writer.siren.append("let () = resample() in")
    if writer.lists:
        writer.reading()
    if rng.random() < 0.5:
        writer.prefix = "w"
        writer.write(1, "real")
    outputs = [writer.output() for _ in range(rng.randint(1, 2))]
    outputs.append(writer.scope["real"][-1] if writer.scope["real"] else call("1", "1"))
    siren = "\n".join([*writer.siren, f"[{', '.join(code.siren for code in outputs)}]"])
    numpy = "\n".join([*writer.numpy, f"outputs = [{', '.join(code.numpy for code in outputs)}]"])
    return Program(siren, numpy, writer.variables, len(outputs))
