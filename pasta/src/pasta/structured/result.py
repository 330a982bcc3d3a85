"""What decoding by a schema gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pasta.core.thread import Status
from pasta.decoding.results import Result, ThreadResult
from pasta.structured.lane import Lane, is_closed
from pasta.structured.plan import Kind
from pasta.structured.text import certain, render
from pasta.structured.threads import PlanInterpreter

if TYPE_CHECKING:
    from pasta.decoding.request import RequestState


@dataclass(frozen=True, slots=True)
class Field:
    """One value of the answer."""

    pointer: str  # its place, a JSON pointer
    text: str | None  # as JSON; None: left out, or missing
    value: Any  # as Python
    thread: int | None  # that decoded it; None: the schema says it
    tokens: int  # decoded
    complete: bool  # False: a limit cut it off
    closed: bool = False  # a limit ended it: what completes it is the schema's, and the model might have said more


@dataclass(frozen=True, slots=True)
class StructuredResult(Result):
    """An answer by a schema. `text` is its JSON; where a limit cut it, as much of that as is certain."""

    value: Any = None  # the answer as Python reads it; None where it is not complete
    fields: tuple[Field, ...] = ()
    missing: tuple[str, ...] = ()  # the places of values that a limit cut off
    forced_tokens: int = 0  # that the schema left no choice about, put without a step of their own

    @property
    def complete(self) -> bool:
        return not self.missing

    @property
    def closed(self) -> tuple[str, ...]:
        """The places of values that are whole because a limit ended them."""
        return tuple(field.pointer for field in self.fields if field.closed)

    def to_dict(self) -> dict[str, Any]:
        out = Result.to_dict(self)
        fields = [{name: getattr(field, name) for name in Field.__dataclass_fields__} for field in self.fields]
        return {
            **out,
            "value": self.value,
            "fields": fields,
            "missing": self.missing,
            "closed": self.closed,
            "forced_tokens": self.forced_tokens,
        }


def build(state: RequestState) -> StructuredResult:
    interpreter = state.interpreter
    assert isinstance(interpreter, PlanInterpreter)
    lanes, record = interpreter.lanes, state.record
    missing = tuple(lane.value.pointer for lane in lanes if lane.status is not Status.DONE)
    said = {lane.value.index: lane.said for lane in lanes if lane.status is Status.DONE}
    text = render(interpreter.plan, said) if not missing else certain(interpreter.plan, said, interpreter.partial)
    first = next((lane.value.index for lane in lanes if lane.status is not Status.DONE), len(lanes))  # what is cut
    read = [lane for lane in lanes if lane.status is Status.DONE or lane.value.index == first]
    chosen = min(sum(lane.sampled for lane in read), interpreter.limits.max_tokens)
    forced = sum(lane.forced for lane in read)
    total = sum(len(thread.tokens) for thread in interpreter.threads)
    return StructuredResult(
        text=text,
        annotated=text,
        prompt_ids=state.request.prompt,
        threads=tuple(_threads(state, interpreter)),
        tokens_total=total,
        content_tokens=chosen + forced,
        decoded_tokens=chosen,
        dropped_tokens=interpreter.sampled + interpreter.guessed - chosen,
        critical_path=_critical_path(interpreter),
        steps=record.steps,
        wall_s=record.seconds,
        finish_reason=interpreter.finish_reason or "",
        model=state.engine.name,
        tree=interpreter.tree(),
        outputs=tuple(record.outputs),
        cached_tokens=record.cached_tokens,
        value=None if missing else read_json(text),
        fields=tuple(_field(lane) for lane in lanes if _is_field(lane, lanes)),
        missing=missing,
        forced_tokens=forced,
    )


_READER = json.JSONDecoder(parse_int=lambda digits: int(Decimal(digits)))


def read_json(text: str) -> Any:
    """JSON as Python reads it, integers of any length too."""
    return _READER.decode(text)


def _is_field(lane: Lane, lanes: Sequence[Lane]) -> bool:
    """Not what only says whether others are there, nor those that are not."""
    if (lane.value.kind is Kind.GATE and lane.said == "{") or (lane.value.kind is Kind.COUNT and lane.said != "0"):
        return False
    known = all(lanes[gate].status is Status.DONE for gate in lane.value.gates)
    return not (known and is_closed(lane, lanes))


def _field(lane: Lane) -> Field:
    complete = lane.status is Status.DONE
    text = lane.said if complete else None
    if lane.value.kind is Kind.COUNT and text is not None:
        text = "[]"
    return Field(
        lane.value.pointer,
        text,
        None if text is None else read_json(text),
        None if lane.thread is None else lane.thread.id,
        lane.sampled,
        complete,
        lane.closed,
    )


def _threads(state: RequestState, interpreter: PlanInterpreter) -> list[ThreadResult]:
    record = state.record
    topics = {lane.thread.id: lane.value.pointer for lane in interpreter.lanes if lane.thread is not None}
    out = []
    for thread in interpreter.threads:
        start, end = record.spans.get(thread.id, (max(0, record.steps - 1),) * 2)
        tokens, positions = tuple(thread.tokens), tuple(thread.positions)
        out.append(ThreadResult(thread.id, thread.parent, topics.get(thread.id, ""), 0, tokens, positions, start, end))
    return out


def _critical_path(interpreter: PlanInterpreter) -> int:
    """Tokens that had to be decoded one after another: a value after those that it sees."""
    ends: dict[int, int] = {}
    for index in interpreter.plan.order:
        lane = interpreter.lanes[index]
        ends[index] = lane.sampled + max((ends[other] for other in lane.value.sees), default=0)
    return max(ends.values(), default=0)
