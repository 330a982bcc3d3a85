"""Talks to a completions server: many streams of tokens at once, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from pasta.engine.base import TokenLogprobs
from pasta.errors import PastaError, UsageError
from pasta.retry_after import retry_after

CONNECT_S = 10.0
PING_S = 5.0
PASSING = (408, 425, 429, 500, 502, 503, 504)
NO_SERVER = "use a server that knows return_token_ids, such as vLLM"
SILENCE_S = 300.0  # a server may queue requests for a while before it answers


class ServerError(PastaError):
    """The server cannot be reached, or will not do what is asked. `passing`: it may, if it is asked again."""

    passing = False
    after_s = 0.0  # so long it asks to be left alone


class Refused(ServerError):
    """What was asked is not to its liking, and never will be."""


class Unavailable(ServerError):
    """Not now, or not any more."""

    passing = True


@dataclass(slots=True)
class Usage:
    """What was asked of a server, and what it counted, over the streams that ran to their end."""

    requests: int = 0  # all that were sent
    corrections: int = 0  # of those, for a token that may come in place of one that may not
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of those, found in the prefix cache

    def add(self, usage: Mapping[str, Any]) -> int:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        self.prompt_tokens += usage.get("prompt_tokens") or 0
        self.cached_tokens += cached
        return int(cached)

    def snapshot(self) -> dict[str, int]:
        return asdict(self)


@dataclass(slots=True, eq=False)
class Stream:
    """A completion under way: tokens that have come and were not taken yet."""

    tokens: deque[tuple[int, TokenLogprobs | None]] = field(default_factory=deque)
    last: int | None = None  # the last that came, taken or not
    ending: bool = False  # its last tokens are here, or about to be
    ended: bool = False  # they are
    error: ServerError | None = None
    cached: int = 0  # of its prompt's tokens
    _future: Future[None] | None = None

    def close(self) -> None:
        """Ends it at once, connection and all. One whose last token has come closes by itself."""
        if self._future is not None and not self.ending:
            self._future.cancel()


class Client:
    """One server. `url` is up to and including `/v1`; `key` is sent as a bearer token."""

    silence_s = SILENCE_S

    def __init__(self, url: str, key: str = ""):
        if not isinstance(url, str) or not re.fullmatch(r"https?://[^/:?#\s]\S*", url):
            raise UsageError(f"{url!r:.80} is not the address of a server", "expected http://HOST:PORT/v1")
        self.url = url.rstrip("/")
        self.usage = Usage()
        self._key = checked_key(key)
        self._begins = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """In each process that uses it: after a fork, the loop's thread stayed in the parent."""
        self.arrived = threading.Event()  # set when a stream has something new
        self._http = _open_http(self._key)
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run_loop, args=(self._loop,), name="pasta-remote", daemon=True)
        thread.start()
        self.shut_down = weakref.finalize(self, _shut_down, self._loop, thread, self._http)
        self._process = os.getpid()

    def get(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A JSON answer; None where the server knows no such path."""
        return self._run(self._get(path, body)).result()

    def ping(self) -> None:
        """Raises where the server does not answer soon."""
        asked = self._run(self._get("/v1/models", None))
        try:
            asked.result(PING_S)
        except TimeoutError:
            asked.cancel()
            raise Unavailable(f"the server at {self.url} does not answer in {PING_S:g} s") from None

    def open(self, body: Mapping[str, Any], headers: Mapping[str, str], wait_s: float = 0.0) -> Stream:
        """Starts a completion, at once or after a while; its tokens are in the stream as they come."""
        self.usage.requests += 1
        stream = Stream()
        stream._future = self._run(self._follow(stream, body, headers, wait_s))
        return stream

    # -- on the event loop --------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        if self._process != os.getpid():
            with self._begins:
                if self._process != os.getpid():
                    self._begin()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _get(self, path: str, body: Mapping[str, Any] | None) -> Any:
        address = self.url.removesuffix("/v1") + path
        try:
            reply = await (self._http.get(address) if body is None else self._http.post(address, json=body))
        except Exception as error:  # httpx has many of its own
            raise self._unreachable(error) from None
        if reply.status_code in (404, 405, 501):
            return None
        if reply.status_code >= 400:
            raise self._refused(reply.status_code, reply.text)
        try:
            return reply.json()
        except (ValueError, RecursionError):
            raise ServerError(f"{address} answers with something else than JSON", "check the address") from None

    async def _follow(self, stream: Stream, body: Mapping[str, Any], headers: Mapping[str, str], wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        try:
            address = self.url + "/completions"
            async with self._http.stream("POST", address, json=body, headers=headers) as reply:
                if reply.status_code >= 400:
                    refused = self._refused(reply.status_code, (await reply.aread()).decode(errors="replace"))
                    refused.after_s = retry_after(reply.headers.get("retry-after"))
                    raise refused
                async with asyncio.timeout(self.silence_s) as silence:
                    async for line in _lines(reply):
                        if line.startswith("data:") and line[5:].strip() != "[DONE]":
                            self._take(stream, json.loads(line[5:]), body)
                            silence.reschedule(self._loop.time() + self.silence_s)
        except asyncio.CancelledError:
            raise
        except ServerError as error:
            stream.error = error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            stream.error = ServerError(f"{self.url} streams something else than completions: {error}", NO_SERVER)
        except TimeoutError:
            stream.error = Unavailable(f"the server at {self.url} sends no token in {self.silence_s:g} s")
        except Exception as error:
            stream.error = self._unreachable(error)
        else:
            if not stream.ended:
                stream.error = Unavailable(f"{self.url} broke a completion off", "see the server's log")
        self.arrived.set()

    def _take(self, stream: Stream, event: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        if event.get("error"):
            raise self._refused(500, json.dumps(event))
        for choice in event.get("choices") or ():
            tokens = choice.get("token_ids")
            finish = choice.get("finish_reason")
            if tokens is None and (choice.get("text") or finish):
                raise ServerError(f"{self.url} returns no token ids", NO_SERVER)
            if finish not in (None, "stop", "length"):
                raise Unavailable(f"{self.url} ended a completion: {finish}", "see the server's log")
            tokens = list(tokens or ())
            logprobs = read_logprobs(choice, body.get("logprobs"))
            if finish == "stop" and (tokens[-1] if tokens else stream.last) not in body["stop_token_ids"]:
                # Some servers keep the token that stopped them to themselves, and name it.
                reason = choice.get("stop_reason", choice.get("matched_stop"))
                if not isinstance(reason, int):
                    raise ServerError(f"{self.url} does not say which token stopped it", "use another server")
                tokens.append(reason)
            if not all(type(token) is int and 0 <= token < 1 << 31 for token in tokens):
                raise ServerError(f"{self.url} returns {tokens!r:.60} for token ids", NO_SERVER)
            stream.ending = stream.ending or finish is not None
            stream.last = tokens[-1] if tokens else stream.last
            stream.tokens.extend(zip_longest(tokens, logprobs[: len(tokens)]))
            stream.ended = stream.ending
            self.arrived.set()
        if event.get("usage"):
            stream.cached = self.usage.add(event["usage"])

    def _unreachable(self, error: Exception) -> ServerError:
        why = str(error).strip().split("\n")[0] or type(error).__name__
        return Unavailable(f"the server at {self.url} does not answer: {why}", "is it running? check --engine")

    def _refused(self, status: int, text: str) -> ServerError:
        try:
            value = json.loads(text)
            message = (value.get("error") or value).get("message") or text
        except (ValueError, AttributeError):
            message = text
        hint = {401: "set PASTA_ENGINE_KEY", 403: "set PASTA_ENGINE_KEY", 404: "check --engine"}.get(status)
        kind = Unavailable if status in PASSING else Refused
        return kind(f"the server at {self.url} answers {status}: {' '.join(str(message).split())[:300]}", hint)


def checked_key(key: str | None) -> str:
    """The key as a header may hold it. The error does not repeat it: it is a secret."""
    key = str(key or "")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise UsageError("the key holds what no header may", "expected ASCII, with no space or line break around it")
    return key


async def _lines(reply: Any) -> AsyncIterator[str]:
    """The lines of a reply, each ended by a line feed: JSON may hold Unicode's other line breaks as they are.

    What comes after the last of them was broken off.
    """
    rest = b""
    async for part in reply.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")


def read_logprobs(choice: Mapping[str, Any], count: int | None) -> list[TokenLogprobs]:
    """The logprobs of a choice's tokens, which the server names `token_id:N`; so many of the likeliest of each."""
    given = choice.get("logprobs")
    if count is None or not given:
        return []
    likeliest = given.get("top_logprobs") or [{}] * len(given["token_logprobs"])
    out = []
    for logprob, others in zip(given["token_logprobs"], likeliest, strict=True):
        top = sorted(((int(name.removeprefix("token_id:")), value) for name, value in others.items()), key=_by_value)
        out.append(TokenLogprobs(logprob, tuple(top[:count])))
    return out


def _by_value(entry: tuple[int, float]) -> float:
    return -entry[1]


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _shut_down(loop: asyncio.AbstractEventLoop, thread: threading.Thread, http: Any) -> None:
    """Closes every connection and ends the loop. In a process that was forked they are the parent's."""
    if not thread.is_alive():
        return

    async def end() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await http.aclose()

    asyncio.run_coroutine_threadsafe(end(), loop).add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
    if thread is not threading.current_thread():  # the collector may run anywhere
        thread.join(CONNECT_S)


def _open_http(key: str) -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise PastaError("a remote engine needs httpx", 'pip install "pasta-decoding[remote]"') from None
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S, pool=None),
        limits=httpx.Limits(max_connections=None),
        trust_env=False,
    )
