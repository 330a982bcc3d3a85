"""Answers in the shape of `/v1/responses`: one message or call of a tool, whole or as a stream of events."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from typing import Any

from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.errors import PastaError
from pasta.serve.answer import HEARTBEAT, Answer, sse
from pasta.serve.events import to_json
from pasta.serve.logprobs import Chosen, as_chat
from pasta.serve.output import Called, Event, Output, Said
from pasta.serve.response_body import ResponsesBody
from pasta.serve.tools import FlatNamedTool


class Responses:
    """One answer. `chosen` gives the tokens of a result with their logprobs."""

    def __init__(self, answer: Answer, body: ResponsesBody, model: str, chosen: Callable[[Result], list[Chosen]]):
        self._answer = answer
        self._body = body
        self._model = model
        self._chosen = chosen
        self._id = f"resp_{uuid.uuid4().hex}"
        self._begun = False  # its output, in a stream
        self._sent = 0

    @cached_property
    def _output(self) -> Output:
        """A message or a call: which, is known with the first text."""
        called = self._answer.courses[0].called
        return Said() if called is None else Called(called)

    async def whole(self) -> dict[str, Any]:
        (result,) = await self._answer.finished()
        return self._ended(result)

    async def stream(self) -> AsyncIterator[bytes]:
        begun = {"response": self._response("in_progress")}
        try:
            yield self._event("response.created", begun)
            yield self._event("response.in_progress", begun)
            async for news in self._answer.told():
                if news is None:
                    yield HEARTBEAT
                    continue
                update = news[1]
                for event in self._end(update) if isinstance(update, Result) else self._go_on(update):
                    yield self._event(*event)
        except PastaError as error:
            refusal = self._answer.refusal(error)
            why = {"code": refusal.code or "server_error", "message": refusal.message}
            yield self._event("response.failed", {"response": {**self._response("failed"), "error": why}})

    def _begin(self) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        return self._output.begin()

    def _go_on(self, update: StepOutput) -> list[Event]:
        events = to_json(update.events) if self._body.extension.events else []
        if not update.text and not events:
            return []
        told = {"pasta": {"step": update.step, "events": events}} if events else {}
        return [*self._begin(), (self._output.delta, {**self._output.place, "delta": update.text, **told})]

    def _end(self, result: Result) -> list[Event]:
        ended = self._ended(result)
        (item,) = ended["output"]
        return [*self._begin(), *self._output.end(item), (f"response.{ended['status']}", {"response": ended})]

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
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
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": body.temperature or 0.0,
            "text": {"format": self._format()},
            "tool_choice": self._choice(),
            "tools": [tool.model_dump() for tool in body.tools or ()],
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": body.user,
        }

    def _format(self) -> dict[str, Any]:
        asked = None if self._body.text is None else self._body.text.format
        return {"type": "text"} if asked is None else asked.model_dump(by_alias=True)

    def _choice(self) -> Any:
        asked = self._body.tool_choice
        return asked.model_dump() if isinstance(asked, FlatNamedTool) else asked or "auto"

    def _ended(self, result: Result) -> dict[str, Any]:
        whole = self._answer.finish_reason(0) != "length"
        status = "completed" if whole else "incomplete"
        logprobs = [] if self._body.likeliest is None else as_chat(self._chosen(result))["content"]
        response = {
            **self._response(status),
            "output": [self._output.item(status, result.text, logprobs)],
            "usage": self._usage(),
        }
        if not whole:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return {**response, **self._body.extension.told(result)}

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
