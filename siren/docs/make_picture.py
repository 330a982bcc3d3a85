"""Draws the pictures of the README, and writes the numbers of `plans.png` to `plans.json`:
`python -m docs.make_picture`."""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.generate import read_truth
from benchmarks.suite import FOLDER, suite
from siren import run
from siren.data import read_column
from siren.plot import plot

FOLDER_OF_DOCS = Path(__file__).parent
PARTICLES, SEED = 100, 3
PLANS = {7: "position sampled", 2: "position symbolic"}


def outliers() -> None:
    """The first example."""
    folder = FOLDER_OF_DOCS.parent / "examples"
    readings = read_column(folder / "data" / "positions.csv", "reading")
    plot(run(folder / "outliers.si", seed=1), FOLDER_OF_DOCS / "outliers.png", data={"positions": readings})


def plans() -> None:
    benchmark = suite()["outlier"]
    truth = np.array(read_truth("outlier", FOLDER)["xt"])
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    shown = {"particles": PARTICLES, "seed": SEED, "truth": truth.tolist(), "plans": {}}
    for axis, (number, title) in zip(axes, PLANS.items(), strict=True):
        result = run(benchmark.path, particles=PARTICLES, seed=SEED, plan=benchmark.plan(number))
        track = result["xs"]
        low, high = track.quantile(0.05), track.quantile(0.95)
        error = float(np.mean((track.mean - truth) ** 2))
        inside = float(np.mean((low <= truth) & (truth <= high)))
        axis.fill_between(range(100), low, high, color="#5b9bd5", alpha=0.45, lw=0, label="90 % interval")
        axis.plot(track.mean, color="#1f4e79", lw=1.3, label="mean")
        axis.plot(truth, color="#d1495b", lw=1, ls="--", label="truth")
        axis.set_title(f"{title}: squared error {error:.2f}, truth inside {inside:.0%}", fontsize=10)
        axis.set_xlabel("step")
        axis.legend(loc="upper left", fontsize=8, frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        shown["plans"][title] = {
            "plan": result.plan, "mean": track.mean.tolist(), "low": low.tolist(), "high": high.tolist(),
            "squared_error": error, "inside": inside,
        }  # fmt: skip
    figure.savefig(FOLDER_OF_DOCS / "plans.png", dpi=110)
    (FOLDER_OF_DOCS / "plans.json").write_text(json.dumps(shown) + "\n", encoding="utf-8")


if __name__ == "__main__":
    outliers()
    plans()
