"""Parameters of a stochastic-volatility model, learnt by SMC² here and in the package `particles`.

`pip install particles`, then `python -m benchmarks.learning --output benchmarks/results`. Same data, same
prior, same numbers of values, particles and moves; the two take turns in one process.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.machine import machine
from siren.learn import smc2

Array = NDArray[np.float64]
TRUTH: Final = {"mu": -1.0, "rho": 0.95, "sigma": 0.25}
PROGRAM: Final = """
val step = fun (y, (x, mu, rho, sigma)) ->
  let sample x <- gaussian(mu + rho * (x - mu), sigma * sigma) in
  let () = observe(gaussian(0, exp(x)), y) in
  let () = resample() in
  (x, mu, rho, sigma)
in
let sample mu <- gaussian(0, 4) in
let sample rho <- beta(9, 1) in
let sample sigma <- gamma(2, 4) in
let sample x <- gaussian(mu, sigma * sigma / (1 - rho * rho)) in
let (x, mu, rho, sigma) = fold(step, ys, (x, mu, rho, sigma)) in
(x, mu, rho, sigma)
"""


def simulate(steps: int, seed: int) -> Array:
    """Returns whose log variance is a slow random walk around mu."""
    rng = np.random.default_rng(seed)
    mu, rho, sigma = TRUTH.values()
    x = mu + sigma / np.sqrt(1 - rho**2) * rng.normal()
    ys = np.empty(steps)
    for t in range(steps):
        x = mu + rho * (x - mu) + sigma * rng.normal()
        ys[t] = np.exp(x / 2) * rng.normal()
    return ys


def here(ys: Array, values: int, particles: int, moves: int, seed: int) -> dict[str, Any]:
    started = time.process_time()
    learned = smc2(
        PROGRAM, data={"ys": ys}, parameters=list(TRUTH), values=values, particles=particles, moves=moves,
        seed=seed,
    )  # fmt: skip
    found = {name: [learned.mean(name), learned.sd(name)] for name in TRUTH}
    return {"seconds": time.process_time() - started, "log_evidence": learned.log_evidence, **found}


def there(ys: Array, values: int, count: int, moves: int, seed: int) -> dict[str, Any]:
    import particles
    from particles import distributions as dists
    from particles import smc_samplers
    from particles.state_space_models import StateSpaceModel

    class Volatility(StateSpaceModel):  # type: ignore[misc,unused-ignore]
        def PX0(self) -> Any:
            return dists.Normal(loc=self.mu, scale=self.sigma / np.sqrt(1 - self.rho**2))

        def PX(self, t: int, xp: Array) -> Any:
            return dists.Normal(loc=self.mu + self.rho * (xp - self.mu), scale=self.sigma)

        def PY(self, t: int, xp: Array, x: Array) -> Any:
            return dists.Normal(scale=np.exp(x / 2))

    prior = dists.StructDist(
        {"mu": dists.Normal(scale=2.0), "rho": dists.Beta(9.0, 1.0), "sigma": dists.Gamma(2.0, 4.0)}
    )
    np.random.seed(seed)  # noqa: NPY002
    started = time.process_time()
    with np.errstate(all="ignore"):
        model = smc_samplers.SMC2(
            ssm_cls=Volatility, prior=prior, data=ys, init_Nx=count, ar_to_increase_Nx=0.0,
            len_chain=moves + 1, wastefree=False,
        )  # fmt: skip
        run = particles.SMC(fk=model, N=values)
        run.run()
    found = {}
    for name in TRUTH:
        mean = float(np.sum(run.W * run.X.theta[name]))
        found[name] = [mean, float(np.sqrt(np.sum(run.W * (run.X.theta[name] - mean) ** 2)))]
    return {"seconds": time.process_time() - started, "log_evidence": float(run.logLt), **found}


def main(
    output: Annotated[Path | None, typer.Option(help="Keep learning.json in this folder.")] = None,
    steps: int = 200,
    values: int = 200,
    particles: int = 100,
    moves: int = 3,
    turns: int = 2,
) -> None:
    """Run both by turns and print what they found."""
    ys = simulate(steps, seed=1)
    ours, theirs = [], []
    for seed in range(turns):
        ours.append(here(ys, values, particles, moves, seed))
        theirs.append(there(ys, values, particles, moves, seed))
        for name, found in (("siren", ours[-1]), ("particles", theirs[-1])):
            text = ", ".join(f"{p} {found[p][0]:.3f} ± {found[p][1]:.3f}" for p in TRUTH)
            print(f"{name:10} {found['seconds']:6.1f} s  log evidence {found['log_evidence']:.2f}  {text}")
    ratio = float(np.median([t["seconds"] / o["seconds"] for o, t in zip(ours, theirs, strict=True)]))
    print(f"particles takes {ratio:.1f} times as long")
    if output is not None:
        sizes = {"steps": steps, "values": values, "particles": particles, "moves": moves}
        command = "python -m benchmarks.learning --output benchmarks/results"
        found = {"machine": machine(), "command": command, **sizes, "truth": TRUTH, "ratio": ratio}
        text = json.dumps({**found, "siren_runs": ours, "particles_runs": theirs}, indent=1)
        (output / "learning.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
