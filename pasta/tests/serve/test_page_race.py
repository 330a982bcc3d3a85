"""The race: the same answer once with its threads together, once one at a time."""

from __future__ import annotations

import re

import pytest
from page_stage import FORKING, ask, finish
from serve_support import serving

from pasta.engine.load import load_engine


@pytest.mark.slow
def test_the_race_is_with_the_same_answer(stage, new_page):
    page = new_page(stage.url)
    stage.play(FORKING)
    ask(page)
    finish(page)
    page.click("text=Race it")
    told = page.locator(".raced p", has_text="Measured on this server")
    told.wait_for(timeout=60_000)
    assert "Both wrote the same answer, tag for tag." in told.inner_text()
    assert [text.partition(":")[0] for text in page.locator(".race .label").all_inner_texts()] == [
        "Together", "One thread at a time",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.network
def test_the_race_of_the_default_model(new_page):
    """Real weights, a real answer: both runs write it, and the one with threads takes fewer steps."""
    with serving(load_engine(device="cpu")) as running:
        page = new_page(running.url)
        ask(page, "Name three fruits and describe each.")
        finish(page)
        page.click("text=Race it")
        told = page.locator(".raced p", has_text="Measured on this server")
        told.wait_for(timeout=300_000)
        assert "Both wrote the same answer, tag for tag." in told.inner_text()
        together, apart = (int(steps) for steps in re.findall(r": (\d+) steps", page.inner_text(".how")))
        assert together < apart
