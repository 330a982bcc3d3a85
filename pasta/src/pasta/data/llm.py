"""Asks a large language model, behind any OpenAI-compatible server, what is independent."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pasta.data.example import Decision, Example, Refused
from pasta.data.plan import PlanError
from pasta.data.prompt import RULES, messages, read_plan
from pasta.errors import PastaError, UsageError

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
FORM = 1  # of the prompt: another number makes all cached replies old


class Llm:
    """The annotator `llm`.

    Args:
        model: The name that the server knows.
        base_url: Up to and including `/v1`.
        key: Sent as a bearer token, if there is one.
        concurrency: Requests under way at a time.
        retries: How often a request that failed for a passing reason is sent again.
        backoff: Seconds before the first retry; each further one waits twice as long.
        cache: The folder of replies; None keeps them in the user's cache.
    """

    name = "llm"

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        key: str = "",
        concurrency: int = 16,
        retries: int = 5,
        backoff: float = 1.0,
        timeout: float = 120.0,
        cache: Path | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"{base_url} is not the address of a server", "expected http://… or https://…")
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.key = key
        self.concurrency = concurrency
        self.retries = retries
        self.backoff = backoff
        self.timeout = timeout
        self.cache = cache or _default_cache()
        self.batch = 16 * concurrency
        self.requests = 0  # sent, retries included

    def settings(self) -> Mapping[str, Any]:
        return {"model": self.model, "base_url": self.base_url, "form": FORM, "rules": _digest(RULES)}

    def decide(self, examples: Sequence[Example]) -> Iterator[Decision]:
        """Decisions as they come in; a loop of its own runs as long as this iterator."""
        with asyncio.Runner() as runner:
            arriving = self._arriving(examples)
            try:
                while True:
                    yield runner.run(anext(arriving))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
            finally:
                runner.run(arriving.aclose())  # type: ignore[attr-defined]

    async def _arriving(self, examples: Sequence[Example]) -> AsyncIterator[Decision]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        turn = asyncio.Semaphore(self.concurrency)
        async with _http().AsyncClient(headers=headers, timeout=self.timeout) as client:

            async def one(example: Example) -> Decision:
                async with turn:
                    return await self._decide_one(client, example)

            tasks = [asyncio.create_task(one(example)) for example in examples]
            try:
                for task in asyncio.as_completed(tasks):
                    yield await task
            finally:
                for left in tasks:
                    left.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _decide_one(self, client: Any, example: Example) -> Decision:
        body = {"model": self.model, "messages": messages(example), "temperature": 0}
        kept = self.cache / f"{_digest(json.dumps([FORM, self.base_url, body], sort_keys=True))}.json"
        try:
            reply = _read_reply(kept)
            if reply is None:
                reply = await self._ask(client, body)
                plan = read_plan(reply, example.text)
                _keep(kept, reply)  # only a reply that can be used: a refused one is asked for again
            else:
                plan = read_plan(reply, example.text)
        except PlanError as error:
            return Decision(example.row, Refused(f"unusable reply: {error}"))
        except _Gone as error:
            return Decision(example.row, Refused(str(error)))
        return Decision(example.row, plan, "" if plan else "the model found nothing independent")

    async def _ask(self, client: Any, body: Mapping[str, Any]) -> str:
        """Sends one request, again if need be, and returns the text of the reply."""
        http = _http()
        wait = self.backoff
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait *= 2
            self.requests += 1
            try:
                reply = await client.post(f"{self.base_url}/chat/completions", json=body)
            except (http.TransportError, OSError) as error:
                problem = f"cannot reach the server: {type(error).__name__}"
                continue
            if reply.status_code in RETRIED:
                problem = f"the server answered {reply.status_code}"
                wait = max(wait, _retry_after(reply.headers.get("retry-after")))
                continue
            if reply.status_code in (401, 403):
                raise PastaError(f"the server refuses the key: {reply.status_code}", "set OPENAI_API_KEY")
            if reply.status_code == 404:
                raise PastaError(
                    f"{self.base_url} knows no chat completions of {self.model!r}", "check --base-url and --model"
                )
            if reply.status_code >= 400:
                raise _Gone(f"the server answered {reply.status_code}")
            try:
                content = reply.json()["choices"][0]["message"]["content"]
            except (ValueError, KeyError, IndexError, TypeError):
                content = None
            if isinstance(content, str):
                return content
            problem = "the server's answer is not a chat completion"
        raise _Gone(problem)


class _Gone(PastaError):
    """A request that failed for good."""


def _http() -> Any:
    """The HTTP client: httpx, or its successor, which huggingface_hub brings along."""
    for name in ("httpx", "httpx2"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise PastaError("the annotator llm needs httpx, which is not installed", 'pip install "pasta-decoding[annotate]"')


def _retry_after(header: str | None) -> float:
    """The seconds that a server asks to wait, at most a minute."""
    try:
        return min(60.0, max(0.0, float(header or 0)))
    except ValueError:
        return 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _default_cache() -> Path:
    from pasta.models.store import cache_root

    return cache_root() / "annotate"


def _read_reply(path: Path) -> str | None:
    try:
        reply = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return reply if isinstance(reply, str) else None


def _keep(path: Path, reply: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{random.getrandbits(32):08x}")
    partial.write_text(json.dumps(reply), "utf-8")
    partial.replace(path)
