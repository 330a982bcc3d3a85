"""A timeline of decoded requests that ui.perfetto.dev opens, in Chrome's JSON trace format.

A process for each request and a track for each thread. On a track, slices nest: the thread's life; in it what it
did (promise, write, wait, queue); in that its tokens, each as long as the step that decoded it. Arrows lead from a
promise to its thread, and from a thread's end to where its parent went on.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasta.core.commands import MAIN
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.events import Ended, Event, Forked, Joined, Suspended, TokenPut, Waiting
from pasta.decoding.results import Result, ThreadResult
from pasta.errors import PastaError, UsageError

TraceEvent = dict[str, Any]

STEPS_TRACK = 1
FIRST_TRACK = 2  # the main thread's; thread t has FIRST_TRACK + t
NAME_LENGTH = 60


def timeline(results: Sequence[Result], vocabulary: Vocabulary) -> dict[str, Any]:
    """The trace as a JSON object."""
    figures = ("model", "tokens_total", "content_tokens", "critical_path", "steps", "wall_s", "finish_reason")
    events: list[TraceEvent] = []
    for number, result in enumerate(results, start=1):
        if not result.outputs:
            raise UsageError("nobody watched this answer, so its steps are not known", "trace a stream's result")
        events += _Writer(number, len(events), result, vocabulary).events()
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "producer": "pasta",
            "requests": [{name: getattr(result, name) for name in figures} for result in results],
        },
    }


def write_trace(file: str, results: Sequence[Result], vocabulary: Vocabulary) -> None:
    """Writes the trace; compressed where the name ends in .gz, which Perfetto opens as well."""
    data = json.dumps(timeline(results, vocabulary), ensure_ascii=False).encode("utf-8", "replace")
    try:
        Path(file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    except OSError as error:
        raise PastaError(f"cannot write the trace to {file}: {error.strerror}") from None


# -- what each thread did when, in microseconds -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Token:
    """A token, and the step that decoded it."""

    start: int
    end: int
    step: int
    id: int
    position: int


@dataclass(slots=True)
class _Slice:
    """Something that a thread did: 'text', 'promise', 'queued' or 'waiting'."""

    kind: str
    start: int
    end: int
    tokens: list[_Token] = field(default_factory=list)
    closed: bool = False


@dataclass(slots=True)
class _Track:
    """A thread's life."""

    start: int
    promised: int = 0  # tokens
    end: int = 0
    slices: list[_Slice] = field(default_factory=list)
    idle: tuple[str, int] | None = None  # what it waits for, and since when

    def end_idle(self, now: int) -> None:
        if self.idle is not None and now > self.idle[1]:
            self.slices.append(_Slice(*self.idle, now, closed=True))
        self.idle = None


@dataclass(frozen=True, slots=True)
class _Arrow:
    kind: str  # 'fork' or 'join'
    child: int
    source: tuple[int, int]  # thread, time
    target: tuple[int, int]


