"""A sampled switch chooses in each particle whose probabilities a distribution has: each goes by the rules as
if it were alone, which is also what the analysis says of it."""

import numpy as np
import pytest

import siren
from siren.analysis import analyze

DIRICHLETS = "let symbolic p <- dirichlet([1, 2, 3]) in let symbolic q <- dirichlet([2, 2, 1]) in"
BETA = "let symbolic p <- beta(2, 3) in let symbolic q <- beta(1, 1) in"
CHOICES = {
    "between dirichlets": (DIRICHLETS, "categorical(if s then p else q)"),
    "by place": (DIRICHLETS, "categorical([q, p][s])"),
    "of a dirichlet or numbers": (DIRICHLETS, "categorical(if s then p else [0.2, 0.3, 0.5])"),
    "of an order": (DIRICHLETS, "categorical(if s then p else [p[2], p[0], p[1]])"),
    "of an order or another": (DIRICHLETS, "categorical(if s then [p[1], p[0], p[2]] else q)"),
    "of a side": (BETA, "categorical(if s then [p, 1 - p] else [1 - p, p])"),
    "of a broken stick": (
        BETA,
        "categorical(if s then [p, 1 - p, 0] else [0.5 * p, 1 - p, 0.5 * p])",
    ),
}


@pytest.mark.parametrize("method", ["ssi", "ds"])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_keeps_what_every_particle_can_keep(choice: str, method: str) -> None:
    variables, distribution = CHOICES[choice]

    def program(switch: str) -> str:
        seen = "".join(f"let () = observe({distribution}, {value}) in " for value in (1, 0, 1))
        return f"let sample s <- {switch} in {variables} {seen} (p, q)"

    text = program("bernoulli(0.4)")
    result = siren.run(text, method=method, particles=20_000, seed=1)
    assert result.plan == {"s": "sample", "p": "symbolic", "q": "symbolic"}
    assert analyze(siren.parse(text), method).satisfiable
    # Alone, either side is exact.
    sides = [siren.run(program(f"delta({value})"), method=method, particles=1) for value in ("true", "false")]
    weights = np.array([0.4, 0.6]) * np.exp([side.log_evidence for side in sides])
    assert result.log_evidence == pytest.approx(np.log(weights.sum()), abs=0.02)
    for place in (0, 1):
        expected = sum(w * np.asarray(side[place].mean) for w, side in zip(weights, sides, strict=True))
        np.testing.assert_allclose(result[place].mean, expected / weights.sum(), atol=0.005)


def test_a_markov_chain_with_unknown_transitions_learns_them_by_counting() -> None:
    """States that are seen: rows are dirichlet posteriors, of counts."""
    states = [0, 1, 1, 2, 0, 0, 1, 2, 2, 2]
    program = """
    val step = fun (seen, (state, a, b, c)) ->
      let sample state <- categorical([a, b, c][state]) in
      let () = observe(delta(state), seen) in
      let () = resample() in
      (state, a, b, c)
    in
    let symbolic a <- dirichlet([1, 1, 1]) in
    let symbolic b <- dirichlet([1, 1, 1]) in
    let symbolic c <- dirichlet([1, 1, 1]) in
    let (state, a, b, c) = fold(step, states, (0, a, b, c)) in
    [a, b, c]
    """
    counts = np.ones((3, 3))
    np.add.at(counts, ([0, *states[:-1]], states), 1)
    for method in ("ssi", "ds"):
        result = siren.run(program, data={"states": states}, method=method, particles=500, seed=1)
        np.testing.assert_allclose(result[0].mean, counts / counts.sum(1, keepdims=True))
