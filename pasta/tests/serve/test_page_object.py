"""An object on the page, in a real browser: it fills in field by field."""

from __future__ import annotations

import json
import re

import pytest
from page_axe import check_axe, fetch_axe
from page_stage import ask, finish, no_sideways_scroll

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "kind": {"const": "<b>x</b>"},
        "home": {"type": "object", "properties": {"a/b": {"type": "integer", "maximum": 9}}, "required": ["a/b"]},
        "good": {"type": "boolean"},
    },
    "required": ["name", "kind", "home", "good"],
}


@pytest.mark.slow
@pytest.mark.parametrize("width", (320, 1280))
def test_an_object_fills_in(stage, new_page, width, tmp_path):
    page = new_page(stage.url, width=width, bypass_csp=width == 320)
    (letter,) = stage.engine.vocabulary.encode("a")
    stage.engine.pilot = lambda path, index: letter if path == (0,) and index < 20 else None  # a long name
    for summary in ("Options", "Answer with an object"):
        page.click(f"summary >> text={summary}")
    page.fill("#schema", "{")
    ask(page)
    assert "no JSON schema" in page.inner_text("#schema-wrong") and page.locator(".turn").count() == 0
    page.fill("#schema", json.dumps(SCHEMA))
    assert no_sideways_scroll(page)
    stage.hold(12)
    ask(page)
    page.locator(".fields .live").first.wait_for(timeout=60_000)
    assert page.locator(".fields dt").all_inner_texts() == ["name", "home › a/b", "good"]
    assert not page.is_visible("#schema-wrong") and no_sideways_scroll(page)
    stage.go()
    finish(page)
    assert page.locator(".fields .live").count() == 0 and no_sideways_scroll(page)
    value = json.loads(page.locator(".text pre").evaluate("e => e.textContent"))
    assert value["kind"] == "<b>x</b>" and list(value) == list(SCHEMA["properties"])
    texts = page.locator(".fields dd").all_inner_texts()
    assert [json.loads(text) for text in texts] == [value["name"], value["home"]["a/b"], value["good"]]
    assert page.locator(".how .label").all_inner_texts()[:3] == ["name", "home › a/b", "good"]
    if width == 320:
        check_axe(page, fetch_axe(tmp_path))
    page.click(".how .label >> text=good")
    assert page.locator(".part.lit").all_inner_texts() == [texts[2]]
    page.click("[data-does=link]")
    page.wait_for_url(re.compile("#c="))
    other = new_page(page.url)
    other.locator(".fields").wait_for()
    assert other.locator(".fields dd").all_inner_texts() == texts
