"""Fixtures of the server's tests."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from page_stage import Stage
from serve_support import serving

from dense import pilot
from support import tiny_engine, until


@pytest.fixture(scope="module")
def tiny():
    """A server of a tiny model, for tests that leave it idle."""
    with serving(tiny_engine()) as running:
        yield running
        until(running.is_idle)


@pytest.fixture(scope="module")
def forking():
    """A server whose answers have six threads, two of them nested, and end by themselves."""
    engine = tiny_engine(slots=8192)
    pilot(engine, 2, 12)
    with serving(engine) as running:
        yield running
        until(running.is_idle)


@pytest.fixture(scope="module")
def client(tiny):
    """OpenAI's own client of the tiny model's server."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0) as client:
        yield client


# -- the page in a real browser -------------------------------------------------------------------------------


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


@pytest.fixture(scope="module")
def piloted() -> Iterator[Stage]:
    engine = tiny_engine(slots=16384)
    with serving(engine) as running:
        stage = Stage(running, engine)
        yield stage
        stage.go()


@pytest.fixture
def stage(piloted: Stage) -> Iterator[Stage]:
    piloted.steps = 10**9
    yield piloted
    piloted.go()


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
