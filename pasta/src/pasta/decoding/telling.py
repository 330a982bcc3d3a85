"""What an answer tells while it runs: events of its threads, and its text in reading order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pasta.core.commands import Command, End, Finish, Fork, Join, Put, Suspend, Wait, new
from pasta.core.detokenizer import Detokenizer
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.events import (
    Ended,
    Event,
    Events,
    Finished,
    Forked,
    Joined,
    StepOutput,
    Suspended,
    TextWritten,
    TokenPut,
    Waiting,
)
from pasta.decoding.stitching import Stitcher, text_of


class TextTeller:
    """Tells an answer's text as it becomes ready, and its events to whoever asks. The state is a `RequestState`."""

    def __init__(self, state: Any):
        self._vocabulary = state.engine.vocabulary
        self._stitcher = Stitcher(
            state.interpreter.threads,
            self._vocabulary,
            state.request.params.stop,
            lead=self._vocabulary.lead(state.request.prompt),
        )
        self._events = EventTeller(self._vocabulary, state.request.prompt, state.journal)
        self._tell = self._events.of_output  # one for all outputs

    @property
    def stopped_text(self) -> str | None:
        """The answer's text where a stop string cut it."""
        return self._stitcher.text if self._stitcher.stopped else None

    def report(self, state: Any, commands: Sequence[Command]) -> StepOutput:
        reason = state.interpreter.finish_reason
        text = self._stitcher.take() if reason is None else self._last(state, reason)
        if self._stitcher.stopped and not state.finished:
            state.stop("stop")
        number = self._events.add(len(state.journal))
        return StepOutput(state.record.steps - 1, state.record.seconds, self._tell, text, number)

    def _last(self, state: Any, reason: str) -> str:
        """All that is left; where a limit cut the answer, threads may have written more than is read."""
        if reason == "stop" and state.interpreter.whole:
            return self._stitcher.finish()
        tree = state.interpreter.tree()
        return self._stitcher.finish(text_of(tree, self._vocabulary, state.request.prompt, cut=True))


class EventTeller:
    """Turns commands into events, step by step; in any thread of control.

    It does not know the outputs that ask it: an answer is let go with whoever held it, and no collector looks for it.
    """

    def __init__(self, vocabulary: Vocabulary, prompt: Sequence[int], journal: Sequence[Command]):
        self._journal = journal  # of the answer, which grows
        self._ends: list[int] = []  # of each output's commands in it
        self._events: list[Events] = []  # of the first outputs
        self._vocabulary = vocabulary
        self._tags = vocabulary.tags
        self._lead = vocabulary.lead(prompt)  # until the first token has come
        self._texts: dict[int, Detokenizer] = {}
        self._unsaid: dict[int, int] = {}  # by thread: tokens whose text has not been told
        self._in_topic: set[int] = set()
        self._lock = threading.Lock()

    def add(self, end: int) -> int:
        """Takes in what one step did, up to here in the journal; returns the number of its output."""
        self._ends.append(end)
        return len(self._ends) - 1

    def of_output(self, number: int) -> Events:
        with self._lock:
            while len(self._events) <= number:
                events: list[Event] = []
                begin = self._ends[len(self._events) - 1] if self._events else 0
                self._tell(self._journal[begin : self._ends[len(self._events)]], events)
                self._events.append(tuple(events))
        return self._events[number]

    def _tell(self, commands: Sequence[Command], events: list[Event]) -> None:
        for command in commands:
            if type(command) is Put:  # most are
                thread, token, position, _, inserted = command
                events.append(new(TokenPut, (thread, token, position, inserted)))
                self._write(thread, token, events)
                continue
            match command:
                case Fork(parent, child, topic, length):
                    self._in_topic.discard(parent)
                    unit = self._tags.unit if self._tags is not None else 1
                    events.append(Forked(parent, child, self._vocabulary.decode(topic).strip(), unit * length))
                case Suspend(thread):
                    events.append(Suspended(thread))
                case Wait(thread):
                    events.append(Waiting(thread))
                case Join(thread, children):
                    events.append(Joined(thread, children))
                case End(thread, reason):
                    self._flush(thread, events)
                    events.append(Ended(thread, reason))
                case Finish(reason):
                    events.append(Finished(reason))

    def _write(self, thread: int, token: int, events: list[Event]) -> None:
        tags = self._tags
        lead, self._lead = self._lead, ""
        if tags is not None and token in tags.all:
            self._flush(thread, events)
            if token == tags.promise:
                self._in_topic.add(thread)
        elif thread not in self._in_topic:
            if thread not in self._texts:
                self._texts[thread] = Detokenizer(self._vocabulary.octets, lead)
            self._unsaid[thread] = self._unsaid.get(thread, 0) + 1
            if text := self._texts[thread].push(token):
                events.append(new(TextWritten, (thread, text, self._unsaid.pop(thread))))

    def _flush(self, thread: int, events: list[Event]) -> None:
        if thread in self._texts:
            text = self._texts.pop(thread).flush()
            if text or self._unsaid.get(thread):
                events.append(TextWritten(thread, text, self._unsaid.pop(thread, 0)))
