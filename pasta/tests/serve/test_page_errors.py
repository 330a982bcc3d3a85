"""What goes wrong is told in words, and can be tried again."""

from __future__ import annotations

import json

import pytest
from page_stage import FLAT, ask


@pytest.mark.slow
def test_errors_are_told_in_words(stage, new_page):
    page = new_page(stage.url, expected="429|503|ERR_FAILED|ERR_")
    stage.play(FLAT)

    def answer(status: int, code: str, headers: dict[str, str]) -> None:
        body = json.dumps({"error": {"message": "it is full", "type": "x", "param": None, "code": code}})
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=status, headers=headers, body=body))

    answer(429, "queue_full", {"Retry-After": "7"})
    ask(page)
    page.get_by_text("The server has too much to do. Try again in 7 seconds.").first.wait_for()
    page.unroute("**/v1/chat/completions")
    answer(429, "rate_limit", {"Retry-After": "1"})
    page.click(".trouble [data-does=again]")
    page.get_by_text("This is more than your key allows: it is full. Try again in 1 second.").first.wait_for()
    page.unroute("**/v1/chat/completions")
    answer(503, "shutting_down", {})
    page.click(".trouble [data-does=again]")
    page.get_by_text("The server cannot answer at the moment: it is full.").first.wait_for()
    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", lambda route: route.abort())
    page.click(".trouble [data-does=again]")
    page.get_by_text("The server cannot be reached.").first.wait_for()
    page.unroute("**/v1/chat/completions")
    half = (
        'data: {"choices":[],"pasta":{"step":1,"seconds":1,"events":[{"type":"delta","thread":0,"text":"Half"}]}}\n\n'
    )
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=200, body=": beat\n\n" + half))
    page.click(".trouble [data-does=again]")
    page.get_by_text("The connection was lost").first.wait_for()
    assert page.inner_text(".text") == "Half"
    page.unroute("**/v1/chat/completions")
    page.click(".trouble [data-does=again]")
    page.get_by_text("found no parts here").wait_for(timeout=60_000)
    assert not page.is_visible(".trouble")
