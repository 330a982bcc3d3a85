"""The README's example runs as it stands, and its pictures, documents and figures exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pasta import SamplingParams

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "pasta" / "docs").glob("*.md"))]


def test_the_example_runs(default_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    tokens, steps, threads = map(int, re.search(r"(\d+) tokens in (\d+) steps by (\d+) threads", out).groups())  # type: ignore[union-attr]
    assert threads > 3 and steps < tokens, "the default model decodes in parallel"
    assert len(out.rsplit("threads\n", 1)[1]) > 50, "the stream gave its text"


def test_the_examples_of_the_python_page_run(default_folder: Path) -> None:
    """One after another, as a reader would type them."""
    page = (ROOT / "pasta" / "docs" / "python.md").read_text("utf-8")
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "python.md", "exec"), names)
    rows = set(re.findall(r"`(\w+)`", page[page.index("| option |") : page.index("```python\nparams")]))
    assert set(SamplingParams.__dataclass_fields__) <= rows, "the table lists every option"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_figures_are_those_of_their_reports() -> None:
    """The README's tables, cell by cell, against the JSON that they name."""
    readme = (ROOT / "README.md").read_text("utf-8")
    results = ROOT / "pasta" / "benchmarks" / "results"
    gpu = json.loads((results / "gpu-h200.json").read_text())["shapes"]
    models = json.loads((results / "eval-alpaca.json").read_text())["models"]
    cells = []
    for shape in gpu.values():
        step = {(row["context"], row["threads"]): row for row in shape["steps"]}
        cells += [
            f"{1e3 * step[1000, 1]['step_s']:.2f} ({1e3 * shape['transformers_s']:.1f})",
            f"{step[1000, 16]['ratio']:.2f} / {step[1000, 32]['ratio']:.2f}",
            f"| {shape['replays']['share']:.2f} |",
            f"| {shape['many_answers'][-1]['ratio']:.1f} |",
        ]
    cpu = json.loads((results / "cpu-xeon.json").read_text())
    cells += [f"| {cpu['baseline']['speedup']:.2f} |"]
    for weights in ("float32", "int8"):
        ratio = {row["threads"]: row["ratio"] for row in cpu["steps"] if row["weights"] == weights}
        cells += [" / ".join(f"{ratio[threads]:.2f}" for threads in (4, 8, 16))]
    for model in (models[name] for name in ("bon-1", "bon2-0.2", "sft", "apar", "sot")):
        figure = {name: found["value"] for name, found in model.items() if isinstance(found, dict) and "value" in found}
        cells += [f"| {figure[name]:.2f} |" for name in ("realised_speedup", "theoretical_speedup") if name in figure]
        cells += [
            f"| {model['judged']['reward']['lc_win_rate']['value']:.1f}% |",
            f"{figure['forking']:.0%}; {figure['forking_of_lists_and_paragraphs']:.0%}",
            f"| {figure['parallelism_of_forking']:.2f} |",
            f"| {model['redundancy']['blocks_repeat']['value']:.0%} |",
            f"| {model['redundancy']['repeated']['value']:.0%} |",
        ]
    assert [cell for cell in cells if cell not in readme] == []
