"""A link holds the whole conversation."""

from __future__ import annotations

import pytest
from page_stage import FORKING, ask, finish

from pasta.lang import parse, plain


@pytest.mark.slow
def test_a_link_holds_the_conversation(stage, new_page):
    page = new_page(stage.url, permissions=["clipboard-read", "clipboard-write"])
    stage.play(FORKING)
    ask(page, "Söme question?")
    finish(page)
    page.click("button:has-text('Copy')")
    page.get_by_text("Copied", exact=True).first.wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == plain(parse(FORKING))
    page.click(".actions button:has-text('Link')")
    page.get_by_text("Link copied").first.wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(stage.url) and len(link) < 4000
    other = new_page(link)
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url))
    finish(other)
    for part in (".question", ".headline", ".text", ".how .timeline"):
        assert other.locator(part).first.evaluate("e => e.innerText") == page.locator(part).first.evaluate(
            "e => e.innerText"
        )
    assert other.is_visible("text=This came with a link") and not other.is_visible("text=Race it")
    assert asked == []
    assert other.url == link and other.evaluate("document.activeElement === document.body")
    other.reload()
    finish(other)
    other.click("#fresh")
    assert other.url == f"{stage.url}/" and not other.is_visible(".turn")
    for broken in ("#c=AAAA", link[link.index("#") : -9], "#c=" + "A" * 40_000):
        page = new_page(f"{stage.url}/{broken}")
        page.get_by_text("The link that was opened is broken").first.wait_for()
