"""The memory of a server in a process of its own: it does not grow with connections, nor with requests."""

import contextlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from serve_support import ASK, CHAT, EMPTY_MESSAGES, HALVES, LONG_PROMPT, TEXT, connect


@contextlib.contextmanager
def process(*arguments):
    script = Path(__file__).with_name("tiny_server.py")
    running = subprocess.Popen(
        [sys.executable, script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield running.stdout.readline().strip(), running
    finally:
        running.terminate()
        running.wait(30)
        running.stdout.close()
        running.stderr.close()


def memory(url):
    text = httpx.get(f"{url}/metrics").text
    return float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)[1]) / 2**20


@pytest.mark.slow
@pytest.mark.parametrize("files", [2048, 256])
def test_a_thousand_half_open_connections(files):
    """Served all the while, also where the process may open but 256 files; and memory does not grow with them."""
    with process(files) as (url, running), contextlib.ExitStack() as sockets:
        ask = {"messages": ASK, "max_tokens": 5}
        assert httpx.post(url + CHAT, json=ask).status_code == 200
        before = memory(url)
        for number in range(1000):
            raw = sockets.enter_context(connect(url))
            with contextlib.suppress(OSError):
                raw.sendall(HALVES[number % 3])
            if number % 100 == 0:
                assert httpx.post(url + CHAT, json=ask, timeout=10).status_code == 200
        assert httpx.post(url + CHAT, json=ask, timeout=10).status_code == 200
        grown = memory(url) - before
        running.terminate()
        _, told = running.communicate(timeout=30)
        assert len(told.splitlines()) < 20, told
        assert grown < 40, grown


@pytest.mark.slow
def test_many_requests_leave_nothing_behind():
    """Whole answers, streams that are left, what is refused, bodies of megabytes; the first few hundred warm it up."""
    json = {"Content-Type": "application/json"}

    def visit(url: str, number: int) -> int:
        ask = {"messages": [{"role": "user", "content": f"Why {number}?"}], "max_tokens": 8, "stream": number % 2 == 0}
        with httpx.Client(base_url=url, timeout=60) as http:
            match number % 6:
                case 0:  # leaves in the middle
                    with http.stream("POST", CHAT, json=ask) as response:
                        next(response.iter_lines())
                        return response.status_code
                case 1:
                    return http.post(CHAT, content=b"{", headers=json).status_code
                case 2 if number % 30 == 2:
                    return http.post(CHAT, content=EMPTY_MESSAGES, headers=json).status_code
                case 3 if number % 30 == 3:
                    return http.post(TEXT, content=LONG_PROMPT, headers=json).status_code
            return http.post(CHAT, json=ask).status_code

    def visits(url: str, begin: int, end: int) -> float:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda number: visit(url, number), range(begin, end))) == {200, 400}
        return memory(url)

    with process() as (url, _):
        warm = visits(url, 0, 600)
        assert visits(url, 600, 1800) - warm < 15
