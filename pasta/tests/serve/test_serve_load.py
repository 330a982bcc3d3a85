"""The load test itself, for a few seconds; and the figures in the documentation against the run that they name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_many_clients_for_a_moment(tiny, tmp_path):
    report = tmp_path / "load.json"
    arguments = ["--clients", "12", "--seconds", "2", "--least", "4", "--warm-up", "0.5", "--max-tokens", "20"]
    command = [sys.executable, ROOT / "benchmarks" / "serve_load.py", tiny.url, *arguments, "--json", str(report)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    rows = json.loads(report.read_text())["modes"]
    names = [row["mode"] for row in rows]
    assert names == ["parallel, warming up", "parallel", "sequential, warming up", "sequential"]
    assert rows == [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        if "warming" not in row["mode"]:
            assert row["right"] and row["left"] and row["malformed"]
        assert row["wrong"] == row["failed"] == row["slots_lost"] == 0


@pytest.mark.parametrize("column", [0, 1])
def test_the_documented_figures_are_those_of_the_run(column):
    report = json.loads((ROOT / "benchmarks" / "results" / "serve-load.json").read_text())
    lines = (ROOT / "docs" / "serve.md").read_text("utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| 64 clients |"))
    cells = {row[1].strip(): row[2 + column].strip() for row in (line.split("|") for line in lines[begin : begin + 10])}
    run = report["modes"][column]
    assert report["clients"] == 64 and run["seconds"] >= 120
    assert cells["64 clients"] == run["mode"]
    assert cells["answers read to their end, all right"] == str(run["right"])
    assert cells["wrong, failed, slots lost"] == f"{run['wrong']}, {run['failed']}, {run['slots_lost']}" == "0, 0, 0"
    assert cells["left by their client"] == str(run["left"])
    assert cells["malformed or too large, refused"] == str(run["malformed"])
    assert cells["first text, p50 and p99"] == f"{run['first_p50_s']:.1f} s, {run['first_p99_s']:.1f} s"
    assert cells["whole answer, p50 and p99"] == f"{run['whole_p50_s']:.1f} s, {run['whole_p99_s']:.1f} s"
    memory = f"{run['memory_begin_mib']:.0f} to {run['memory_end_mib']:.0f} MiB"
    assert cells["memory, from begin to end"] == memory
    assert cells["its growth in the second half"] == f"{run['memory_slope_mib_per_min']:.2f} MiB a minute"


def test_the_documented_delays_are_those_of_the_run():
    rows = json.loads((ROOT / "benchmarks" / "results" / "serve-delay.json").read_text())["rows"]
    docs = (ROOT / "docs" / "serve.md").read_text("utf-8")
    assert rows[0]["beside"] == "alone"
    assert f"| alone | {rows[0]['median_ms']:.0f} ms | {rows[0]['worst_ms']:.0f} ms | | |" in docs
    for row in rows[1:]:
        cells = [row["median_ms"], row["worst_ms"], row["added_median_ms"], row["added_worst_ms"]]
        told = " | ".join(f"{cell:.0f} ms" for cell in cells)
        assert f"| beside {row['beside']} | {told} |" in docs
        assert max(row["added_median_ms"], row["added_p90_ms"], row["added_worst_ms"]) < 100


def test_the_load_on_a_gpu_lost_nothing():
    report = json.loads((ROOT / "benchmarks" / "results" / "serve-load-h200.json").read_text())
    modes = [*report["warm_up"], *report["modes"]]
    docs = " ".join((ROOT / "docs" / "serve.md").read_text("utf-8").split())
    assert all(mode["wrong"] == mode["failed"] == mode["slots_lost"] == 0 for mode in modes)
    first, second = modes
    for name, told in (("right", "right"), ("left", "left"), ("malformed", "refused as malformed or too large")):
        assert f"{told} {first[name]:,} and {second[name]:,}" in docs
