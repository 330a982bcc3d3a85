"""Many clients on a running server: is every answer right, is everything freed, and how long does it take?

    pasta serve --port 8000 --max-running 16 --queue 256
    python benchmarks/serve_load.py http://127.0.0.1:8000 --clients 64 --seconds 120 --json load.json

A third of the requests are left in the middle, and one in ten is malformed or too large. First in parallel mode, then
sequentially, for as long each. Every answer that is read to its end is compared with the one that the idle server gave.
With `--warm-up` the same load runs for so long before each mode, and is a row of its own: on a GPU a fresh server
compiles kernels and captures graphs as shapes first occur. The exit status is 1 if an answer was wrong, an error was
not the client's, or a slot was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

PROMPTS = [
    "Name three fruits and describe each.",
    "Why is the sky blue?",
    "Give four tips for sleeping well.",
    "What are the main parts of a bicycle?",
    "Compare cats and dogs.",
]
MALFORMED = [b"", b"{", b"[]", b'{"messages": []}', b'{"messages": [{"role": "user", "content": 5}]}']
OVERSIZED = [
    b'{"messages":[' + b"{}," * 330_000 + b"{}]}",
    b'{"messages":[{"role":"user","content":"' + b"long " * 780_000 + b'"}]}',
    b"[" * 5_000_000,
]
REFUSED = MALFORMED * 2 + OVERSIZED
MODES = ("parallel", "sequential")
JSON = {"Content-Type": "application/json"}
MIB = 1 << 20


@dataclass
class Tally:
    """What happened in one mode."""

    right: int = 0
    wrong: int = 0
    left: int = 0  # by the client, in the middle
    refused: int = 0  # with 429
    malformed: int = 0  # or too large, and refused with 400 or 413
    failed: int = 0  # with any other error
    tokens: int = 0
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MiB

    def row(self, mode: str, seconds: float) -> dict[str, Any]:
        half = [(at, size) for at, size in self.memory if at > seconds / 2]
        slope = statistics.linear_regression(*zip(*half, strict=True)).slope if len(half) > 1 else 0.0
        counts = {name: getattr(self, name) for name in ("right", "wrong", "left", "refused", "malformed", "failed")}
        return {
            "mode": mode,
            "seconds": round(seconds, 1),
            **counts,
            "tokens_per_s": round(self.tokens / seconds, 1),
            "first_p50_s": quantile(self.first_s, 50),
            "first_p99_s": quantile(self.first_s, 99),
            "whole_p50_s": quantile(self.whole_s, 50),
            "whole_p99_s": quantile(self.whole_s, 99),
            "memory_begin_mib": round(self.memory[0][1], 1),
            "memory_end_mib": round(self.memory[-1][1], 1),
            "memory_slope_mib_per_min": round(60 * slope, 2),  # over the second half
        }


def quantile(values: list[float], percent: int) -> float | None:
    return round(statistics.quantiles(values, n=100)[percent - 1], 3) if len(values) > 1 else None


def body_of(prompt: str, max_tokens: int, sequential: bool) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "pasta": {"sequential": sequential, "plain": False},  # threads whatever they cost: answers are compared
    }


async def read(http: httpx.AsyncClient, body: dict[str, Any], tally: Tally, leave_after: int | None) -> str | None:
    """The answer's text; None where it was left, refused or failed."""
    begun, text, chunks = time.perf_counter(), "", 0
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            tally.refused += response.status_code == 429
            tally.failed += response.status_code != 429
            await asyncio.sleep(0.2)
            return None
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):  # also the comments of a stream that waits
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                tally.failed += 1
                return None
            if chunk["usage"]:
                tally.tokens += chunk["usage"]["completion_tokens"]
            for choice in chunk["choices"]:
                new = choice["delta"].get("content", "")
                if new and not text:
                    tally.first_s.append(time.perf_counter() - begun)
                text += new
            chunks += 1
            if leave_after is not None and chunks > leave_after:
                tally.left += 1
                return None
    tally.whole_s.append(time.perf_counter() - begun)
    return text


