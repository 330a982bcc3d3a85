"""An answer and how it came about, whatever the method: what every figure is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pasta.core.positions import Positions
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item
from pasta.data.redundancy import measure
from pasta.decoding.results import Result
from pasta.lang import Node, Promise, Sync, Text, check, parse, plain_text

Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ThreadLine:
    """One thread on the timeline: the runs of steps in which it decoded, first and last step included."""

    parent: int | None
    topic: str
    promised: int  # in tens of tokens, or as the model counts; 0: nothing was promised
    tokens: int
    runs: Runs


@dataclass(frozen=True, slots=True)
class Answer:
    """What one contestant made of one prompt."""

    parts: tuple[tuple[int, str], ...]  # the text, piece by piece, with the thread that wrote it
    annotated: str
    threads: tuple[ThreadLine, ...]
    tokens: int  # decoded, tags included
    content_tokens: int  # of the plain text
    critical_path: int  # decoded one after another, at the least
    finish_reason: str

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)


def of_result(result: Result, tags: Tags | None) -> Answer:
    """A response in PASTA-LANG (or a plain one), as an answer."""
    children: dict[int | None, list[int]] = {}
    for thread in result.threads:
        children.setdefault(thread.parent, []).append(thread.id)
    steps: dict[int, list[int]] = {}
    _decoded(result.tree, 0, 0, children, tags, steps)
    return Answer(
        tuple(_parts(parse(result.annotated).nodes, 0, children)),
        result.annotated,
        tuple(
            ThreadLine(
                thread.parent, thread.topic, thread.tokens, len(thread.token_ids), in_runs(steps.get(thread.id, []))
            )
            for thread in result.threads
        ),
        result.tokens_total,
        result.content_tokens,
        result.critical_path,
        result.finish_reason,
    )


def in_runs(steps: Iterable[int]) -> Runs:
    """Steps in order, as runs of neighbours."""
    runs: list[tuple[int, int]] = []
    for step in steps:
        if runs and step <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], step)
        else:
            runs.append((step, step))
    return tuple(runs)


def describe(answer: Answer, positions: Positions) -> dict[str, Any]:
    """The answer as a row: what was written, and every figure that needs nothing but the answer itself."""
    response = parse(answer.annotated)
    promises = [promise for promise, _ in response.promises()]
    blocks = [plain_text(promise.block or ()) for promise in promises]
    if not promises and len(answer.threads) > 1:  # of Skeleton-of-Thought: a block is what one request wrote
        blocks = [text for thread, text in answer.parts if thread]
    return {
        "text": answer.text,
        "annotated": answer.annotated,
        "tokens": answer.tokens,
        "content_tokens": answer.content_tokens,
        "critical_path": answer.critical_path,
        "threads": [
            {
                "parent": line.parent,
                "topic": line.topic,
                "promised": line.promised,
                "tokens": line.tokens,
                "runs": line.runs,
            }
            for line in answer.threads
        ],
        "parts": answer.parts,
        "finish_reason": answer.finish_reason,
        "syncs": sum(isinstance(node, Sync) for node in _walk(response.nodes)),
        "errors": [finding.code for finding in check(answer.annotated) if finding.is_error],
        # Written less promised, in tens of tokens, or as the model counts.
        "length_errors": [positions.length(line.tokens) - line.promised for line in answer.threads if line.promised],
        **measure(answer.text, blocks, [line.topic for line in answer.threads[1:]]),
    }


def _walk(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Promise):
            yield from _walk(node.block or ())


def _decoded(
    items: Iterable[Item],
    thread: int,
    time: int,
    children: dict[int | None, list[int]],
    tags: Tags | None,
    steps: dict[int, list[int]],
) -> int:
    """Notes the steps in which each thread decodes, as `critical_path` counts them; returns the last one below it."""
    below = iter(children.get(thread, []))
    own = steps.setdefault(thread, [])
    latest = waited_for = time
    for item in items:
        if isinstance(item, Block):
            child = next(below)
            waited_for = max(waited_for, _decoded(item.items[1:], child, time, children, tags, steps))
            latest = max(latest, waited_for)
            continue
        time += 1
        if tags is not None and item == tags.sync:
            time = max(time, waited_for)
        own.append(time)
    return max(latest, time)


def _parts(nodes: Iterable[Node], thread: int, children: dict[int | None, list[int]]) -> Iterator[tuple[int, str]]:
    """Each text with its thread: the n-th promise of a thread is its n-th child."""
    below = iter(children.get(thread, []))
    for node in nodes:
        if isinstance(node, Text):
            yield thread, node.text
        elif isinstance(node, Promise):
            yield from _parts(node.block or (), next(below), children)
