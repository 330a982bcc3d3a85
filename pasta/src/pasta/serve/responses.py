"""Answers in the shape of `/v1/responses`: one message of text, whole or as a stream of events."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from pasta.decoding.results import Result
from pasta.errors import PastaError
from pasta.serve.answer import HEARTBEAT, Answer, sse
from pasta.serve.events import to_json
from pasta.serve.logprobs import Chosen, as_chat
from pasta.serve.protocol import ResponsesBody


class Responses:
    """One answer. `chosen` gives the tokens of a result with their logprobs."""

    def __init__(self, answer: Answer, body: ResponsesBody, model: str, chosen: Callable[[Result], list[Chosen]]):
        self._answer = answer
        self._body = body
        self._model = model
        self._chosen = chosen
        self._id = f"resp_{uuid.uuid4().hex}"
        self._item = f"msg_{uuid.uuid4().hex}"
        self._sent = 0

    async def whole(self) -> dict[str, Any]:
        (result,) = await self._answer.finished()
        return self._ended(result)

    async def stream(self) -> AsyncIterator[bytes]:
        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        begun = self._response("in_progress")
        try:
            yield self._event("response.created", response=begun)
            yield self._event("response.in_progress", response=begun)
            yield self._event("response.output_item.added", output_index=0, item=self._message("in_progress"))
            yield self._event("response.content_part.added", **place, part=part("", []))
            async for news in self._answer.told():
                if news is None:
                    yield HEARTBEAT
                elif isinstance(news[1], Result):
                    for event in self._last(news[1], place):
                        yield event
                else:
                    update = news[1]
                    events = to_json(update.events) if self._body.extension.events else []
                    if update.text or events:
                        told = {"pasta": {"step": update.step, "events": events}} if events else {}
                        yield self._event("response.output_text.delta", **place, delta=update.text, logprobs=[], **told)
        except PastaError as error:
            refusal = self._answer.refusal(error)
            why = {"code": refusal.code or "server_error", "message": refusal.message}
            yield self._event("response.failed", response={**self._response("failed"), "error": why})

    def _last(self, result: Result, place: dict[str, Any]) -> list[bytes]:
        ended = self._ended(result)
        (item,) = ended["output"]
        (text,) = item["content"]
        kind = "response.completed" if ended["status"] == "completed" else "response.incomplete"
        return [
            self._event("response.output_text.done", **place, text=text["text"], logprobs=text["logprobs"]),
            self._event("response.content_part.done", **place, part=text),
            self._event("response.output_item.done", output_index=0, item=item),
            self._event(kind, response=ended),
        ]

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sent += 1
        return sse({"type": kind, "sequence_number": self._sent - 1, **fields}, kind)

    # -- objects ------------------------------------------------------------------------------------------

    def _response(self, status: str) -> dict[str, Any]:
        body = self._body
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._answer.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": self._model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": body.temperature or 0.0,
            "text": {"format": self._format()},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": body.user,
        }

    def _format(self) -> dict[str, Any]:
        asked = None if self._body.text is None else self._body.text.format
        return {"type": "text"} if asked is None else asked.model_dump(by_alias=True)

    def _ended(self, result: Result) -> dict[str, Any]:
        whole = self._answer.finish_reason(0) == "stop"
        status = "completed" if whole else "incomplete"
        logprobs = [] if self._body.likeliest is None else as_chat(self._chosen(result))["content"]
        response = {
            **self._response(status),
            "output": [{**self._message(status), "content": [part(result.text, logprobs)]}],
            "usage": self._usage(),
        }
        if not whole:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return {**response, **self._body.extension.told(result)}

    def _message(self, status: str) -> dict[str, Any]:
        return {"id": self._item, "type": "message", "role": "assistant", "status": status, "content": []}

    def _usage(self) -> dict[str, Any]:
        usage = self._answer.usage()
        cached = usage.pop("prompt_tokens_details")["cached_tokens"]
        return {
            "input_tokens": usage.pop("prompt_tokens"),
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": usage.pop("completion_tokens"),
            "output_tokens_details": {"reasoning_tokens": 0},
            **usage,
        }


def part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