@dataclass(frozen=True)
class Load:
    """One mode's load on a server."""

    http: httpx.AsyncClient
    sequential: bool
    max_tokens: int
    expected: dict[str, str]
    until: float
    least: int
    tally: Tally

    async def run(self, clients: int) -> float:
        """All clients, until the time is up and their last answers have ended: the seconds that it took."""
        begun, done = time.perf_counter(), asyncio.Event()
        watching = asyncio.create_task(self.watch(done))
        await asyncio.gather(*(self.visit(number) for number in range(clients)))
        took = time.perf_counter() - begun
        done.set()
        await watching
        return took

    async def visit(self, number: int) -> None:
        """One client, until the time is up and it has asked often enough."""
        chance = random.Random(number)
        for asked in itertools.count():
            if asked >= self.least and time.perf_counter() >= self.until:
                return
            if chance.random() < 0.1:
                response = await self.http.post("/v1/chat/completions", content=chance.choice(REFUSED), headers=JSON)
                self.tally.malformed += response.status_code in (400, 413)
                self.tally.failed += response.status_code not in (400, 413, 429)
                continue
            prompt = chance.choice(PROMPTS)
            leave = chance.randrange(10) if chance.random() < 1 / 3 else None
            text = await read(self.http, body_of(prompt, self.max_tokens, self.sequential), self.tally, leave)
            if text is not None:
                self.tally.right += text == self.expected[prompt]
                self.tally.wrong += text != self.expected[prompt]

    async def watch(self, done: asyncio.Event) -> None:
        """Notes the server's memory once a second, and says how it goes."""
        begun = time.perf_counter()
        while not done.is_set():
            now = time.perf_counter() - begun
            self.tally.memory.append((now, (await figures(self.http))["process_resident_memory_bytes"] / MIB))
            if len(self.tally.memory) % 20 == 0:
                print(f"{now:.0f} s: {self.tally.right} right, {self.tally.wrong} wrong", file=sys.stderr, flush=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 1)


async def figures(http: httpx.AsyncClient) -> dict[str, float]:
    """The server's metrics that have no labels."""
    text = (await http.get("/metrics")).text
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


async def slots_lost(http: httpx.AsyncClient) -> int:
    """What is not free once nothing runs any more."""
    for _ in range(600):
        now = await figures(http)
        lost = int(now["pasta_kv_slots"] - now["pasta_kv_slots_free"])
        if not (now["pasta_requests_running"] or now["pasta_requests_waiting"] or lost):
            break
        await asyncio.sleep(0.1)
    return lost


async def measure(options: argparse.Namespace) -> AsyncIterator[dict[str, Any]]:
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    async with httpx.AsyncClient(base_url=options.url, headers=headers, timeout=600, limits=limits) as http:
        for mode in options.modes:
            bodies = {prompt: body_of(prompt, options.max_tokens, mode == "sequential") for prompt in PROMPTS}
            expected = {prompt: await read(http, body, Tally(), None) or "" for prompt, body in bodies.items()}
            for name, seconds in ((f"{mode}, warming up", options.warm_up), (mode, options.seconds)):
                if seconds > 0:
                    until = time.perf_counter() + seconds
                    load = Load(http, mode == "sequential", options.max_tokens, expected, until, options.least, Tally())
                    took = await load.run(options.clients)
                    yield {
                        **load.tally.row(name, took),
                        "slots_lost": await slots_lost(http),
                        "mean_answer_characters": round(statistics.mean(map(len, expected.values())), 1),
                    }


async def run(options: argparse.Namespace) -> bool:
    """Tells and saves each row as it comes; whether all went well."""
    rows: list[dict[str, Any]] = []
    async for row in measure(options):
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.json:
            report = {"clients": options.clients, "max_tokens": options.max_tokens, "note": options.note, "modes": rows}
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(report, indent=1) + "\n")
    return not any(row["wrong"] or row["failed"] or row["slots_lost"] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120, help="for each mode")
    parser.add_argument("--warm-up", type=float, default=0, metavar="SECONDS", help="before each mode")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--least", type=int, default=0, help="requests of each client, also where they take longer")
    parser.add_argument("--max-tokens", type=int, default=120)
    parser.add_argument("--api-key")
    parser.add_argument("--json", metavar="FILE", help="save all figures here")
    parser.add_argument("--note", default="", help="about the machine; saved with the figures")
    raise SystemExit(0 if asyncio.run(run(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
