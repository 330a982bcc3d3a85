"""The page at `/`: it comes complete from the server, and in a real browser it answers twice at once."""

import re
import shutil

import pytest
from serve_support import Slow, serving

from pasta.decoding.api import generate
from support import tiny_engine


def test_the_page_needs_nothing_from_elsewhere(tiny):
    page = tiny.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    parts = re.findall(r'(?:href|src)="(page/[^"]+)"', page.text)
    scripts = [name for part in parts for name in re.findall(r'from "\./([^"]+)"', tiny.http.get(f"/{part}").text)]
    for path in ("", *parts, *(f"page/{name}" for name in scripts)):
        got = tiny.http.get(f"/{path}")
        assert got.status_code == 200, path
        addresses = re.findall(r"https?://[^\"' ]+", got.text)
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, "that one is a name"
    assert len(parts) + len(scripts) == 5
    assert tiny.http.get("/page/__init__.py").status_code == 404


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


@pytest.mark.slow
def test_in_a_browser(browser):
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, api_key="k") as running:
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(running.url)
        page.fill("#prompt", "Why?")
        for name, value in (("parallelism", "8"), ("tokens", "60")):
            page.eval_on_selector(f"#{name}", "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }", value)
        page.click("#run")
        page.get_by_text("Error: You didn't provide an API key").wait_for()
        errors.clear()  # the browser reports the 401 too
        page.fill("#key", "k")
        page.click("#run")
        page.get_by_text("Answering").wait_for()
        assert page.is_disabled("#run")
        slow.set()
        page.get_by_text("Done:").wait_for()
        for lane, sequential in (("parallel", False), ("sequential", True)):
            result = generate(engine, "Why?", max_tokens=60, parallelism=8.0, sequential=sequential)
            assert page.locator(f"#{lane} .answer").evaluate("e => e.textContent") == result.text
            assert page.locator(f"#{lane} .thread").count() == len(result.threads)
            page.locator(f"#{lane} .figures", has_text=f"critical path {result.critical_path}").wait_for()
        assert page.locator("#parallel .thread").count() > 1, "the test needs an answer with threads"
        assert errors == []
        page.close()
