"""Answers in the shapes of `/v1/chat/completions` and `/v1/completions`: whole, or as a stream of chunks."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.errors import PastaError
from pasta.serve.answer import HEARTBEAT, Answer, sse
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
        self._opened: set[int] = set()  # choices whose stream has begun

    async def whole(self) -> dict[str, Any]:
        choices = [self._choice(index, result) for index, result in enumerate(await self._answer.finished())]
        return {**self._head(""), "choices": choices, "usage": self._answer.usage()}

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            for index, course in enumerate(self._answer.courses):
                if course.answering:  # of others it is not known yet whether they call a tool
                    for opening in self._open(index):
                        yield opening
            async for news in self._answer.told():
                if news is None:
                    yield HEARTBEAT
                    continue
                index, update = news
                for opening in self._open(index):
                    yield opening
                if isinstance(update, Result):
                    yield self._last(index, update)
                    continue
                events = to_json(update.events) if self._body.extension.events else []
                if update.text or events:
                    yield self._event(index, self._delta(index, update.text), update, events)
            if self._body.wants_usage:
                yield sse({**self._head(".chunk"), "choices": [], "usage": self._answer.usage()})
        except PastaError as error:
            yield sse(self._answer.refusal(error).body())
        yield b"data: [DONE]\n\n"

    def _head(self, chunk: str) -> dict[str, Any]:
        kind = f"chat.completion{chunk}" if self._chat else "text_completion"
        head = {"id": self._name, "object": kind, "created": self._answer.created, "model": self._model}
        return {**head, "usage": None} if chunk and self._body.wants_usage else head

    def _choice(self, index: int, result: Result) -> dict[str, Any]:
        content: dict[str, Any] = {"text": result.text}
        if self._chat:
            message: dict[str, Any] = {"role": "assistant", "content": result.text, "refusal": None}
            if (name := self._answer.courses[index].called) is not None:
                message = {**message, "content": None, "tool_calls": [self._call(index, name, result.text)]}
            content = {"message": message}
        return {"index": index, **content, **self._end(index, result)}

    def _open(self, index: int) -> list[bytes]:
        """What a choice's stream begins with, once: who speaks, and the tool that is called, in OpenAI's form."""
        if not self._chat or index in self._opened:
            return []
        self._opened.add(index)
        if (name := self._answer.courses[index].called) is None:
            return [self._event(index, {"role": "assistant", "content": ""})]
        calls = [{"index": 0, **self._call(index, name, "")}]
        return [self._event(index, {"role": "assistant", "content": None, "tool_calls": calls})]

    def _delta(self, index: int, text: str) -> dict[str, Any]:
        """Text that a choice goes on with: of its content, or of the arguments of the tool that it calls."""
        if not text:
            return {}
        if self._answer.courses[index].called is None:
            return {"content": text}
        return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}

    def _call(self, index: int, name: str, arguments: str) -> dict[str, Any]:
        identity = f"call_{self._name[-24:]}{index:02d}"
        return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}

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
        return sse({**self._head(".chunk"), "choices": [{"index": index, **content, **self._end(index, result)}]})

    def _end(self, index: int, result: Result) -> dict[str, Any]:
        """What is known of a choice when it has ended. Threads write out of order: logprobs come here, in order."""
        told: dict[str, Any] | None = None
        if self._body.likeliest is not None:
            told = (as_chat if self._chat else as_text)(self._chosen(result))
        end = {"logprobs": told, "finish_reason": self._answer.finish_reason(index)}
        return {**end, **self._body.extension.told(result)}
