"""What one large request does to somebody else's first token.

    pasta serve --port 8000
    python benchmarks/serve_delay.py http://127.0.0.1:8000 --rounds 40 --json delay.json

In each round a small question is asked three times, in changing order: alone, at the moment when somebody else sends a
body of 1 MB (330,000 empty messages), and at the moment when somebody else sends one of 3.9 MB (a prompt that is too
long). What counts is the time to the first streamed text, beside the same question alone in the same run: on a busy
machine that varies too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from typing import Any

import httpx

LARGE = {
    "alone": None,
    "1 MB of empty messages": b'{"messages":[' + b"{}," * 330_000 + b"{}]}",
    "3.9 MB of prompt": b'{"messages":[{"role":"user","content":"' + b"long " * 780_000 + b'"}]}',
}
JSON = {"Content-Type": "application/json"}
SMALL = {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 1, "stream": True}


async def first_token(http: httpx.AsyncClient) -> float:
    begun = time.perf_counter()
    async with http.stream("POST", "/v1/chat/completions", json=SMALL) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                return time.perf_counter() - begun
    raise SystemExit("error: the server gave no token")


async def beside(url: str, http: httpx.AsyncClient, body: bytes | None) -> float:
    """The time to the first token, asked for while the server has somebody else's body to deal with."""
    if body is None:
        return await first_token(http)
    code = (
        "import sys, httpx; body = sys.stdin.buffer.read(); print(flush=True); "
        f"r = httpx.post({url + '/v1/chat/completions'!r}, content=body, headers={JSON!r}, timeout=60); "
        "sys.exit(r.status_code not in (400, 413))"
    )
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=pipe, stdout=pipe)
    assert other.stdin is not None and other.stdout is not None
    other.stdin.write(body)
    other.stdin.close()
    await other.stdout.readline()  # it sends from now on
    took = max([await first_token(http) for _ in range(3)])  # one of them meets it in the middle
    if await other.wait():
        raise SystemExit("error: the large request was not refused as it should be")
    return took


async def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {name: [] for name in LARGE}
    chance = random.Random(0)
    async with httpx.AsyncClient(base_url=options.url, timeout=60) as http:
        for _ in range(3):
            await first_token(http)
        for _ in range(options.rounds):
            for name in chance.sample(sorted(LARGE), len(LARGE)):
                body = LARGE[name]
                one = await beside(options.url, http, body)
                if body is None:  # as many tries as beside a body
                    one = max(one, *[await first_token(http) for _ in range(2)])
                times[name].append(one)
    alone = times["alone"]
    return [
        {
            "beside": name,
            "rounds": len(taken),
            "median_ms": 1e3 * statistics.median(taken),
            "worst_ms": 1e3 * max(taken),
            "added_median_ms": 1e3 * (statistics.median(taken) - statistics.median(alone)),
            "added_p90_ms": 1e3 * statistics.quantiles([a - b for a, b in zip(taken, alone, strict=True)], n=10)[8],
            "added_worst_ms": 1e3 * (max(taken) - max(alone)),
        }
        for name, taken in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", metavar="FILE", help="save all figures here")
    parser.add_argument("--note", default="", help="about the machine; saved with the figures")
    options = parser.parse_args()
    rows = asyncio.run(measure(options))
    for row in rows:
        print(json.dumps({key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps({"note": options.note, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
