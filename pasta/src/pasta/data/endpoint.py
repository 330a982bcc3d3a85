"""A large language model behind any OpenAI-compatible server: many requests at a time, retries, replies kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from pasta.engine.remote_client import checked_key
from pasta.errors import PastaError, UsageError
from pasta.retry_after import retry_after

CONNECT_S = 20.0
MODELS_SHOWN = 8
SAID_LETTERS = 200
ODD = (ValueError, KeyError, IndexError, TypeError, RecursionError)  # of a reply that is not JSON, or says other things
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
        timeout: Seconds that an answer may take; a small server lets requests wait for each other.
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
        retries: int = 7,
        backoff: float = 1.0,
        timeout: float = 600.0,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"{base_url} is not the address of a server", "expected http://… or https://…")
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.key = checked_key(key)
        self.concurrency = concurrency
        self.retries = retries
        self.backoff = backoff
        self.timeout = timeout
        self.cache = cache
        self.requests = 0  # sent, retries included
        self.answered = False  # whether there ever was a server

    def each(
        self, items: Sequence[Item], handle: Callable[[Any, Item], Coroutine[Any, Any, Result]]
    ) -> Iterator[Result]:
        """`handle(client, item)` of each, as they come in.

        As long as this iterator, a loop runs in a thread of its own: the caller may be in one, as in a notebook.
        """
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        loop = runner.get_loop()

        def run() -> None:
            with runner:  # which in the end cancels what is under way, and waits for it
                loop.run_forever()

        thread = Thread(target=run, daemon=True)
        thread.start()
        arriving = self._arriving(items, handle)

        async def one() -> Result:
            return await anext(arriving)

        try:
            while True:
                yield asyncio.run_coroutine_threadsafe(one(), loop).result()
        except StopAsyncIteration:
            return
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    async def _arriving(
        self, items: Sequence[Item], handle: Callable[[Any, Item], Coroutine[Any, Any, Result]]
    ) -> AsyncIterator[Result]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        turn = asyncio.Semaphore(self.concurrency)
        http = _http()
        limits = http.Timeout(self.timeout, connect=CONNECT_S)
        async with http.AsyncClient(headers=headers, timeout=limits) as client:

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
        """Sends one request, again if need be, and returns the reply's first choice, which has a text.

        Raises:
            Gone: This request failed for good.
            PastaError: So would all others: there is no such server or model, or the key is not the right one.
        """
        http = _http()
        address = f"{self.base_url}/chat/completions"
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")  # half a character cannot be sent
        headers = {"Content-Type": "application/json"}
        wait = self.backoff
        problem: PastaError = Gone("")
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait *= 2
            self.requests += 1
            try:
                reply = await client.post(address, content=data, headers=headers)
            except (http.ReadTimeout, http.PoolTimeout):
                raise Gone(f"no answer within {self.timeout:g} s: ask for fewer at a time") from None
            except (http.TransportError, OSError) as error:
                problem = self._unreachable(error)
                if not self.answered:
                    raise problem from None
                continue
            self.answered = True
            status = reply.status_code
            if status in RETRIED:
                problem = Gone(_said(reply), status)
                wait = max(wait, retry_after(reply.headers.get("retry-after")))
            elif status in (401, 403):
                raise self._locked(reply)
            elif status == 404:
                raise await self._unknown(client, reply)
            elif status >= 400:
                raise Gone(_said(reply), status)
            elif (choice := _choice(reply)) is not None:
                return choice
            else:
                problem = Gone("the server's answer is not a chat completion", status)
        raise problem

    def _unreachable(self, error: Exception) -> PastaError:
        if self.answered:
            return PastaError(
                f"{self.base_url} went away: {type(error).__name__}",
                "start the server and run the same command again: what is done is kept",
            )
        return PastaError(f"nothing answers at {self.base_url}: {error}", "start the server, or check the address")

    def _locked(self, reply: Any) -> PastaError:
        if self.key:
            return PastaError(f"{self.base_url} refuses the key: {_said(reply)}", "check OPENAI_API_KEY")
        return PastaError(f"{self.base_url} wants a key: {_said(reply)}", "set OPENAI_API_KEY")

    async def _unknown(self, client: Any, reply: Any) -> PastaError:
        """A wrong address, or a wrong name: the server can tell which models it has."""
        http = _http()
        try:
            listed = (await client.get(f"{self.base_url}/models")).json()
            names = [str(model["id"]) for model in listed["data"]]
        except (http.HTTPError, OSError, *ODD):
            return UsageError(f"there is no {self.base_url}/chat/completions", "the address usually ends in /v1")
        if self.model in names:
            return PastaError(f"{self.base_url} refuses to chat with {self.model!r}: {_said(reply)}")
        shown = ", ".join(names[:MODELS_SHOWN]) + (", …" if len(names) > MODELS_SHOWN else "")
        return UsageError(f"{self.base_url} has no model {self.model!r}", f"it has {shown}")

    def place(self, form: int, body: Mapping[str, Any]) -> Path:
        """Where the reply to a request is kept; another `form` makes all kept replies old."""
        return self.cache / f"{digest(json.dumps([form, self.base_url, body], sort_keys=True))}.json"


def _choice(reply: Any) -> dict[str, Any] | None:
    """The first choice of a chat completion, if it has a text."""
    try:
        choice = reply.json()["choices"][0]
        return dict(choice) if isinstance(choice["message"]["content"], str) else None
    except ODD:
        return None


def _said(reply: Any) -> str:
    """What the server says went wrong, on one line."""
    try:
        error = reply.json()
        for name in ("error", "message", "detail"):  # OpenAI's form, and those of vLLM and FastAPI
            error = error.get(name, error) if isinstance(error, dict) else error
        words = error if isinstance(error, str) else ""
    except ODD:
        words = ""
    told = " ".join(words.split())[:SAID_LETTERS]
    return f"the server answered {reply.status_code}" + (f", {told}" if told else "")


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