class _Reader:
    """Reads a result's events, once and in order."""

    def __init__(self, result: Result, vocabulary: Vocabulary):
        self.tracks = {MAIN: _Track(0)}
        self.arrows: list[_Arrow] = []
        self.steps: list[tuple[int, int]] = []
        self.counts: list[tuple[int, int, int]] = []  # time, threads that decode, slots in use
        self._tags = vocabulary.tags
        self._decoding = {MAIN}
        self._slots = len(result.prompt_ids)
        self._joined: set[int] = set()
        now = 0
        for output in result.outputs:
            begun, now = now, max(now + 1, round(1e6 * output.seconds))  # a step takes time, whatever the clock says
            self.steps.append((begun, now))
            self.counts.append((begun, len(self._decoding), self._slots))
            self._take(output.events, output.step, begun, now)
        self.counts.append((now, len(self._decoding), self._slots))
        for thread in result.threads:
            if thread.parent is not None and thread.id not in self._joined:  # its parent ended without a sync
                self._join(thread.parent, (thread.id,), self.tracks[thread.parent].end - 1)

    def _take(self, events: Sequence[Event], step: int, begun: int, now: int) -> None:
        resumed: set[int] = set()  # the sync that they waited at is put now, and takes no step
        for event in events:
            match event:
                case TokenPut(thread, token, position, inserted):
                    self._slots += 1
                    self._decoding.add(thread)
                    if inserted or thread in resumed:
                        self.tracks[thread].end_idle(now)
                    else:
                        self.tracks[thread].end_idle(begun)
                        self._put(self.tracks[thread], _Token(begun, now, step, token, position))
                case Forked(parent, child, _, promised):
                    self.tracks[child] = _Track(now, promised, idle=("queued", now))
                    self.arrows.append(_Arrow("fork", child, (parent, (begun + now) // 2), (child, now)))
                case Suspended(thread):
                    self._decoding.discard(thread)
                    self.tracks[thread].idle = ("queued", now)
                case Waiting(thread):
                    self._decoding.discard(thread)
                    self.tracks[thread].idle = ("waiting", now)
                case Joined(thread, children):
                    if self.tracks[thread].idle is not None:
                        resumed.add(thread)
                    self._join(thread, children, now)
                case Ended(thread):
                    self._decoding.discard(thread)
                    track = self.tracks[thread]
                    track.end_idle(now)
                    track.end = max(track.start + 1, now)

    def _put(self, track: _Track, token: _Token) -> None:
        promises = self._tags is not None and token.id == self._tags.promise
        if promises or not track.slices or track.slices[-1].closed:
            track.slices.append(_Slice("promise" if promises else "text", token.start, token.end))
        last = track.slices[-1]
        last.end = token.end
        last.tokens.append(token)
        last.closed = self._tags is not None and token.id in self._tags.length_of

    def _join(self, parent: int, children: Sequence[int], now: int) -> None:
        for child in children:
            self._joined.add(child)
            source = self.tracks[child].end - 1
            self.arrows.append(_Arrow("join", child, (child, source), (parent, max(now, source))))


# -- as trace events --------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, number: int, first_flow: int, result: Result, vocabulary: Vocabulary):
        self._pid = number
        self._first_flow = first_flow  # flow ids are unique in the whole trace
        self._result = result
        self._vocabulary = vocabulary
        self._read = _Reader(result, vocabulary)

    def events(self) -> Iterator[TraceEvent]:
        result, read = self._result, self._read
        name = f"{result.model or 'model'}: request {self._pid}"
        yield self._event("M", name="process_name", args={"name": name})
        yield from self._name_track(STEPS_TRACK, "steps", -1)
        for step, (start, end) in enumerate(read.steps):
            label = f"prompt of {len(result.prompt_ids)} tokens" if step == 0 else f"step {step}"
            threads = read.counts[step][1]
            yield self._slice(STEPS_TRACK, label, start, end, {"step": step, "threads": threads})
        for thread in result.threads:
            yield from self._thread(thread, read.tracks[thread.id])
        for index, arrow in enumerate(read.arrows):
            yield from self._arrow(arrow, self._first_flow + index)
        for time, threads, slots in read.counts:
            yield self._event("C", name="live threads", ts=time, args={"threads": threads})
            yield self._event("C", name="KV slots in use", ts=time, args={"slots": slots})

    def _thread(self, thread: ThreadResult, track: _Track) -> Iterator[TraceEvent]:
        tid = FIRST_TRACK + thread.id
        name = "main" if thread.parent is None else thread.topic
        yield from self._name_track(tid, name, thread.id)
        about = {
            "thread": thread.id,
            "parent": thread.parent,
            "topic": thread.topic,
            "promised tokens": track.promised,
            "tokens": len(thread.token_ids),
        }
        yield self._slice(tid, name, track.start, track.end, about)  # a slice before those in it: nesting is by order
        for part in track.slices:
            yield from self._part(tid, part)

    def _part(self, tid: int, part: _Slice) -> Iterator[TraceEvent]:
        text = self._vocabulary.decode([token.id for token in part.tokens])
        about: dict[str, Any] = {}
        if part.tokens:
            about = {
                "text": text,
                "tokens": len(part.tokens),
                "positions": f"{part.tokens[0].position} to {part.tokens[-1].position}",
            }
        shown = " ".join(text.split())[:NAME_LENGTH]
        yield self._slice(tid, shown or part.kind, part.start, part.end, about, part.kind)
        for token in part.tokens:
            about = {"id": token.id, "position": token.position, "step": token.step}
            piece = self._vocabulary.decode([token.id])
            yield self._slice(tid, piece if piece.strip() else repr(piece), token.start, token.end, about, "token")

    def _arrow(self, arrow: _Arrow, flow: int) -> Iterator[TraceEvent]:
        for phase, (thread, time) in (("s", arrow.source), ("f", arrow.target)):
            extra = {"bp": "e"} if phase == "f" else {}  # the slice around it, not the next one
            yield self._event(
                phase, name=arrow.kind, cat=arrow.kind, id=flow, tid=FIRST_TRACK + thread, ts=time, **extra
            )

    def _name_track(self, tid: int, name: str, order: int) -> Iterator[TraceEvent]:
        yield self._event("M", name="thread_name", tid=tid, args={"name": name})
        yield self._event("M", name="thread_sort_index", tid=tid, args={"sort_index": order})

    def _slice(
        self, tid: int, name: str, start: int, end: int, args: dict[str, Any], category: str = "thread"
    ) -> TraceEvent:
        return self._event("X", name=name, cat=category, tid=tid, ts=start, dur=end - start, args=args)

    def _event(self, phase: str, **fields: Any) -> TraceEvent:
        return {"ph": phase, "pid": self._pid, "tid": 0, **fields}
