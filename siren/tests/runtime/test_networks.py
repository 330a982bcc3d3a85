"""Networks of discrete variables that all depend on each other, against all combinations of their values."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

import siren
from siren.errors import RunError, TooLargeError
from siren.symbolic import grid

Cell = tuple[int, ...]


@dataclass
class Network:
    """Variables of so many values each, some of them observed; `rows[i]` has the probabilities of variable i
    for all values of its parents."""

    sizes: list[int]
    parents: list[list[int]]
    rows: list[dict[Cell, np.ndarray]]
    seen: dict[int, int] = field(default_factory=dict)

    @property
    def hidden(self) -> list[int]:
        return [i for i in range(len(self.sizes)) if i not in self.seen]

    def program(self, answer: str) -> str:
        lines = []
        for i, size in enumerate(self.sizes):
            row = self._choice(i, ())
            family = f"bernoulli({row})" if size == 2 else f"categorical({row})"
            value = ("false", "true")[self.seen.get(i, 0)] if size == 2 else str(self.seen.get(i))
            lines.append(
                f"let () = observe({family}, {value}) in" if i in self.seen else f"let v{i} <- {family} in"
            )
        return "\n".join([*lines, answer])

    def _choice(self, i: int, known: Cell) -> str:
        if len(known) == len(self.parents[i]):
            row = [float(p) for p in self.rows[i][known]]
            return repr(row[1]) if len(row) == 2 else repr(row)
        parent = self.parents[i][len(known)]
        *sides, last = [self._choice(i, (*known, value)) for value in range(self.sizes[parent])]
        tests = [f"if v{parent} = {value} then {side} else " for value, side in enumerate(sides)]
        return f"({''.join(tests)}{last})"

    def posterior(self) -> tuple[np.ndarray, np.ndarray, float]:
        """All combinations of the hidden variables, their probabilities, and the evidence."""
        cells = np.array(list(itertools.product(*(range(self.sizes[i]) for i in self.hidden))))
        chances = np.empty(len(cells))
        for number, cell in enumerate(cells):
            values = self.seen | dict(zip(self.hidden, cell.tolist(), strict=True))
            chances[number] = np.prod(
                [
                    self.rows[i][tuple(values[p] for p in self.parents[i])][values[i]]
                    for i in range(len(self.sizes))
                ]
            )
        return cells.astype(float), chances / chances.sum(), float(np.log(chances.sum()))


def network(rng: np.random.Generator, sizes: list[int], zeros: float, seen: int, full: bool) -> Network:
    """The last variables are observed, at values that are possible, and depend on all others; these depend
    on all before them if it is `full`, else on some."""
    hidden = len(sizes) - seen
    parents = [
        [j for j in range(min(i, hidden)) if full or i >= hidden or rng.random() < 0.5]
        for i in range(len(sizes))
    ]
    rows: list[dict[Cell, np.ndarray]] = []
    for i, size in enumerate(sizes):
        rows.append({})
        for cell in itertools.product(*(range(sizes[p]) for p in parents[i])):
            weights = rng.random(size) * (rng.random(size) >= zeros)
            weights[rng.integers(size)] += 0.1
            rows[i][cell] = weights / weights.sum()
    # A draw from the network, so that what is observed can be.
    draw: list[int] = []
    for i, size in enumerate(sizes):
        draw.append(int(rng.choice(size, p=rows[i][tuple(draw[p] for p in parents[i])])))
    return Network(sizes, parents, rows, {i: draw[i] for i in range(hidden, len(sizes))})


def require_exact(net: Network) -> None:
    """Every variable, and numbers that all of them share."""
    names = [f"v{i}" for i in net.hidden]
    total = " + ".join(f"{place + 1} * {name}" for place, name in enumerate(names))
    answer = f"({', '.join(names)}, {total}, if {names[0]} < {names[-1]} then {total} else 0 - {names[0]})"
    result = siren.run(net.program(answer), particles=1, seed=0)
    cells, chances, evidence = net.posterior()
    sums = cells @ np.arange(1, len(names) + 1)
    values = np.column_stack([cells, sums, np.where(cells[:, 0] < cells[:, -1], sums, -cells[:, 0])])
    mean = chances @ values
    assert set(result.plan.values()) == {"symbolic"}
    assert result.log_evidence == pytest.approx(evidence, abs=1e-9)
    np.testing.assert_allclose([output.mean for output in result], mean, rtol=0, atol=1e-9)
    variance = chances @ np.square(values - mean)
    np.testing.assert_allclose([output.sd**2 for output in result], variance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("count", [3, 5, 6, 8])
def test_everyone_depends_on_all_before(count: int, zeros: float) -> None:
    rng = np.random.default_rng(count)
    require_exact(network(rng, [2] * (count + 1), zeros, seen=1, full=True))


@pytest.mark.parametrize("seed", range(20))
def test_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.choice([2, 2, 3], size=rng.integers(3, 7))]
    seen = int(rng.integers(1, 3))
    require_exact(network(rng, [*sizes, *[2, 3][:seen]], rng.choice([0.0, 0.3, 0.6]), seen, full=False))


def full(count: int, zeros: float = 0.2) -> Network:
    return network(np.random.default_rng(0), [2] * (count + 1), zeros, seen=1, full=True)


def test_each_particle_has_its_own_numbers() -> None:
    """Of the drawn variable only the share is left to chance."""
    net = full(6, zeros=0)
    program = net.program("(v0, v2 + 2 * v5)").replace("let v0 <-", "let sample v0 <-")
    drawn, total = siren.run(program, particles=50, seed=0)
    cells, chances, _ = net.posterior()
    given = [chances * (cells[:, 0] == value) for value in (0, 1)]
    off, on = [p @ (cells[:, 2] + 2 * cells[:, 5]) / p.sum() for p in given]
    assert total.mean == pytest.approx(drawn.mean * on + (1 - drawn.mean) * off, abs=1e-9)


def test_quantiles_are_those_of_all_combinations() -> None:
    net = full(5)
    (total,) = siren.run(net.program("v0 - 2 * v1 + 3 * v2 + v3 * v4"), particles=1, seed=0)
    cells, chances, _ = net.posterior()
    v = cells.T
    values = v[0] - 2 * v[1] + 3 * v[2] + v[3] * v[4]
    order = np.argsort(values)
    for q in (0.03, 0.2, 0.5, 0.77, 0.96):
        exact = values[order][np.searchsorted(np.cumsum(chances[order]), q)]
        assert total.quantile(q) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("most", [grid._MOST_NUMBERS, 3000])
def test_draws_are_joint_also_where_few_are_made_at_a_time(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    net, n = full(6), 4000
    result = siren.run(net.program("(v0, v1, v2, v3, v4, v5)"), particles=1, seed=0)
    monkeypatch.setattr(grid, "_MOST_NUMBERS", most)
    drawn = np.column_stack([output.draws(n) for output in result])
    cells, chances, _ = net.posterior()
    code = 2 ** np.arange(6)
    found = np.bincount((drawn @ code).astype(int), minlength=64)[(cells @ code).astype(int)] / n
    assert np.all(found[chances == 0] == 0)
    assert np.all(np.abs(found - chances) < 5 * np.sqrt(chances * (1 - chances) / n) + 1e-12)


def test_what_is_divided_by_0_only_where_that_is_impossible() -> None:
    net = full(4)
    sure = net.program("1 / (v0 + v1 + v2)").replace(
        "1 /", "let () = observe(bernoulli(if v0 + v1 + v2 > 0 then 1 else 0), true) in 1 /"
    )
    (inverse,) = siren.run(sure, particles=1, seed=0)
    cells, chances, _ = net.posterior()
    sums = cells[:, :3].sum(axis=1)
    possible = sums > 0
    exact = chances[possible] @ (1 / sums[possible]) / chances[possible].sum()
    assert inverse.mean == pytest.approx(exact, abs=1e-9)
    (share,) = siren.run(net.program("v0 / (v1 + v2)"), particles=1, seed=0)
    assert np.isnan(share.mean)


CHAINS = """
val step = fun (y, (a, b, c, d)) ->
  let a <- bernoulli(if a then 0.9 else 0.2) in
  let b <- bernoulli(if b then 0.7 else 0.1) in
  let c <- bernoulli(if c then 0.8 else 0) in
  let d <- bernoulli(if a && d then 1 else 0.3) in
  let () = observe(bernoulli(if a || b then if c = d then 0.9 else 0.2 else 0), y) in
  let () = resample() in
  (a, b, c, d)
