"""What decoding one prompt gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pasta.core.interpreter import Interpreter
from pasta.core.layout import critical_path
from pasta.core.tree import Tree, flatten, read
from pasta.decoding.events import TokenPut
from pasta.lang import plain, print_response

if TYPE_CHECKING:
    from pasta.decoding.events import StepOutput
    from pasta.engine.base import Engine


@dataclass(frozen=True, slots=True)
class ThreadResult:
    """One thread, the main one with id 0. `tokens`: the length promised, in tens or as the model counts; 0: none."""

    id: int
    parent: int | None
    topic: str
    tokens: int
    token_ids: tuple[int, ...]
    position_ids: tuple[int, ...]
    start_step: int
    end_step: int


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, and how it came about."""

    text: str
    annotated: str  # the same with its tags, in merged order
    prompt_ids: tuple[int, ...]
    threads: tuple[ThreadResult, ...]
    tokens_total: int  # tags included
    content_tokens: int  # tags and topics left out
    critical_path: int  # decoded one after another, at the least
    steps: int  # of the engine, the prompt's included
    wall_s: float
    finish_reason: str
    model: str
    tree: Tree
    moments: tuple[StepOutput, ...]
    cached_tokens: int = 0  # of the prompt, which another request had computed

    @property
    def parallelism(self) -> float:
        """Content tokens for each token on the critical path."""
        return self.content_tokens / max(1, self.critical_path)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the command line's `--json`."""
        out: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "text", "annotated", "prompt_ids", "tokens_total", "content_tokens", "critical_path",
                "parallelism", "steps", "wall_s", "finish_reason", "model",
            )
        }  # fmt: skip
        out["threads"] = [
            {name: getattr(thread, name) for name in ThreadResult.__dataclass_fields__} for thread in self.threads
        ]
        return out


def build_result(
    interpreter: Interpreter,
    prompt: Sequence[int],
    engine: Engine,
    moments: Sequence[StepOutput],
    stopped: str | None,
    cached_tokens: int = 0,
) -> Result:
    """`stopped` is the text where a stop string cut it."""
    vocabulary = engine.vocabulary
    tree = interpreter.tree()
    response = read(tree, vocabulary)
    ids = list(flatten(tree))
    threads = [
        ThreadResult(
            thread.id,
            thread.parent,
            vocabulary.decode(thread.topic),
            thread.length,
            tuple(thread.tokens),
            tuple(thread.positions),
            *_span(thread.id, moments),
        )
        for thread in interpreter.threads
    ]
    tags = vocabulary.tags
    topics = sum(len(thread.topic) for thread in interpreter.threads)
    return Result(
        text=plain(response) if stopped is None else stopped,
        annotated=print_response(response),
        prompt_ids=tuple(prompt),
        threads=tuple(threads),
        tokens_total=len(ids),
        content_tokens=sum(tags is None or token not in tags for token in ids) - topics,
        critical_path=critical_path(tree, tags),
        steps=len(moments),
        wall_s=moments[-1].seconds if moments else 0.0,
        finish_reason=interpreter.finish_reason or "",
        model=engine.name,
        tree=tree,
        moments=tuple(moments),
        cached_tokens=cached_tokens,
    )


def _span(thread: int, moments: Sequence[StepOutput]) -> tuple[int, int]:
    """The steps in which a thread put its first and its last token; both the last step where it never began."""
    steps = [
        moment.step
        for moment in moments
        for event in moment.events
        if isinstance(event, TokenPut) and event.thread == thread
    ]
    last = len(moments) - 1
    return (min(steps), max(steps)) if steps else (max(0, last), max(0, last))
