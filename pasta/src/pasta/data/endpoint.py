"""A large language model behind any OpenAI-compatible server: many requests at a time, retries, replies kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pasta.errors import PastaError, UsageError

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
Item = TypeVar("Item")
Result = TypeVar("Result")


class Gone(PastaError):
    """A request that failed for good; `status` is the server's, if it answered."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


class Endpoint:
    """Where to ask.

    Args:
        model: The name that the server knows.
        base_url: Up to and including `/v1`.
        key: Sent as a bearer token, if there is one.
        concurrency: Requests under way at a time.
        retries: How often a request that failed for a passing reason is sent again.
        backoff: Seconds before the first retry; each further one waits twice as long.
        cache: The folder of replies.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        cache: Path,
        key: str = "",
        concurrency: int = 16,
        retries: int = 5,
        backoff: float = 1.0,
        timeout: float = 120.0,
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
        self.cache = cache
        self.requests = 0  # sent, retries included

    def each(
        self, items: Sequence[Item], handle: Callable[[Any, Item], Coroutine[Any, Any, Result]]
    ) -> Iterator[Result]:
        """`handle(client, item)` of each, as they come in; a loop of its own runs as long as this iterator."""
        with asyncio.Runner() as runner:
            arriving = self._arriving(items, handle)
            try:
                while True:
                    yield runner.run(anext(arriving))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
            finally:
                runner.run(arriving.aclose())  # type: ignore[attr-defined]

    async def _arriving(
        self, items: Sequence[Item], handle: Callable[[Any, Item], Coroutine[Any, Any, Result]]
    ) -> AsyncIterator[Result]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        turn = asyncio.Semaphore(self.concurrency)
        async with _http().AsyncClient(headers=headers, timeout=self.timeout) as client:

            async def one(item: Item) -> Result:
                async with turn:
                    return await handle(client, item)

            tasks = [asyncio.create_task(one(item)) for item in items]
            try:
                for task in asyncio.as_completed(tasks):
                    yield await task
            finally:
                for left in tasks:
                    left.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, client: Any, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sends one request, again if need be, and returns the reply's first choice, which has a text."""
        http = _http()
        wait = self.backoff
        problem, status = "", None
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
            status = reply.status_code
            if status in RETRIED:
                problem = f"the server answered {status}"
                wait = max(wait, _retry_after(reply.headers.get("retry-after")))
                continue
            if status in (401, 403):
                raise PastaError(f"the server refuses the key: {status}", "set OPENAI_API_KEY")
            if status == 404:
                raise PastaError(
                    f"{self.base_url} knows no chat completions of {self.model!r}", "check --base-url and --model"
                )
            if status >= 400:
                raise Gone(f"the server answered {status}", status)
            try:
                choice = reply.json()["choices"][0]
                if isinstance(choice["message"]["content"], str):
                    return dict(choice)
            except (ValueError, KeyError, IndexError, TypeError):
                pass
            problem = "the server's answer is not a chat completion"
        raise Gone(problem, status)

    def place(self, form: int, body: Mapping[str, Any]) -> Path:
        """Where the reply to a request is kept; another `form` makes all kept replies old."""
        return self.cache / f"{digest(json.dumps([form, self.base_url, body], sort_keys=True))}.json"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_kept(path: Path) -> Any:
    """A kept reply; None where there is none."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def keep(path: Path, reply: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{random.getrandbits(32):08x}")
    partial.write_text(json.dumps(reply), "utf-8")
    partial.replace(path)


def _http() -> Any:
    """The HTTP client: httpx, or its successor, which huggingface_hub brings along."""
    for name in ("httpx", "httpx2"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise PastaError("asking a server needs httpx, which is not installed", 'pip install "pasta-decoding[annotate]"')


def _retry_after(header: str | None) -> float:
    """The seconds that a server asks to wait, at most a minute."""
    try:
        return min(60.0, max(0.0, float(header or 0)))
    except ValueError:
        return 0.0
