"""What one HTTP request asked for, on its way: one or several choices, decoded side by side."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.errors import PastaError
from pasta.serve.course import Course
from pasta.serve.dispatcher import Dispatcher, News
from pasta.serve.errors import ApiError, from_pasta
from pasta.serve.metrics import Metrics
from pasta.serve.tracing import AnswerSpan
from pasta.serve.visit import Visit
from pasta.structured.result import StructuredResult

HEARTBEAT_S = 10.0  # of silence, before a stream says that it is alive
HEARTBEAT = b": waiting\n\n"  # a comment, which clients pass over


class Shape(Protocol):
    """An answer in the words of one of the routes."""

    async def whole(self) -> dict[str, Any]: ...

    def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events. An error that comes late is the last of them."""


class Answer:
    """The choices: what is told of them, and their results."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        metrics: Metrics,
        courses: Sequence[Course],
        visit: Visit,
        *,
        choices: int = 1,
        answered: Callable[[Result], None] = lambda result: None,
        begin_span: Callable[[], AnswerSpan] | None = None,
    ):
        self.courses = courses
        self.results: dict[int, Result] = {}  # of each choice, of its last request
        self.created = int(time.time())
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._choices = choices  # of each prompt
        self._visit = visit
        self._answered = answered
        self._ended = False
        self._steps: dict[int, float] = {}  # by choice: when its last step was
        self._cached: dict[int, int] = {}  # by choice: tokens that its first request found; later ones find its own
        loop = asyncio.get_running_loop()
        self._updates: asyncio.Queue[tuple[int, News]] = asyncio.Queue()

        def tell(index: int, update: News) -> None:
            loop.call_soon_threadsafe(self._updates.put_nowait, (index, update))

        self._span = None if begin_span is None else begin_span()
        self._tell = tell
        self._states = dispatcher.submit([course.first for course in courses], tell)

    def __len__(self) -> int:
        return len(self._states)

    def close(self) -> None:
        """Ends what still runs. To be called once, whatever happens."""
        if self._span is not None:
            self._span.end(cancelled=not self._ended)
        if not self._ended:
            self._ended = True
            self._visit.finish = "cancelled"
            self._metrics.cancelled.inc()
            self._dispatcher.cancel(self._states)

    async def told(self) -> AsyncIterator[tuple[int, StepOutput | Result] | None]:
        """All choices' steps as they come, and each choice's result after its last; None after a silence."""
        while len(self.results) < len(self._states):
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    index, update = await self._updates.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(update, Result):
                self._cached.setdefault(index, update.cached_tokens)
                if self._follow(index, update):
                    continue
            if self._span is not None:
                self._span.take(index, update)
            if isinstance(update, PastaError):
                raise update
            if isinstance(update, Result):
                self._finish(index, update)
                yield index, update
            elif self.courses[index].answering:
                self._time(index, update)
                yield index, update

    def _follow(self, index: int, result: Result) -> bool:
        """Goes on with the choice's next request, where there is one."""
        request = self.courses[index].follow(result)
        if request is not None:
            tell = self._tell
            (self._states[index],) = self._dispatcher.submit(
                [request], lambda _, update: tell(index, update), follows=True
            )
        return request is not None

    async def finished(self) -> list[Result]:
        """The results of all choices, in their order."""
        async for _ in self.told():
            pass
        return [self.results[index] for index in range(len(self))]

    def usage(self) -> dict[str, Any]:
        """Token counts, and how the answer came about. Of several choices: sums, and the longest path."""
        chains = [[*self.courses[index].earlier, result] for index, result in self.results.items()]
        results = [result for chain in chains for result in chain]
        # Choices of one prompt share it, and it counts once.
        firsts = range(0, len(self), self._choices)
        prompts = [len(self.courses[index].prompt) for index in firsts]
        cached = [min(self._cached[index], size) for index, size in zip(firsts, prompts, strict=True)]
        prompt = sum(prompts)
        completion = sum(result.decoded_tokens for result in results)
        content = sum(result.content_tokens for result in results)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(cached)},
            "content_tokens": content,
            "forced_tokens": sum(result.forced_tokens for result in results if isinstance(result, StructuredResult)),
            "critical_path": max(sum(result.critical_path for result in chain) for chain in chains),
            "steps": max(sum(result.steps for result in chain) for chain in chains),
            "threads": sum(len(result.threads) for result in results),
            "speedup": round(content / max(1, sum(result.critical_path for result in results)), 4),
            "plain_when_full": sum(state.crowded for state in self._states),
        }

    def finish_reason(self, index: int) -> str:
        """Why a choice ended, in OpenAI's words."""
        if self.results[index].finish_reason == "length":
            return "length"
        return "stop" if self.courses[index].called is None else "tool_calls"

    def refusal(self, error: PastaError) -> ApiError:
        """What ended a stream that had begun, as the client and the log are told of it."""
        told = from_pasta(error)
        self._visit.error = told.code
        return told

    # -- for the operator ---------------------------------------------------------------------------------

    def _time(self, index: int, output: StepOutput) -> None:
        now = time.perf_counter()
        if index in self._steps:
            self._metrics.step(now - self._steps[index])
        self._steps[index] = now
        if self._visit.first_s is None and output.text:
            self._visit.first_s = now - self._visit.begun
            self._metrics.first_text(self._visit.first_s)

    def _finish(self, index: int, result: Result) -> None:
        self.results[index] = result
        state = self._states[index]
        self._metrics.answered(result, state.record.queued_s, self._visit.total_s, crowded=state.crowded)
        self._answered(result)
        if len(self.results) == len(self._states):
            self._ended = True
            usage, visit = self.usage(), self._visit
            visit.choices = len(self)
            visit.prompt_tokens, visit.completion_tokens = usage["prompt_tokens"], usage["completion_tokens"]
            visit.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]
            visit.threads, visit.critical_path = usage["threads"], usage["critical_path"]
            visit.plain_when_full = usage["plain_when_full"] or None
            visit.finish = ",".join(sorted({self.finish_reason(each) for each in self.results}))
            visit.queue_s = max(state.record.queued_s for state in self._states)


def sse(value: Any, event: str | None = None) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return (b"" if event is None else f"event: {event}\n".encode()) + b"data: " + data + b"\n\n"
