"""Answers in the shapes of `/v1/chat/completions` and `/v1/completions`: whole, or as a stream of chunks."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.errors import PastaError
from pasta.serve.answer import HEARTBEAT, Answer, finish_reason, sse
from pasta.serve.errors import from_pasta
from pasta.serve.events import to_json
from pasta.serve.logprobs import Chosen, as_chat, as_text
from pasta.serve.protocol import ChatBody, Options


class Completions:
    """One answer. `chosen` gives the tokens of a result with their logprobs."""

    def __init__(self, answer: Answer, body: Options, model: str, chosen: Callable[[Result], list[Chosen]]):
        self._answer = answer
        self._body = body
        self._model = model
        self._chosen = chosen
        self._chat = isinstance(body, ChatBody)
        self._name = f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}"

    async def whole(self) -> dict[str, Any]:
        choices = [self._choice(index, result) for index, result in enumerate(await self._answer.finished())]
        return {**self._head(""), "choices": choices, "usage": self._answer.usage()}

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            if self._chat:
                for index in range(len(self._answer)):
                    yield self._event(index, {"role": "assistant", "content": ""})
            async for news in self._answer.told():
                if news is None:
                    yield HEARTBEAT
                    continue
                index, update = news
                if isinstance(update, Result):
                    yield self._last(index, update)
                    continue
                events = to_json(update.events) if self._body.extension.events else []
                if update.text or events:
                    yield self._event(index, {"content": update.text} if update.text else {}, update, events)
            if self._body.wants_usage:
                yield sse({**self._head(".chunk"), "choices": [], "usage": self._answer.usage()})
        except PastaError as error:
            yield sse(from_pasta(error).body())
        yield b"data: [DONE]\n\n"

    def _head(self, chunk: str) -> dict[str, Any]:
        kind = f"chat.completion{chunk}" if self._chat else "text_completion"
        head = {"id": self._name, "object": kind, "created": self._answer.created, "model": self._model}
        return {**head, "usage": None} if chunk and self._body.wants_usage else head

    def _choice(self, index: int, result: Result) -> dict[str, Any]:
        content: dict[str, Any] = {"text": result.text}
        if self._chat:
            content = {"message": {"role": "assistant", "content": result.text, "refusal": None}}
        return {"index": index, **content, **self._end(result)}

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
        return sse({**self._head(".chunk"), "choices": [{"index": index, **content, **self._end(result)}]})

    def _end(self, result: Result) -> dict[str, Any]:
        """What is known of a choice when it has ended. Threads write out of order: logprobs come here, in order."""
        told: dict[str, Any] | None = None
        if self._body.likeliest is not None:
            told = (as_chat if self._chat else as_text)(self._chosen(result))
        end = {"logprobs": told, "finish_reason": finish_reason(result)}
        return {**end, "pasta": {"annotated": result.annotated}} if self._body.extension.annotated else end
