"""The page by keyboard alone, and as axe sees it: at every width, in the light and in the dark."""

from __future__ import annotations

import pytest
from page_axe import check_axe, fetch_axe
from page_stage import FORKING, ask, finish


@pytest.mark.slow
def test_by_keyboard_alone(stage, new_page):
    page = new_page(stage.url)
    stage.play(FORKING, steps=90)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "prompt":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type("Why?")
    page.keyboard.press("Enter")
    page.locator(".part.live").first.wait_for(timeout=60_000)
    said = page.inner_text("#said")
    page.keyboard.press("Escape")
    stage.go()
    finish(page)
    assert said == "Answering", "those who listen are not read every word"
    assert page.inner_text(".headline") == "Stopped"
    assert page.inner_text("#said").startswith("Stopped")
    assert page.evaluate("document.activeElement.id") == "prompt", "the focus stays where it was"
    seen = set()
    for _ in range(12):
        page.keyboard.press("Shift+Tab")
        seen.add(page.evaluate("document.activeElement.textContent"))
    assert {"Copy", "Link", "A steady routine"} <= seen


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(stage, new_page, tmp_path, scheme):
    page = new_page(stage.url, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    source = fetch_axe(tmp_path)
    stage.play(FORKING, steps=106)
    check_axe(page, source)
    page.click("summary")
    ask(page)
    page.locator(".part.live[data-thread='3']").wait_for(timeout=60_000)
    check_axe(page, source)
    stage.go()
    finish(page)
    page.click("text=Race it")
    page.locator(".raced p", has_text="Measured on this server").wait_for(timeout=60_000)
    page.click(".how .label >> text=No distractions")
    check_axe(page, source)
