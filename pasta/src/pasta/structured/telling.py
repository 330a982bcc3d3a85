"""What a structured answer tells while it runs: the values' texts, and the JSON in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pasta.core.commands import Command, End, Finish, Fork, Put, Write
from pasta.core.detokenizer import Detokenizer
from pasta.core.thread import Status
from pasta.decoding.events import Ended, Event, Finished, Forked, StepOutput, TextWritten, TokenPut
from pasta.structured.text import certain
from pasta.structured.threads import PlanInterpreter

if TYPE_CHECKING:
    from pasta.decoding.request import RequestState


class PlanTeller:
    """Turns commands into events and text."""

    stopped_text = None  # a schema ends an answer, and no stop string does

    def __init__(self, state: RequestState):
        assert isinstance(state.interpreter, PlanInterpreter)
        self._interpreter = state.interpreter
        self._octets = state.engine.vocabulary.octets
        self._texts: dict[int, Detokenizer] = {}
        self._told = 0  # characters of the answer

    def report(self, state: RequestState, commands: Sequence[Command]) -> StepOutput:
        events: list[Event] = []
        for command in commands:
            self._tell(command, events)
        record, interpreter = state.record, self._interpreter
        said = {lane.value.index: lane.said for lane in interpreter.lanes if lane.status is Status.DONE}
        text = certain(interpreter.plan, said, interpreter.partial)
        fresh, self._told = text[self._told :], max(self._told, len(text))
        return StepOutput(record.steps - 1, record.seconds, tuple(events), fresh)

    def _tell(self, command: Command, events: list[Event]) -> None:
        match command:
            case Put(thread, token, position, _, inserted):
                events.append(TokenPut(thread, token, position, inserted))
                if not inserted:
                    events.append(TextWritten(thread, self._text(thread).push(token)))
            case Write(thread, octets):
                events.append(TextWritten(thread, self._text(thread).push_octets(octets), 0))
            case Fork(parent, child):
                events.append(Forked(parent, child, self._interpreter.pointer(child), 0))
            case End(thread, reason):
                events.append(Ended(thread, reason))
            case Finish(reason):
                events.append(Finished(reason))

    def _text(self, thread: int) -> Detokenizer:
        if thread not in self._texts:
            self._texts[thread] = Detokenizer(self._octets, " ")  # what stands between a key and its value
        return self._texts[thread]
