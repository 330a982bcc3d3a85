"""Makes the picture of the server's page: the default model halfway through an answer, in a real browser.

pip install "pasta-decoding[torch,serve,browser]"    # and a chromium on the path
python pasta/docs/images/page.py
"""

import shutil
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from pasta import load
from pasta.serve.run import Server, bind
from pasta.serve.settings import Settings

QUESTION = "Give me five tips for better sleep."
STEPS = 44  # after which it is taken
WIDTH = 1000


def main() -> None:
    engine = load(device="cpu").engine
    step, left, there = engine.step, iter(range(STEPS)), threading.Event()

    def hold() -> Any:
        """The next step, as long as the picture is not due."""
        if next(left, None) is None:
            there.set()
            taken.wait()
        return step()

    taken = threading.Event()
    engine.step = hold  # type: ignore[method-assign]
    bound, started = bind("127.0.0.1", 0), threading.Event()
    server = Server(engine, Settings(), started.set)
    thread = threading.Thread(target=server.run_on, args=(bound,), daemon=True)
    thread.start()
    started.wait()
    target = Path(__file__).with_name("page.png")
    with sync_playwright() as run:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = run.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 400})
        page.goto(f"http://127.0.0.1:{bound.getsockname()[1]}")
        page.fill("#prompt", QUESTION)
        page.press("#prompt", "Enter")
        there.wait()
        page.wait_for_timeout(1000)  # for the last step to be drawn
        height = page.locator("#turns").evaluate("e => e.getBoundingClientRect().bottom + scrollY")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height}
        page.screenshot(path=str(target), clip=clip, full_page=True)
        taken.set()
        page.locator(".actions").wait_for(timeout=600_000)
        browser.close()
    server.should_exit = True
    thread.join()
    print(target)


if __name__ == "__main__":
    main()
