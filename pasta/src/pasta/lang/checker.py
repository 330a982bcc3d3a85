"""Says what is wrong with a response (errors), and what is allowed but hardly meant (warnings)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pasta.lang.ast import MAX_TOKENS, MAX_TOPIC_WORDS, MIN_TOKENS, Node, Promise, Response, Span, Sync, Text
from pasta.lang.diagnostics import Diagnostic, Edit, Fix, Report, quote
from pasta.lang.errors import LangError
from pasta.lang.parser import Parser, decode
from pasta.lang.printer import plain_text
from pasta.lang.statistics import TAG_TOKENS, TokenCounter, merged_length
from pasta.lang.tags import escape, promise_tag
from pasta.text.words import count_words

#: A block of fewer words is over before a thread pays for itself.
MIN_BLOCK_WORDS = 5

_LIKE_A_TAG = re.compile(r"<\s*(?:/\s*)?(?:promise|async|sync)(?![\w:.-])[^<>\r\n]*>", re.IGNORECASE)


def check(text: str | bytes, count: TokenCounter | None = None, *, cut: bool = False) -> list[Diagnostic]:
    """Check a response.

    Args:
        text: The response in its text form.
        count: Counts the tokens of a text. With it, wrong estimates are found too (`W206`).
        cut: A limit cut the response: what may have come after its end draws no warning.

    Returns:
        All errors by place; where there are none, all warnings by place.
    """
    try:
        source = text if isinstance(text, str) else decode(text)
    except LangError as error:
        span = Span(error.start or 0, error.end or 0)
        return [Diagnostic(error.code, error.message, span, error.line or 1, error.column or 1)]
    parser = Parser()
    parser.feed(source)
    return parser.finish() or _Linter(source, count).run(parser.close(), cut)


def estimate(block: Sequence[Node], count: TokenCounter) -> int:
    """The right `tokens` for a block: its length with its two tags, in tens, rounded up."""
    length = merged_length(block, count) + 2 * TAG_TOKENS
    return min(max(-(-length // 10), MIN_TOKENS), MAX_TOKENS)


class _Linter:
    """The warnings. They presume a text without errors, so every node knows its place."""

    def __init__(self, source: str, count: TokenCounter | None) -> None:
        self.source = source
        self.count = count
        self.report = Report()
        self.report.read(source)

    def run(self, response: Response, cut: bool) -> list[Diagnostic]:
        self._lint_thread(response.nodes, cut)
        return self.report.in_order()

    def _lint_thread(self, nodes: Sequence[Node], cut: bool) -> None:
        topics: dict[str, int] = {}  # of this thread, each with the line of its first promise
        open_children = 0
        for index, node in enumerate(nodes):
            if isinstance(node, Text):
                self._lint_text(node)
            elif isinstance(node, Sync):
                if not open_children:
                    self._useless_sync(nodes, index)
                open_children = 0
            else:
                open_children += 1
                self._lint_promise(node, topics, cut and node is nodes[-1])
        for promise in _lone_promises(nodes if cut else (*nodes, Sync())):  # the end waits like a sync
            what = f"nothing runs beside block {quote(promise.topic)}"
            self.report.add("W208", f"{what}: its thread waits for it at once", _span(promise))

    def _lint_text(self, text: Text) -> None:
        start, end = _span(text).start, _span(text).end
        for found in _LIKE_A_TAG.finditer(self.source, start, end):
            span = Span(found.start(), found.end())
            self.report.add("W207", f"{quote(found[0])} looks like a tag, but is read as text", span)

    def _lint_promise(self, promise: Promise, topics: dict[str, int], cut: bool) -> None:
        span, topic = _span(promise), promise.topic
        words = len(topic.split())
        if words > MAX_TOPIC_WORDS:
            what = f"topic {quote(topic)} has {words} words: expected at most {MAX_TOPIC_WORDS}"
            self.report.add("W204", what, span)
        if topic.casefold() in topics:
            first = f"first on line {topics[topic.casefold()]}"
            self.report.add("W205", f"topic {quote(topic)} is promised twice by this thread: {first}", span)
        topics.setdefault(topic.casefold(), self.report.locate(span.start)[0])
        if promise.block is None:
            return
        if not cut:
            self._lint_block(promise, promise.block)
        self._lint_thread(promise.block, cut)

    def _lint_block(self, promise: Promise, block: Sequence[Node]) -> None:
        span = _span(promise)
        words = count_words(plain_text(block))
        if not words:
            self.report.add("W202", f"block {quote(promise.topic)} is empty", span)
        elif words < MIN_BLOCK_WORDS:
            what = f"block {quote(promise.topic)} has {words} word{'s' if words > 1 else ''}"
            self.report.add("W203", f"{what}: expected at least {MIN_BLOCK_WORDS}", span)
        if self.count is None:
            return
        right = estimate(block, self.count)
        if abs(promise.tokens - right) > max(1, right / 2):
            tag = promise_tag(promise.topic, right)
            fix = Fix(f"write tokens={right}", (Edit(span.start, span.end, tag),))
            length = merged_length(block, self.count) + 2 * TAG_TOKENS
            what = f"tokens={promise.tokens} stands for about {10 * promise.tokens} tokens"
            self.report.add("W206", f"{what}, but the block has {length}: expected tokens={right}", span, fix)

    def _useless_sync(self, nodes: Sequence[Node], index: int) -> None:
        span = _span(nodes[index])
        before, after = _text_at(nodes, index - 1), _text_at(nodes, index + 1)
        joined = escape(before.text + after.text)
        if joined == escape(before.text) + escape(after.text):
            edit = Edit(span.start, span.end, "")
        else:  # without the sync the two texts would spell a tag: write them anew
            edit = Edit(_span(before).start, _span(after).end, joined)
        fix = Fix("remove <sync/>", (edit,))
        self.report.add("W201", "<sync/> waits for nothing: this thread has no open child here", span, fix)


def _lone_promises(nodes: Sequence[Node]) -> Iterator[Promise]:
    """The promises beside which nothing runs: alone between two syncs, and only white space after them."""
    promises: list[Promise] = []  # since the last sync
    text_since = False
    for node in nodes:
        if isinstance(node, Promise):
            promises.append(node)
        elif isinstance(node, Text):
            text_since = text_since or (bool(promises) and not node.text.isspace())
        else:
            if len(promises) == 1 and not text_since:
                yield promises[0]
            promises, text_since = [], False


def _text_at(nodes: Sequence[Node], index: int) -> Text:
    node = nodes[index] if 0 <= index < len(nodes) else None
    return node if isinstance(node, Text) else Text("", Span(0, 0))


def _span(node: Node) -> Span:
    assert node.span is not None, "a parsed node knows its place"
    return node.span
