"""docs/structured-results.md is what its script makes of the saved figures: no number on it was typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pasta.data.rows import read_rows

DOCS = Path(__file__).parents[2] / "docs"
KEPT = {
    "model", "set", "id", "mode", "marks", "steps", "decoded_tokens", "forced_tokens", "critical_path", "finish_reason",
}  # fmt: skip
SOME = {"said", "code", "checked_steps"}  # digests of values, where no limit cut them; the commit, if not the first


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        yield import_module("make_structured")


def quality() -> ModuleType:
    """The script's part of that name."""
    return import_module("structured_quality")


def test_the_page_is_what_its_script_makes(script: ModuleType) -> None:
    assert script.page() == script.PAGE.read_text("utf-8"), "run: python pasta/docs/make_structured.py"


def test_the_table_of_the_guide_is_made_too(script: ModuleType) -> None:
    guide = script.GUIDE.read_text("utf-8")
    assert guide.count(script.MADE) == 2
    assert guide.split(script.MADE)[1].strip() == script.guide().strip(), "run: python pasta/docs/make_structured.py"


def test_every_set_is_told_of(script: ModuleType) -> None:
    rows = list(read_rows(str(script.RESULTS / "structured-quality.rows.jsonl.xz")))
    assert {row["set"] for row in rows} <= set(quality().SETS)
    assert sum(len(row["marks"]) for row in rows if row["mode"] == "parallel") >= 1000
    assert all(KEPT <= set(row) <= KEPT | SOME for row in rows), "marks, tokens and steps, and no words"
    said = [row["said"].split() for row in rows if "said" in row]
    assert all(len(digest) == 4 for digests in said for digest in digests)


def test_fresh_prompts_are_none_of_those_that_modes_were_chosen_by(script: ModuleType) -> None:
    chosen, fresh, cpu = (
        list(read_rows(str(script.RESULTS / f"structured-{name}.rows.jsonl.xz")))
        for name in ("quality", "fresh", "fresh-cpu")
    )
    asked = {(row["set"], row["id"]) for row in fresh}
    assert len(asked) > 100 and not asked & {(row["set"], row["id"]) for row in chosen}
    assert all(KEPT <= set(row) <= KEPT | SOME for row in fresh + cpu), "marks, tokens and steps, and no words"
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    for row in cpu:
        pairs.setdefault((row["set"], row["id"]), {})[row["mode"]] = row
    assert pairs and set(pairs) <= asked
    assert all(own["checked"]["steps"] <= own["sequential"]["steps"] for own in pairs.values())


def test_saved_figures_name_no_path_of_a_machine(script: ModuleType) -> None:
    for name in ("structured-*.json", "constraint-*.json"):
        for path in script.RESULTS.glob(name):
            assert not re.search(r'"(/|~)\w+/', path.read_text("utf-8")), path.name


def test_what_the_guide_says_stands_on_the_page(script: ModuleType) -> None:
    guide = (DOCS / "structured.md").read_text("utf-8")
    told = re.findall(r"(?<![\w.])[-+]\d+\.\d", guide)
    page = script.PAGE.read_text("utf-8")
    assert len(told) > 8
    assert all(figure in page for figure in told)


def test_the_speeds_of_the_guide_are_those_of_the_reports(script: ModuleType) -> None:
    guide = (DOCS / "structured.md").read_text("utf-8")
    words = " ".join(guide.split())
    readme = " ".join((DOCS.parents[1] / "README.md").read_text("utf-8").split())
    sets, vllm = (script.load(f"structured-{kind}-qwen15.json")["sets"] for kind in ("speed", "vllm"))
    told = dict(re.findall(r"^\|[^|]*\(`(\w+)`\) \|(.*)\|$", guide, re.MULTILINE))
    assert set(told) == set(sets)
    alone, over_vllm, many_over_vllm, gains, checked, checked_many = [], [], [], [], [], []
    for name, own in sets.items():
        one, many = own["one_at_a_time"], own["many_at_once"]
        times = [one[mode]["ms_an_object"] for mode in ("parallel", "sequential")]
        figures = [f"{own['fields']:.0f}", *(f"{each:.1f}" for each in times)]
        figures += [f"{one['speedup']['value']:.2f}", f"{many['speedup']:.2f}"]
        figures += [", ".join(f"{own['counts'][mode]['steps']:.1f}" for mode in ("parallel", "checked", "sequential"))]
        assert [each.strip() for each in told[name].split("|")] == figures
        alone.append(times[0])
        gains.append(one["speedup"]["value"])
        checked.append(one["checked_speedup"]["value"])
        checked_many.append(many["checked"]["objects_a_second"] / many["sequential"]["objects_a_second"])
        over_vllm.append(vllm[name]["ms_an_object"] / times[0])
        many_over_vllm.append(many["parallel"]["objects_a_second"] / vllm[name]["many_objects_a_second"])
    between = import_module("structured_speed").between
    theirs = between([own["ms_an_object"] for own in vllm.values()], 0)
    assert f"took {theirs} ms alone for the same objects, {between(over_vllm, 0)} times" in words
    assert f"with 32 at once PASTA makes {between(many_over_vllm, 1)} times as many" in words
    told_checked = f"{between(checked, 1)} times faster than `sequential`, with 32 at once it is slower"
    assert f"{told_checked}: {between(checked_many, 1)} of the objects a second" in words
    assert f"for one object {between(checked, 1)} times faster" in readme
    assert f"{between(alone, 0)} ms, {between(gains, 1)} times less" in readme
    assert f"{between(over_vllm, 0)} times less than vLLM's structured output" in readme


def test_the_steps_of_the_guide_are_those_of_the_rows(script: ModuleType) -> None:
    guide = " ".join((DOCS / "structured.md").read_text("utf-8").split())
    first = next(iter(quality().quality_models()))

    def steps(name: str, mode: str) -> str:
        rows = [r for r in quality().quality_rows() if (r["model"], r["set"], r["mode"]) == (first, name, mode)]
        return f"{sum(row['steps'] for row in rows) / len(rows):.1f}"

    lead, parallel, sequential = (steps("drop", mode) for mode in ("lead", "parallel", "sequential"))
    assert f"`lead` took {lead} steps" in guide
    assert f"`parallel` took {parallel} and `sequential` {sequential}" in guide
    leftover, parallel, sequential = (steps("tools-live", mode) for mode in ("leftover", "parallel", "sequential"))
    assert f"`leftover` took {leftover} for the arguments from users ({parallel} and {sequential})" in guide
