"""Answers in OpenAI's shapes: whole, or as a stream of chunks."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pasta.decoding.events import StepOutput
from pasta.decoding.request import Request
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.serve.dispatcher import Dispatcher, News
from pasta.serve.errors import from_pasta
from pasta.serve.events import to_json
from pasta.serve.metrics import Metrics
from pasta.serve.protocol import ChatBody, Options
from pasta.serve.tracing import AnswerSpan


class Answer:
    """What one HTTP request asked for: one or several choices, decoded side by side."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        engine: Engine,
        metrics: Metrics,
        requests: Sequence[Request],
        body: Options,
        answered: Callable[[Result], None],
        begin_span: Callable[[], AnswerSpan] | None = None,
    ):
        self._dispatcher = dispatcher
        self._engine = engine
        self._metrics = metrics
        self._body = body
        self._answered = answered
        self._chat = isinstance(body, ChatBody)
        self._prompts = len(requests) // (body.n or 1)
        self._created = int(time.time())
        self._begun = time.perf_counter()
        self._name = f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._results: dict[int, Result] = {}
        self._ended = False
        loop = asyncio.get_running_loop()
        self._updates: asyncio.Queue[tuple[int, News]] = asyncio.Queue()

        def tell(index: int, update: News) -> None:
            loop.call_soon_threadsafe(self._updates.put_nowait, (index, update))

        self._span = None if begin_span is None else begin_span()
        self._states = dispatcher.submit(requests, tell)

    def close(self) -> None:
        """Ends what still runs. To be called once, whatever happens."""
        if self._span is not None:
            self._span.end(cancelled=not self._ended)
        if not self._ended:
            self._ended = True
            self._metrics.cancelled.inc()
            self._dispatcher.cancel(self._states)

    async def whole(self) -> dict[str, Any]:
        async for _ in self._told():
            pass
        choices = [self._choice(index, self._results[index]) for index in range(len(self._states))]
        return {**self._head(""), "choices": choices, "usage": self._usage()}

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events. An error that comes late is the last of them."""
        try:
            if self._chat:
                for index in range(len(self._states)):
                    yield self._event(index, {"role": "assistant", "content": ""})
            async for index, update in self._told():
                if isinstance(update, Result):
                    yield self._last(index, update)
                    continue
                events = to_json(update.events) if self._body.extension.events else []
                if update.text or events:
                    yield self._event(index, {"content": update.text} if update.text else {}, update, events)
            if self._body.wants_usage:
                yield sse({**self._head(".chunk"), "choices": [], "usage": self._usage()})
        except PastaError as error:
            yield sse(from_pasta(error).body())
        yield b"data: [DONE]\n\n"

    async def _told(self) -> AsyncIterator[tuple[int, StepOutput | Result]]:
        """All choices' steps as they come, and each choice's result after its last."""
        waiting_for_text = True
        while len(self._results) < len(self._states):
            index, update = await self._updates.get()
            if self._span is not None:
                self._span.take(index, update)
            if isinstance(update, PastaError):
                raise update
            if isinstance(update, Result):
                self._results[index] = update
                self._answered(update)
                self._ended = len(self._results) == len(self._states)
            elif waiting_for_text and update.text:
                waiting_for_text = False
                self._metrics.first.observe(time.perf_counter() - self._begun)
            yield index, update

    # -- shapes -------------------------------------------------------------------------------------------

    def _head(self, chunk: str) -> dict[str, Any]:
        kind = f"chat.completion{chunk}" if self._chat else "text_completion"
        head = {"id": self._name, "object": kind, "created": self._created, "model": self._engine.name}
        return {**head, "usage": None} if chunk and self._body.wants_usage else head

    def _choice(self, index: int, result: Result) -> dict[str, Any]:
        content: dict[str, Any] = {"text": result.text}
        if self._chat:
            content = {"message": {"role": "assistant", "content": result.text, "refusal": None}}
        choice = {"index": index, **content, "logprobs": None, "finish_reason": finish_reason(result)}
        return {**choice, **self._annotated(result)}

    def _event(self, index: int, delta: dict[str, Any], output: StepOutput | None = None, events: Any = ()) -> bytes:
        content = {"delta": delta} if self._chat else {"text": delta.get("content", "")}
        chunk = {
            **self._head(".chunk"),
            "choices": [{"index": index, **content, "logprobs": None, "finish_reason": None}],
        }
        if output is not None and events:
            chunk["pasta"] = {"step": output.step, "seconds": round(output.seconds, 6), "events": events}
        return sse(chunk)

    def _last(self, index: int, result: Result) -> bytes:
        content: dict[str, Any] = {"delta": {}} if self._chat else {"text": ""}
        choice = {"index": index, **content, "logprobs": None, "finish_reason": finish_reason(result)}
        return sse({**self._head(".chunk"), "choices": [{**choice, **self._annotated(result)}]})

    def _annotated(self, result: Result) -> dict[str, Any]:
        return {"pasta": {"annotated": result.annotated}} if self._body.extension.annotated else {}

    def _usage(self) -> dict[str, Any]:
        """Token counts, and how the answer came about. Of several choices: sums, and the longest path."""
        results = list(self._results.values())
        # Choices of one prompt share it, and it counts once.
        firsts = [self._results[index * (self._body.n or 1)] for index in range(self._prompts)]
        prompt = sum(len(result.prompt_ids) for result in firsts)
        completion = sum(result.decoded_tokens for result in results)
        content = sum(result.content_tokens for result in results)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(result.cached_tokens for result in firsts)},
            "content_tokens": content,
            "critical_path": max(result.critical_path for result in results),
            "steps": max(result.steps for result in results),
            "threads": sum(len(result.threads) for result in results),
            "speedup": round(content / max(1, sum(result.critical_path for result in results)), 4),
        }


def finish_reason(result: Result) -> str:
    return "length" if result.finish_reason == "length" else "stop"


def sse(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"
