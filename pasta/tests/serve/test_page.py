"""The page at `/`: it comes complete from the server, and in a real browser it tells an answer as a story."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_support import Running, serving

from pasta.core.tree import spell, threads_of
from pasta.decoding.api import generate
from pasta.lang import parse, plain
from support import PilotedEngine, tiny_engine

FORKING = """Sleep well. Here is **what helps**:

1.<promise topic="A steady routine" tokens=3/><async> **A steady routine**: the same hours.</async>

2.<promise topic="No distractions" tokens=3/><async> No `TV` before *bed*, and a dark room.
   - Plugs
   - Noise</async>

3.<promise topic="Less alcohol" tokens=3/><async> **Less <b>alcohol</b>**.</async>

Good night."""
FLAT = "It was Shakespeare, and *nobody* else: 2 * 3 is six."
WIDTHS = (320, 390, 768, 1280)
AXE = "axe-core@4.10.3"


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
    assert len(found) == 13
    assert tiny.http.get("/page/__init__.py").status_code == 404


# -- in a browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """Debian's or anybody's chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium here")
    with playwright.sync_playwright() as run:
        started = run.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


class Stage:
    """A server whose model answers what it is told to, as far as it is let."""

    def __init__(self, running: Running, engine: PilotedEngine):
        self.running = running
        self.engine = engine
        self.url = running.url
        self._step = engine.step
        self._may_end = threading.Event()
        self._may_end.set()
        engine.step = self._hold  # type: ignore[method-assign]
        self.steps = 10**9  # that it may take before it waits to be let go

    def play(self, annotated: str, steps: int | None = None) -> None:
        """The answer to whatever is asked next; after so many steps it stands still until `go`."""
        end = min(self.engine.vocabulary.eos)
        threads = threads_of(spell(parse(annotated), self.engine.vocabulary))
        tokens = {path: [*ids[1:]] if path else [*ids, end] for path, ids in threads.items()}
        self.engine.pilot = lambda path, index: dict(enumerate(tokens.get(path, ()))).get(index)  # type: ignore
        if steps is not None:
            self.steps = steps
            self._may_end.clear()

    def go(self) -> None:
        self._may_end.set()

    def _hold(self) -> Any:
        self.steps -= 1
        if self.steps < 0:
            self._may_end.wait(120)
        return self._step()


@pytest.fixture(scope="module")
def server() -> Iterator[Stage]:
    engine = tiny_engine(slots=16384)
    with serving(engine) as running:
        stage = Stage(running, engine)
        yield stage
        stage.go()


@pytest.fixture
def stage(server: Stage) -> Iterator[Stage]:
    server.steps = 10**9
    yield server
    server.go()


@pytest.fixture
def new_page(browser):
    """Opens pages that must not complain; what is expected to is named."""
    contexts, complaints = [], []

    def open_page(url: str, *, expected: str = r"^$", width: int = 768, height: int = 800, **options: Any):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: m.type != "error" or re.search(expected, m.text) or complaints.append(m.text))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def ask(page, question: str = "Why?") -> None:
    page.fill("#prompt", question)
    page.press("#prompt", "Enter")


def finish(page, turn: int = 0) -> None:
    page.locator(".turn").nth(turn).locator(".actions").wait_for(timeout=60_000)


def no_sideways_scroll(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


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
    assert page.inner_text(".headline") == f"{result.parallelism:.1f} times faster than one token after another"
    assert labels[4:] == [
        f"Together: {result.critical_path} steps",
        f"One token after another: {result.content_tokens} steps",
    ]


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
    for broken in ("#c=AAAA", link[link.index("#") : -9], "#c=" + "A" * 40_000):
        page = new_page(f"{stage.url}/{broken}")
        page.get_by_text("The link that was opened is broken").first.wait_for()


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
    page = new_page(stage.url, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True, width=390)
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


def fetch_axe(folder) -> str:
    """axe-core's script from npm; it is not ours to keep."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here to fetch axe-core with")
    got = subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300)
    if got.returncode:
        pytest.skip(f"npm does not give {AXE}: {got.stderr.strip()[-200:]}")
    with tarfile.open(folder / got.stdout.split()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def check_axe(page, source: str) -> None:
    page.evaluate(source)
    found = page.evaluate(
        "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })"
    )
    told = [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
    assert told == []
    undecided = [
        (node["html"], node["any"][0]["message"])
        for rule in found["incomplete"]
        if rule["id"] == "color-contrast"
        for node in rule["nodes"]
    ]
    assert undecided == []
    assert any(rule["id"] == "color-contrast" for rule in found["passes"])


@pytest.mark.slow
def test_markdown_is_never_markup(stage, new_page):
    """Whatever a model writes: only these elements come of it, no letter is lost, and none comes twice."""
    page = new_page(stage.url)
    told = page.evaluate(Path(__file__).with_name("page_texts.js").read_text("utf-8"))
    assert told["wrong"] == []
    allowed = "a blockquote br code del div em h4 h5 h6 hr li ol p pre span strong table tbody td th tr ul".split()
    assert set(told["tags"]) <= set(allowed) and {"li", "strong", "code", "a", "span"} <= set(told["tags"])
