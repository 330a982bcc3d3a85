"""What the `output` of `/v1/responses` holds: a message, or a call of a tool; whole, and as events of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Event = tuple[str, dict[str, Any]]  # its type, and its other fields
PLACE = {"output_index": 0}


class Output(Protocol):
    delta: str  # the type of the events that bring its text

    @property
    def place(self) -> dict[str, Any]:
        """Which item a delta belongs to, and what else it says."""

    def item(self, status: str, text: str, logprobs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The whole of it."""

    def begin(self) -> list[Event]:
        """What a stream says before its text."""

    def end(self, item: dict[str, Any]) -> list[Event]:
        """What a stream says after it."""


class Said:
    """A message of text."""

    delta = "response.output_text.delta"

    def __init__(self) -> None:
        self._id = f"msg_{uuid.uuid4().hex}"

    @property
    def place(self) -> dict[str, Any]:
        return {**self._part, "logprobs": []}

    @property
    def _part(self) -> dict[str, Any]:
        return {"item_id": self._id, **PLACE, "content_index": 0}

    def item(self, status: str, text: str, logprobs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}]
        return {"id": self._id, "type": "message", "role": "assistant", "status": status, "content": content}

    def begin(self) -> list[Event]:
        begun = self.item("in_progress", "")
        (part,) = begun["content"]
        return [
            ("response.output_item.added", {**PLACE, "item": {**begun, "content": []}}),
            ("response.content_part.added", {**self._part, "part": part}),
        ]

    def end(self, item: dict[str, Any]) -> list[Event]:
        (part,) = item["content"]
        return [
            ("response.output_text.done", {**self._part, "text": part["text"], "logprobs": part["logprobs"]}),
            ("response.content_part.done", {**self._part, "part": part}),
            ("response.output_item.done", {**PLACE, "item": item}),
        ]


class Called:
    """A call of a tool, whose text is its arguments."""

    delta = "response.function_call_arguments.delta"

    def __init__(self, name: str):
        own = uuid.uuid4().hex
        self._call = {"id": f"fc_{own}", "type": "function_call", "call_id": f"call_{own[:24]}", "name": name}

    @property
    def place(self) -> dict[str, Any]:
        return {"item_id": self._call["id"], **PLACE}

    def item(self, status: str, text: str, logprobs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        return {**self._call, "arguments": text, "status": status}

    def begin(self) -> list[Event]:
        return [("response.output_item.added", {**PLACE, "item": self.item("in_progress", "")})]

    def end(self, item: dict[str, Any]) -> list[Event]:
        told = {"name": item["name"], "arguments": item["arguments"]}
        return [
            ("response.function_call_arguments.done", {**self.place, **told}),
            ("response.output_item.done", {**PLACE, "item": item}),
        ]
