"""What decoding one prompt gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pasta.core.commands import MAIN, Command, Put
from pasta.core.detokenizer import HALF
from pasta.core.interpreter import Interpreter
from pasta.core.layout import critical_path
from pasta.core.merged import merged
from pasta.core.thread import Thread
from pasta.core.tree import Tree, flatten, read, shorten
from pasta.engine.base import Engine, TokenLogprobs
from pasta.lang import plain, print_response

if TYPE_CHECKING:
    from pasta.decoding.events import StepOutput


@dataclass(frozen=True, slots=True)
class ThreadResult:
    """One thread, the main one with id 0. `tokens`: the length promised, in tens or as the model counts; 0: none.

    `logprobs`, where they were asked for, go with `token_ids`; None stands for a token that the model did not choose.
    The main thread of an answer that ended by itself has one more: of the token that ended it.
    """

    id: int
    parent: int | None
    topic: str
    tokens: int
    token_ids: tuple[int, ...]
    position_ids: tuple[int, ...]
    start_step: int
    end_step: int
    logprobs: tuple[TokenLogprobs | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, and how it came about."""

    text: str
    annotated: str  # the same with its tags, in merged order
    prompt_ids: tuple[int, ...]
    threads: tuple[ThreadResult, ...]
    tokens_total: int  # tags included
    content_tokens: int  # tags and topics left out
    decoded_tokens: int  # that the model chose; never more than `max_tokens`
    dropped_tokens: int  # that were decoded beside them, and cut off by a limit
    critical_path: int  # decoded one after another, at the least
    steps: int  # of the engine, the prompt's included
    wall_s: float
    finish_reason: str  # 'stop' where the answer ended by itself or at a stop, 'length' where a limit cut it
    model: str
    tree: Tree = field(repr=False)
    outputs: tuple[StepOutput, ...] = field(repr=False)  # step by step, where somebody watched
    cached_tokens: int = 0  # of the prompt, which another request had computed
    choices: tuple[Result, ...] = field(default=(), repr=False)  # all `n` answers, this one first

    @property
    def parallelism(self) -> float:
        """Content tokens for each token on the critical path."""
        return self.content_tokens / max(1, self.critical_path)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the command line's `--json`."""
        out: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "text", "annotated", "prompt_ids", "tokens_total", "content_tokens", "decoded_tokens",
                "dropped_tokens",
                "critical_path", "parallelism", "steps", "wall_s", "finish_reason", "model",
            )
        }  # fmt: skip
        out["threads"] = [_describe(thread) for thread in self.threads]
        if len(self.choices) > 1:
            out["choices"] = [choice.to_dict() for choice in self.choices[1:]]
        return out


def _describe(thread: ThreadResult) -> dict[str, Any]:
    names = [name for name in ThreadResult.__dataclass_fields__ if name != "logprobs"]
    out = {name: getattr(thread, name) for name in names}
    if thread.logprobs is not None:
        out["logprobs"] = [None if one is None else one.logprob for one in thread.logprobs]
        out["top_logprobs"] = [None if one is None else list(one.top) for one in thread.logprobs]
    return out


@dataclass(slots=True)
class Record:
    """What is written down of a request while it runs."""

    marks: list[int] = field(default_factory=lambda: [0])  # commands before the first step and after each
    seconds: float = 0.0  # from its beginning to its last step
    queued_s: float = 0.0  # from its beginning to its first place in the engine
    cached_tokens: int = 0
    outputs: list[StepOutput] = field(default_factory=list)  # where somebody watches
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)  # once it ended, see `spans`
    logprobs: dict[int, list[TokenLogprobs]] | None = None  # by thread, where they were asked for

    @property
    def steps(self) -> int:
        return len(self.marks) - 1

    def note(self, thread: int, logprobs: TokenLogprobs) -> None:
        if self.logprobs is not None:
            self.logprobs.setdefault(thread, []).append(logprobs)


def spans(commands: Sequence[Command], marks: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By thread: the steps of its first and its last token."""
    out: dict[int, tuple[int, int]] = {}
    for step, (begin, end) in enumerate(pairwise(marks)):
        for command in commands[begin:end]:
            if type(command) is Put:
                first, _ = out.get(command.thread, (step, step))
                out[command.thread] = (first, step)
    return out


def build_result(
    prompt: Sequence[int], interpreter: Interpreter, record: Record, engine: Engine, stopped: str | None
) -> Result:
    """`stopped` is the text where a stop string cut it."""
    vocabulary = engine.vocabulary
    tree = interpreter.tree()
    response = read(tree, vocabulary, prompt)
    whole = plain(response)
    text = stopped if stopped is not None else whole if interpreter.whole else whole.rstrip(HALF)
    ids = list(flatten(tree))
    tags = vocabulary.tags
    threads = [
        _thread(each, interpreter, record, vocabulary.decode(each.topic).strip()) for each in read_threads(interpreter)
    ]
    chosen = sum(thread.chosen for thread in read_threads(interpreter))
    topics = sum(len(interpreter.threads[thread.id].topic) for thread in threads)
    return Result(
        text=text,
        annotated=print_response(response if text == whole else shorten(response, len(text))),
        prompt_ids=tuple(prompt),
        threads=tuple(threads),
        tokens_total=len(ids),
        content_tokens=sum(tags is None or token not in tags for token in ids) - topics,
        decoded_tokens=chosen,
        dropped_tokens=max(0, interpreter.sampled - chosen - interpreter.whole),
        critical_path=critical_path(merged(interpreter.threads, MAIN, chosen=True), tags),
        steps=record.steps,
        wall_s=record.seconds,
        finish_reason=interpreter.finish_reason or "",
        model=engine.name,
        tree=tree,
        outputs=tuple(record.outputs),
        cached_tokens=record.cached_tokens,
    )


def read_threads(interpreter: Interpreter) -> Iterator[Thread]:
    """The threads of the answer, by number; what a limit cut off belongs to it no more."""
    found = {MAIN}
    for thread in interpreter.threads:
        if thread.id in found:
            yield thread
            found.update(thread.blocks.values())


def _thread(thread: Thread, interpreter: Interpreter, record: Record, topic: str) -> ThreadResult:
    start, end = record.spans.get(thread.id, (max(0, record.steps - 1),) * 2)
    logprobs = None if record.logprobs is None else record.logprobs.get(thread.id, ())
    return ThreadResult(
        thread.id,
        thread.parent,
        topic,
        thread.length,
        tuple(thread.tokens),
        tuple(thread.positions),
        start,
        end,
        None if logprobs is None else tuple(_align(logprobs, thread, whole=interpreter.whole)),
    )


def _align(logprobs: Sequence[TokenLogprobs], thread: Thread, whole: bool) -> Iterator[TokenLogprobs | None]:
    chosen = iter(logprobs)
    last = len(thread.tokens) - 1
    for index in range(len(thread.tokens)):
        inserted = (index == 0 and thread.parent is not None) or (index == last and thread.closed)
        yield None if inserted else next(chosen, None)
    if whole and thread.parent is None:
        yield from chosen
