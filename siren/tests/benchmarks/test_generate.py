import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.generate import generate, read_truth, write
from benchmarks.suite import FOLDER, suite
from siren.data import read_csv


@pytest.mark.parametrize("name", suite())
def test_committed_data_are_what_the_generator_makes(name: str, tmp_path: Path) -> None:
    write(name, 0, tmp_path)
    for file in (f"{name}.csv", f"{name}.truth.json"):
        made = (tmp_path / "data" / file).read_text(encoding="utf-8")
        kept = (FOLDER / "data" / file).read_text(encoding="utf-8")
        if file.endswith(".json"):
            assert set(json.loads(made)) == set(json.loads(kept)) == set(suite()[name].outputs)
        else:
            assert made == kept


def test_data_sets_differ_and_have_the_asked_length(tmp_path: Path) -> None:
    assert generate("noise", 1).observed["obs"][0] != generate("noise", 2).observed["obs"][0]
    write("noise", 3, tmp_path, steps=7)
    assert len(read_csv(tmp_path / "data" / "noise.csv")) == 7
    assert len(read_truth("noise", tmp_path)["x"]) == 7


def test_wheels_end_at_the_published_values() -> None:
    dataset = generate("wheels", 4)
    expected = np.array([86.81 + 2 * 66.42, 86.81 - 2 * 66.42])
    observed = np.array([dataset.observed["left"][-1], dataset.observed["right"][-1]])
    assert np.all(np.abs(observed - expected) < 5)
