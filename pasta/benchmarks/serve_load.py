"""Many clients on a running server: is every answer right, is everything freed, and how long does it take?

    pasta serve --port 8000 --max-running 64 --queue 256
    python benchmarks/serve_load.py http://127.0.0.1:8000 --clients 64 --seconds 120

A third of the requests are left in the middle, and one in ten is malformed. Each mode, parallel and sequential, has
half of the time. Every answer that is read to its end is compared with the one that the idle server gave.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from dataclasses import dataclass, field

import httpx

PROMPTS = [
    "Name three fruits and describe each.",
    "Why is the sky blue?",
    "Give four tips for sleeping well.",
    "What are the main parts of a bicycle?",
    "Compare cats and dogs.",
]
MALFORMED = [b"", b"{", b"[]", b'{"messages": []}', b'{"messages": [{"role": "user", "content": 5}]}']
JSON = {"Content-Type": "application/json"}


@dataclass
class Tally:
    """What happened in one mode."""

    right: int = 0
    wrong: int = 0
    left: int = 0
    refused: int = 0  # with 429
    malformed: int = 0
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    tokens: int = 0

    def row(self, mode: str, seconds: float) -> dict[str, object]:
        def at(values: list[float], part: int) -> float | None:
            return round(statistics.quantiles(values, n=100)[part - 1], 3) if len(values) > 1 else None

        return {
            "mode": mode,
            "seconds": round(seconds, 1),
            "right": self.right,
            "wrong": self.wrong,
            "left": self.left,
            "refused": self.refused,
            "malformed": self.malformed,
            "tokens_per_s": round(self.tokens / seconds, 1),
            "first_p50_s": at(self.first_s, 50),
            "first_p99_s": at(self.first_s, 99),
            "whole_p50_s": at(self.whole_s, 50),
            "whole_p99_s": at(self.whole_s, 99),
        }


def body_of(prompt: str, options: argparse.Namespace, sequential: bool) -> dict[str, object]:
    return {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": options.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "pasta": {"sequential": sequential},
    }


async def read(http: httpx.AsyncClient, body: dict[str, object], tally: Tally, leave_after: int | None) -> str | None:
    """The answer's text; None where it was left or refused."""
    begun, text, chunks, seen = time.perf_counter(), "", 0, False
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code == 429:
            tally.refused += 1
            await asyncio.sleep(0.2)
            return None
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line or line == "data: [DONE]":
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            if chunk.get("usage"):
                tally.tokens += chunk["usage"]["completion_tokens"]
            for choice in chunk["choices"]:
                text += choice["delta"].get("content", "")
            if text and not seen:
                seen = True
                tally.first_s.append(time.perf_counter() - begun)
            chunks += 1
            if leave_after is not None and chunks > leave_after:
                tally.left += 1
                return None
    tally.whole_s.append(time.perf_counter() - begun)
    return text


async def visit(
    http: httpx.AsyncClient, options: argparse.Namespace, sequential: bool, expected: dict[str, str], until: float,
    tally: Tally, number: int,
) -> None:  # fmt: skip
    """One client, until the time is up."""
    chance = random.Random(number)
    while time.perf_counter() < until:
        if chance.random() < 0.1:
            response = await http.post("/v1/chat/completions", content=chance.choice(MALFORMED), headers=JSON)
            assert response.status_code == 400, response.text
            tally.malformed += 1
            continue
        prompt = chance.choice(PROMPTS)
        leave = chance.randrange(40) if chance.random() < 1 / 3 else None
        text = await read(http, body_of(prompt, options, sequential), tally, leave)
        if text is not None:
            tally.right += text == expected[prompt]
            tally.wrong += text != expected[prompt]


async def measure(options: argparse.Namespace) -> list[dict[str, object]]:
    rows = []
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    async with httpx.AsyncClient(base_url=options.url, headers=headers, timeout=600, limits=limits) as http:
        for mode in ("parallel", "sequential"):
            sequential = mode == "sequential"
            expected = {}
            for prompt in PROMPTS:
                expected[prompt] = await read(http, body_of(prompt, options, sequential), Tally(), None) or ""
            tally, begun = Tally(), time.perf_counter()
            until = begun + options.seconds / 2
            await asyncio.gather(
                *(visit(http, options, sequential, expected, until, tally, n) for n in range(options.clients))
            )
            rows.append(tally.row(mode, time.perf_counter() - begun))
            await asyncio.sleep(1)
            metrics = (await http.get("/metrics")).text
            slots, free = (
                float(re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)[1])  # type: ignore[index]
                for name in ("pasta_kv_slots", "pasta_kv_slots_free")
            )
            rows[-1]["slots_lost"] = int(slots - free)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--max-tokens", type=int, default=120)
    parser.add_argument("--api-key")
    options = parser.parse_args()
    rows = asyncio.run(measure(options))
    for row in rows:
        print(json.dumps(row))
    raise SystemExit(any(row["wrong"] or row["slots_lost"] for row in rows))


if __name__ == "__main__":
    main()
