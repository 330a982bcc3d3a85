"""How long a response is, and how long it takes when its threads run at the same time.

Lengths are counted in tokens by a function that the caller brings; tags have fixed costs. Time is counted in
decode steps: a step gives every live thread its next token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pasta.lang.ast import Node, Promise, Response, Sync, Text

#: Counts the tokens of a piece of text.
TokenCounter = Callable[[str], int]

#: A promise costs two tag tokens and its topic; each other tag is one token.
PROMISE_TOKENS = 2
TAG_TOKENS = 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of one response.

    Attributes:
        total_tokens: All tokens, tags and topics included.
        content_tokens: The tokens of the plain answer, text by text.
        critical_path: The step of the last token, when no thread ever has to wait for its turn.
        threads: The main thread and one for each promise.
        depth: How deep blocks nest: 0 without a promise, 1 in the paper's flat language.
        syncs: How many sync tags there are.
    """

    total_tokens: int
    content_tokens: int
    critical_path: int
    threads: int
    depth: int
    syncs: int

    @property
    def parallelism(self) -> float:
        """Content tokens a step: 1 for a plain text, more where threads pay, less where tags cost more."""
        return self.content_tokens / self.critical_path if self.critical_path else 1.0

    def speedup(self, baseline_tokens: int) -> float:
        """Theoretical speedup over decoding `baseline_tokens` one after another."""
        return baseline_tokens / self.critical_path if self.critical_path else 1.0


def statistics(response: Response, count: TokenCounter) -> Statistics:
    """Measure a response; `count` says how many tokens a piece of text has."""
    tally = _Tally(count)
    own_end, children_end = tally.run(response.nodes, step=0, depth=0)
    return Statistics(
        total_tokens=tally.content + tally.overhead,
        content_tokens=tally.content,
        critical_path=max(own_end, children_end),
        threads=tally.threads,
        depth=tally.depth,
        syncs=tally.syncs,
    )


def merged_length(nodes: Iterable[Node], count: TokenCounter) -> int:
    """The tokens of some nodes as they stand in the merged form, all tags included."""
    tally = _Tally(count)
    tally.run(nodes, step=0, depth=0)
    return tally.content + tally.overhead


class _Tally:
    """Walks the threads once; the step of each thread is a plain number, so nothing has to be simulated."""

    def __init__(self, count: TokenCounter) -> None:
        self.count = count
        self.content = 0
        self.overhead = 0
        self.threads = 1
        self.depth = 0
        self.syncs = 0

    def run(self, nodes: Iterable[Node], step: int, depth: int) -> tuple[int, int]:
        """Run a thread whose last token came at `step`.

        Returns:
            The step of its own last token, and the last step of the children that it has not waited for.
        """
        self.depth = max(self.depth, depth)
        children_end = 0
        for node in nodes:
            match node:
                case Text(text):
                    length = self.count(text)
                    self.content += length
                    step += length
                case Sync():
                    self.syncs += 1
                    self.overhead += TAG_TOKENS
                    # Sampled one step on; takes effect when the last child is done.
                    step = max(step + TAG_TOKENS, children_end)
                    children_end = 0
                case Promise(topic, _, block):
                    length = PROMISE_TOKENS + self.count(topic)
                    self.overhead += length
                    step += length
                    self.threads += 1
                    children_end = max(children_end, self._run_child(block, step, depth + 1))
        return step, children_end

    def _run_child(self, block: tuple[Node, ...] | None, step: int, depth: int) -> int:
        """Run the child of a promise that ends at `step`; return the last step of it and its descendants."""
        if block is None:  # the main-thread form does not know how long the child runs
            self.depth = max(self.depth, depth)
            return step
        self.overhead += 2 * TAG_TOKENS
        # The interpreter inserts <async>, which takes no step; the child writes </async>, which takes one.
        own_end, children_end = self.run(block, step, depth)
        return max(own_end + TAG_TOKENS, children_end)
