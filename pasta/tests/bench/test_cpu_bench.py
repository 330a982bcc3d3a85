"""The benchmark's own arithmetic, and one quick run of all of it on a tiny model."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from pasta.bench import cpu, overhead
from pasta.bench.clock import Sample, ratio, take_turns
from pasta.bench.machine import describe
from pasta.bench.table import tables
from pasta.cli.main import app
from pasta.core.params import SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.engine.cpu import CpuEngine
from pasta.models.tags import add_tags
from support import byte_tokenizer, tiny_model


def test_cases_take_turns_and_the_warm_up_does_not_count() -> None:
    order: list[str] = []
    samples = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3, warm_up=2)
    assert order == ["a", "b"] * 5
    assert [len(sample.wall) for sample in samples.values()] == [3, 3]


def test_a_ratio_is_taken_turn_by_turn() -> None:
    """A disturbance that slows both sides of a turn leaves the ratio alone."""
    assert ratio(Sample(wall=[2.0, 20.0, 2.0]), Sample(wall=[1.0, 10.0, 1.0])) == 2.0


def test_the_machine_describes_itself() -> None:
    machine = describe()
    assert machine["cpu"] and machine["torch"] == torch.__version__
    json.dumps(machine)


def tiny(name: str | None, *, dtype: str | None = None, **_: object) -> CpuEngine:
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return CpuEngine(model, vocabulary, name="tiny", int8=dtype == "int8")


def test_a_whole_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "load_engine", tiny)
    monkeypatch.setattr(cpu, "resolve", lambda name: SimpleNamespace(whole=SimpleNamespace(path="tiny")))
    monkeypatch.setattr(cpu, "load_model", lambda *_, **__: SimpleNamespace(model=tiny_model()))
    report = cpu.run(quick=True)
    json.dumps(report)
    assert report["baseline"]["same_tokens"]
    assert [(row["weights"], row["threads"]) for row in report["steps"]] == [
        (weights, threads) for weights in ("float32", "int8") for threads in (1, 2, 4, 8, 16)
    ]
    assert report["steps"][0]["ratio"] == 1
    assert all(0 < row["cpu_share"] < 1 for row in report["overhead"])
    page = io.StringIO()
    for table in tables(report):
        Console(width=120, file=page).print(table)
    assert "eight threads" in page.getvalue()


def test_the_meter_leaves_the_engine_as_it_was() -> None:
    engine = tiny(None)
    with overhead.metered(engine) as meter:
        engine.open([1, 2, 3], 0, SamplingParams())  # type: ignore[arg-type]
    assert "_forward" not in engine.__dict__
    assert meter.calls == 0


@pytest.mark.parametrize("arguments", [["--device", "tpu"], ["--output", "/no/such/folder/x.json"]])
def test_bad_options_are_one_line(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_an_output_that_is_a_folder_is_told_before_anything_is_measured(tmp_path):
    done = CliRunner().invoke(app, ["bench", "--model", "/nowhere", "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr == f"error: cannot write {tmp_path}: it is a folder (name a file in it)\n"