in
let a <- bernoulli(0.5) in
let b <- bernoulli(0.5) in
let c <- bernoulli(0.5) in
let d <- bernoulli(0.5) in
fold(step, ys, (a, b, c, d))
"""


def test_chains_that_are_observed_together() -> None:
    """Against the forward algorithm over all their states."""
    states = list(itertools.product((0, 1), repeat=4))
    ys = [True, False, True, True, False, True] * 3

    def step(old: Cell, new: Cell) -> float:
        rates = (0.9 if old[0] else 0.2, 0.7 if old[1] else 0.1, 0.8 if old[2] else 0.0)
        rates = (*rates, 1.0 if new[0] and old[3] else 0.3)
        return float(np.prod([rate if on else 1 - rate for rate, on in zip(rates, new, strict=True)]))

    moves = np.array([[step(old, new) for new in states] for old in states])
    seen = np.array([(0.9 if c == d else 0.2) if a or b else 0.0 for a, b, c, d in states])
    belief, evidence = np.full(16, 1 / 16), 0.0
    for y in ys:
        belief = belief @ moves * (seen if y else 1 - seen)
        evidence += np.log(belief.sum())
        belief /= belief.sum()
    result = siren.run(CHAINS, data={"ys": ys}, particles=1, seed=0)
    assert result.log_evidence == pytest.approx(evidence, abs=1e-9)
    np.testing.assert_allclose([output.mean for output in result], belief @ np.array(states), atol=1e-9)


def test_data_that_no_combination_explains() -> None:
    coins = "\n".join(f"let v{i} <- bernoulli(0.5) in" for i in range(6))
    most = "let () = observe(bernoulli(if v0 + v1 + v2 + v3 + v4 + v5 > 4 then 1 else 0), true) in"
    pair = "let () = observe(bernoulli(if v0 || v5 then 0 else 1), true) in"
    with pytest.raises(RunError, match="its probability under bernoulli"):
        siren.run(f"{coins}\n{most}\n{pair}\nv0", particles=1, seed=0)


def test_too_many_combinations_are_refused_by_name() -> None:
    names = [f"v{i}" for i in range(12)]
    dice = "\n".join(f"let {name} <- uniform_int(1, 6) in" for name in names)
    event = f"let () = observe(bernoulli(if {' + '.join(names)} > 30 then 1 else 0), true) in"
    with pytest.raises(TooLargeError, match="the values that `v0`"):
        siren.run(f"{dice}\n{event}\n({', '.join(names)})", particles=1, seed=0)
