"""Trials of stage two: what each is made from, what it costs, and the whole way on a tiny model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from adapters import make_adapter
from pasta.core.taught import Taught
from pasta.data.lines import read_lines
from pasta.errors import UsageError
from pasta.eval.rows import read
from pasta.models import load_model
from pasta.models.taught import mark

RECIPE = Path(__file__).parents[2] / "recipes" / "default"
MODULES = ("trials", "cost", "mix")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def recipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(RECIPE)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def adapter(tmp_path: Path, base: str) -> str:
    torch.manual_seed(0)
    loaded = load_model(base, device="cpu", tags=True)
    mark(loaded.model, Taught(depth=3))
    make_adapter(loaded, tmp_path / "adapter")
    return str(tmp_path / "adapter")


def test_what_can_be_made_at_once(tmp_path: Path) -> None:
    trials = import_module("trials")
    (tmp_path / "t.yaml").write_text("a: {}\nb: {from: a}\nc: {lambdas: '2'}\nd: {mix: {a: 0.5, c: 0.5}}\n")
    read = trials.read_trials(str(tmp_path / "t.yaml"))
    assert [[each.name for each in wave] for wave in trials.waves(read)] == [["a", "c"], ["b", "d"]]
    assert [[each.name for each in wave] for wave in trials.waves(read, {"a"})] == [["a", "b", "c"], ["d"]]
    assert [[each.name for each in wave] for wave in trials.waves(read, {"d"})] == [["a", "c", "d"], ["b"]]
    (tmp_path / "t.yaml").write_text("a: {from: b}\nb: {}\n")
    with pytest.raises(UsageError, match="a begins with b, which is no earlier trial"):
        trials.read_trials(str(tmp_path / "t.yaml"))
    (tmp_path / "t.yaml").write_text("a-b: {}\nc: {from: a-b}\nd: {mix: {a-b: 0.5, c: 0.5}}\n")
    assert len(trials.read_trials(str(tmp_path / "t.yaml"))) == 3
    (tmp_path / "t.yaml").write_text("a: {overlap: 0.9}\n")
    with pytest.raises(UsageError, match=r"a sets overlap \(a trial may set alike, alpha"):
        trials.read_trials(str(tmp_path / "t.yaml"))
    (tmp_path / "t.yaml").write_text("a: 3\n")
    with pytest.raises(UsageError, match="a is 3, expected the settings of a trial"):
        trials.read_trials(str(tmp_path / "t.yaml"))


@pytest.mark.parametrize(
    ("name", "trials"), [("trials-default", 19), ("trials-default-leads", 12), ("trials-default-items", 13)]
)
def test_the_costs_that_are_saved_are_those_of_their_rows(name: str, trials: int) -> None:
    """Of which pages of docs/results tell."""
    cost = import_module("cost")
    saved = RECIPE.parents[1] / "benchmarks" / "results" / name
    rows = read(f"{saved}.rows.jsonl.xz")["dev"]
    today = cost.figures(rows["today"], rows["today"])
    found = {name: cost.figures(own, rows["today"]) for name, own in rows.items()}
    table = [{"trial": name, "cost": cost.cost(own, today), **own} for name, own in found.items()]
    told = json.loads(Path(f"{saved}.json").read_text("utf-8"))
    assert len(told) == trials
    assert [(row["trial"], pytest.approx(row)) for row in sorted(table, key=lambda row: row["cost"])] == [
        (row["trial"], row) for row in told
    ]


def test_the_trials_that_ship_name_known_settings() -> None:
    trials = import_module("trials")
    options = vars(trials.parser().parse_args("--prompts p --dev d --judge length --out o".split()))
    this = trials.Run(options)
    for trial in this.trials:
        assert this.config(trial).alpha == {"mid": 0.9, "between": 0.005}.get(trial.name, 0.2)


def test_a_cost_counts_what_a_reader_loses() -> None:
    cost = import_module("cost").cost
    today = {"repeats": 16.0, "unclean": 8.0, "topics": 4.0, "speed": 1.0, "loops": 9.0, "listed": 44.0}
    assert cost(today, today) == 26
    assert cost({**today, "speed": 0.9}, today) == pytest.approx(26 + 2 * 8)
    assert cost({**today, "speed": 1.5}, today) == 26, "speed is not what trials are for"
    assert cost({**today, "loops": 12.0}, today) == 26 + 2 * 2
    assert cost({**today, "listed": 36.0}, today) == cost({**today, "listed": 52.0}, today) == 26 + 8
    assert cost({**today, "repeats": 5.0}, today) == 15


def test_a_mix_lies_between(tmp_path: Path, adapter: str, base: str) -> None:
    mix = import_module("mix").mix
    loaded = load_model(base, device="cpu", tags=True)
    make_adapter(loaded, tmp_path / "other")
    mix([(adapter, 0.75), (str(tmp_path / "other"), 0.25)], tmp_path / "mixed")
    one, two, mean = (load_file(Path(folder) / "adapter_model.safetensors")
                      for folder in (adapter, tmp_path / "other", tmp_path / "mixed"))  # fmt: skip
    assert any(not torch.equal(one[name], two[name]) for name in one)
    for name in one:
        torch.testing.assert_close(mean[name].float(), 0.75 * one[name].float() + 0.25 * two[name].float(),
                                   rtol=1e-2, atol=1e-4)  # fmt: skip
        assert mean[name].dtype == one[name].dtype
    load_model(str(tmp_path / "mixed"), device="cpu")
    with pytest.raises(UsageError, match=r"expected shares that add up to 1"):
        mix([(adapter, 0.75), (adapter, 0.75)], tmp_path / "more")


def test_the_whole_way(
    tmp_path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = import_module("trials")
    for name in ("p", "d"):
        rows = ({"prompt": f"{name} {n}?"} for n in range(5))
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.yaml").write_text(
        "a: {lambdas: '1.0'}\nb: {from: a, lambdas: '4'}\nc: {mix: {today: 0.5, b: 0.5}}\n"
    )
    (tmp_path / "c.yaml").write_text(
        "samples: 4\nmax_tokens: 200\nmax_length: 512\nbatch_size: 1\nbatch: 12\nheld_out: 0\nsave_steps: 0\n"
    )
    told = {"model": adapter, "baseline": adapter, "prompts": "p.jsonl", "dev": "d.jsonl", "trials": "t.yaml",
            "config": "c.yaml", "out": "out", "judge": "length", "device": "cpu"}  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = [word for name, value in told.items() for word in (f"--{name}", value)]
    trials.main(given)
    table = capsys.readouterr().out.splitlines()[-5:]
    assert table[0].split()[:3] == ["trial", "cost", "answers"]
    assert {line.split()[0] for line in table[1:]} == {"today", "a", "b", "c"}
    rows: list[dict[str, Any]] = json.loads(Path("out/trials.json").read_text())
    assert [row["cost"] for row in rows] == sorted(row["cost"] for row in rows)
    assert {row["answers"] for row in rows} == {5}
    second = [*read_lines(Path("out/drawn/a/round-1/samples.jsonl"))]
    assert len(second) == 20, "the second trial learned from what the first one draws"
    assert Path("out/trials/b/round-1/samples.jsonl").resolve() == Path("out/drawn/a/round-1/samples.jsonl").resolve()
    Path("two.yaml").write_text("a: {lambdas: '1,4'}\n")
    with pytest.raises(SystemExit):
        trials.main([*given, "--trials", "two.yaml"])
    assert capsys.readouterr().err.endswith("error: a has the lambdas 1,4 (give each a trial of its own)\n")
    files = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*.safetensors")}
    trials.main(given)
    assert files == {path: path.stat().st_mtime_ns for path in Path("out").rglob("*.safetensors")}, "nothing twice"
