"""Families of transformers: those that run are exact, the others are refused with a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pasta.bench.families import Family, as_markdown, try_all, try_family
from pasta.bench.tiny import model_types
from pasta.models.checkpoint import quiet

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "families.json"
PAGE = Path(__file__).parents[2] / "docs" / "families.md"

# What each shows: windows, composites, soft caps, sinks, chunks, latent attention, several calls a layer, layers that
# pass nothing on, outputs that must be contiguous, a missing flag.
RUN = {
    "gemma3": ("windows", "composite"),
    "gemma4": ("windows", "composite"),
    "mistral": ("windows",),
    "phi3": ("windows",),
    "qwen3": ("windows",),
    "gemma2": ("windows", "soft caps"),
    "gpt_oss": ("windows", "sinks"),
    "llama4": ("chunks",),
    "deepseek_v3": (),
    "diffllama": ("2 calls a layer",),
    "hrm_text": (),
    "nemotron": (),
    "jetmoe": (),
    "stablelm": (),
    "qwen2_5_vl": ("composite",),
}
REFUSED = {
    "doge": "its layers make attention masks of their own",
    "bloom": "its forward pass takes no positions",
    "falcon": "its attention cannot be replaced",
    "jamba": "it carries a state from token to token",
    "lfm2": "it has layers of another kind than attention (conv)",
    "bert": "its attention is not causal",
    "t5gemma2": "it is an encoder and a decoder",
}


def check_run(family: Family) -> None:
    assert family.difference is not None and family.difference < 1e-4
    assert family.unforked is not None and family.unforked > 0.1, "the check sees what forks do"


@pytest.mark.parametrize("name", RUN)
def test_a_family_equals_its_own_forward_pass(name: str) -> None:
    with quiet():
        family = try_family(name)
    assert family.outcome == "runs", family.reason
    assert set(RUN[name]) <= set(family.features)
    check_run(family)


@pytest.mark.parametrize("name", REFUSED)
def test_a_family_is_refused_with_one_line(name: str) -> None:
    with quiet():
        family = try_family(name)
    assert family.outcome == "refused" and family.reason.startswith(REFUSED[name])


def test_the_page_is_what_the_command_wrote() -> None:
    report = json.loads(RESULTS.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == as_markdown(report)
    assert sum(row["outcome"] == "runs" for row in report["families"]) >= 80


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_family_runs_exactly_or_is_refused_with_one_line() -> None:
    families = list(try_all(model_types()))
    for family in families:
        if family.outcome == "runs":
            check_run(family)
        else:
            assert family.reason and "\n" not in family.reason
    assert sum(family.outcome == "runs" for family in families) >= 80
