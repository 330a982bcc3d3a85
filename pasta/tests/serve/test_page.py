"""The page at `/`: it comes complete from the server, and in a real browser it tells an answer as a story."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from page_stage import FLAT, FORKING, WIDTHS, ask, finish, no_sideways_scroll
from serve_support import serving

from pasta.decoding.api import generate
from pasta.lang import parse, plain
from support import tiny_engine


def test_the_page_needs_nothing_from_elsewhere(tiny):
    page = tiny.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    waiting = ["", *re.findall(r'(?:href|src)="(page/[^"]+)"', page.text)]
    found = set()
    while waiting:
        path = waiting.pop()
        found.add(path)
        got = tiny.http.get(f"/{path}")
        assert got.status_code == 200, path
        assert not re.findall(r"https?://[\w.]", got.text), path
        assert "innerHTML" not in got.text and "insertAdjacentHTML" not in got.text, "text of a model is never markup"
        imported = {f"page/{name}" for name in re.findall(r'from "\./([^"]+)"', got.text)}
        waiting += imported - found - set(waiting)
    assert len(found) == 14
    assert tiny.http.get("/page/__init__.py").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_an_answer_that_forks(stage, new_page, width):
    page = new_page(stage.url, width=width, has_touch=width < 700)
    assert no_sideways_scroll(page)
    stage.play(FORKING, steps=106)
    ask(page)
    page.locator(".part.live[data-thread='3']").wait_for(timeout=60_000)
    page.locator(".caret").nth(2).wait_for(state="attached")
    assert "places at once" in page.inner_text(".headline")
    assert no_sideways_scroll(page)
    stage.go()
    finish(page)
    assert no_sideways_scroll(page)
    assert page.locator(".part.live, .caret").count() == 0, "what is settled is plain"
    text = plain(parse(FORKING))
    assert page.locator(".text ol > li").count() == 3
    assert page.locator(".text ol > li > ul > li").all_inner_texts() == ["Plugs", "Noise"]
    assert page.locator(".text strong").all_inner_texts() == ["what helps", "A steady routine", "Less <b>alcohol</b>"]
    letters = re.sub(r"[\s*`-]|\d\.", "", text)
    assert re.sub(r"\s", "", page.locator(".text").evaluate("e => e.textContent")) == letters
    labels = page.locator(".how .label").all_inner_texts()
    assert labels[:4] == ["Main text", "A steady routine", "No distractions", "Less alcohol"]
    result = generate(stage.engine, "Why?", max_tokens=400)
    assert result.text == text
    assert page.inner_text(".headline") == f"{result.parallelism:.1f} times fewer steps than one token after another"
    assert labels[4:] == [
        f"Together: {result.critical_path} steps",
        f"One token after another: {result.content_tokens} steps",
    ]


@pytest.mark.slow
def test_parts_are_shown_on_demand(stage, new_page):
    page = new_page(stage.url)
    stage.play(FORKING)
    ask(page)
    finish(page)
    page.click(".how .label >> text=No distractions")
    assert "before" in "".join(page.locator(".part.lit").all_inner_texts())
    page.click(".how .label >> text=No distractions")
    assert page.locator(".part.lit").count() == 0


@pytest.mark.slow
def test_an_answer_that_does_not_fork_says_why(stage, new_page):
    page = new_page(stage.url)
    stage.play(FLAT)
    ask(page)
    finish(page)
    assert page.inner_text(".headline") == "One token after another"
    page.get_by_text("found no parts here that do not depend on each other").wait_for()
    assert not page.is_visible(".how") and not page.is_visible("text=Race it")
    assert page.locator(".text em").all_inner_texts() == ["nobody"]
    assert page.inner_text(".text") == FLAT.replace("*nobody*", "nobody")


@pytest.mark.slow
def test_a_limit_is_told_and_can_be_raised(stage, new_page):
    page = new_page(stage.url)
    page.click("summary")
    page.eval_on_selector("#tokens", "e => { e.value = 20; e.dispatchEvent(new Event('input')) }")
    stage.play(FORKING)
    ask(page)
    page.get_by_text("Cut at the limit of 20 tokens.").wait_for(timeout=60_000)
    page.get_by_text("before the model had marked any part").wait_for()
    assert page.inner_text(".text") == "Sleep well. Here is"
    page.click("text=Answer with twice as many")
    page.get_by_text("Cut at the limit of 40 tokens.").wait_for(timeout=60_000)


@pytest.mark.slow
def test_a_model_without_tags_is_told(new_page):
    with serving(tiny_engine(tags=False)) as running:
        page = new_page(running.url)
        page.eval_on_selector("#tokens", "e => { e.value = 20 }")
        ask(page)
        page.get_by_text("This model was not trained to mark parts").wait_for(timeout=60_000)


@pytest.mark.slow
def test_the_key_is_asked_for_when_the_server_asks(new_page):
    with serving(tiny_engine(), api_key="k") as running:
        page = new_page(running.url, expected="401")
        page.eval_on_selector("#tokens", "e => { e.value = 20 }")
        assert not page.locator("input[type=password]").count()
        ask(page)
        page.get_by_text("This server asks for a key").wait_for()
        page.keyboard.type("wrong")  # it has the focus
        page.keyboard.press("Enter")
        page.get_by_text("Incorrect API key provided").wait_for()
        page.fill(".key input", "k")
        page.keyboard.press("Enter")
        finish(page)
        assert not page.is_visible(".key")
        ask(page)  # and it is remembered
        finish(page, 1)


@pytest.mark.slow
def test_a_second_turn_knows_the_first(stage, new_page):
    page = new_page(stage.url)
    sent = []
    page.on("request", lambda request: request.method != "POST" or sent.append(json.loads(request.post_data)))
    stage.play(FORKING)
    ask(page, "First?")
    finish(page)
    stage.play(FLAT)
    ask(page, "Second?")
    finish(page, 1)
    assert [body["messages"] for body in sent] == [
        [{"role": "user", "content": "First?"}],
        [
            {"role": "user", "content": "First?"},
            {"role": "assistant", "content": plain(parse(FORKING))},
            {"role": "user", "content": "Second?"},
        ],
    ]
    page.click("#fresh")
    assert page.locator(".turn").count() == 0 and page.is_visible("#examples")


@pytest.mark.slow
def test_markdown_is_never_markup(stage, new_page):
    """Whatever a model writes: only these elements come of it, no letter is lost, and none comes twice."""
    page = new_page(stage.url)
    told = page.evaluate(Path(__file__).with_name("page_texts.js").read_text("utf-8"))
    assert told["wrong"] == []
    allowed = "a blockquote br code del div em h4 h5 h6 hr li ol p pre span strong table tbody td th tr ul".split()
    assert set(told["tags"]) <= set(allowed) and {"li", "strong", "code", "a", "span"} <= set(told["tags"])
