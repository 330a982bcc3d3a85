"""The examples of vectors against filters that know nothing of Siren."""

from pathlib import Path

import numpy as np
import pytest

import siren
from siren.analysis import analyze
from siren.syntax import parse_file

FOLDER = Path(__file__).parents[1] / "examples"


def test_short():
    for name in ("kalman6.si", "landmarks.si"):
        assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) < 30


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_a_kalman_filter_of_dimension_six(method):
    filterpy = pytest.importorskip("filterpy.kalman")
    rows = np.loadtxt(FOLDER / "data/boat.csv", delimiter=",", skiprows=1)
    kalman = filterpy.KalmanFilter(dim_x=6, dim_z=2)
    kalman.F = np.eye(6) + np.eye(6, k=2) + 0.5 * np.eye(6, k=4)
    kalman.H, kalman.R = np.eye(2, 6), 0.5 * np.eye(2)
    kalman.Q = np.diag([0.001, 0.001, 0.002, 0.002, 0.0005, 0.0005])
    kalman.x, kalman.P = np.zeros(6), np.diag([100, 100, 1, 1, 0.1, 0.1])
    for row in rows:
        kalman.predict()
        kalman.update(row[1:])
    result = siren.run(FOLDER / "kalman6.si", method=method, particles=2, seed=0)
    np.testing.assert_allclose(result["x"].mean, kalman.x, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result["x"].sd, np.sqrt(np.diag(kalman.P)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["ssi", "ds", "bp"])
def test_landmarks_of_a_known_path(method):
    """With wheels and compass that do not err, the map is a linear regression."""
    text = (FOLDER / "landmarks.si").read_text(encoding="utf-8")
    text = text.replace("row[0], 0.001", "row[0], 0 * x").replace("row[1], 0.01", "row[1], 0 * x")
    rows = np.loadtxt(FOLDER / "data/landmarks.csv", delimiter=",", skiprows=1)
    text = text.replace('File.read("data/landmarks.csv")', "rows")
    # `fold` puts the last landmark that was placed in front.
    information, total = [np.eye(2) / 100 for _ in range(4)], [np.zeros(2) for _ in range(4)]
    place, heading = np.zeros(2), 0.0
    for turn, way, mark, *seen in rows:
        heading += turn
        place = place + way * np.array([np.cos(heading), np.sin(heading)])
        turned = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
        information[int(mark)] = information[int(mark)] + turned.T @ turned / 0.04
        total[int(mark)] = total[int(mark)] + turned.T @ (np.array(seen) + turned @ place) / 0.04
    spreads = [np.linalg.inv(matrix) for matrix in information]
    means = [spread @ vector for spread, vector in zip(spreads, total, strict=True)]
    result = siren.run(text, data={"rows": rows}, method=method, particles=3, seed=0)
    np.testing.assert_allclose(result["marks"].mean, means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        result["marks"].sd, [np.sqrt(np.diag(spread)) for spread in spreads], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("mark", ["symbolic", "sample"])
def test_a_place_that_ways_add_up_to_stays_symbolic(mark):
    """Given the headings all is gaussian. Which of the cosines are 0 was asked of each, and with every way
    once more: nobody could tell."""
    plan = {"mark": mark, "heading": "sample", "way": "symbolic"}
    assert analyze(parse_file(FOLDER / "landmarks.si"), "ssi", plan).satisfiable
    text = (FOLDER / "landmarks.si").read_text(encoding="utf-8")
    rows = np.loadtxt(FOLDER / "data/landmarks.csv", delimiter=",", skiprows=1)[:6]
    text = text.replace('File.read("data/landmarks.csv")', "rows")
    assert siren.run(text, data={"rows": rows}, plan=plan, particles=2, seed=0).plan == plan


def test_landmarks_are_found():
    result = siren.run(FOLDER / "landmarks.si", particles=500, seed=1)
    truth = [[4.0, 1.0], [1.0, 5.0], [-3.0, 2.0], [2.0, -3.0]]
    np.testing.assert_allclose(result["marks"].mean, truth, atol=0.8)
    assert result.plan["mark"] == "symbolic"
