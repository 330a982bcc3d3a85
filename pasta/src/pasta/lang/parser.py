"""Reads PASTA-LANG: text in pieces of any length goes in, a syntax tree comes out.

The parser, the checker and the fixer share this one reading. It never stops at a mistake: it reports it, and
reads on as if the nearest right thing stood there. `close` raises the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from pasta.lang.ast import MAX_DEPTH, Node, Promise, Response, Span, Sync, Text
from pasta.lang.diagnostics import Diagnostic, Edit, Fix, Report, quote
from pasta.lang.scanner import Lexeme, Scanner
from pasta.lang.tags import Kind, Tag, read_tag


@dataclass(slots=True)
class _Thread:
    """A thread that is being read: the main one, or an open block."""

    nodes: list[Node]
    promise: Tag | None  # None: the main thread, or a block whose promise is missing or was not understood
    opened: Span
    depth: int


class Parser:
    """Reads one response.

    Example:
        >>> parser = Parser()
        >>> for piece in ("Hello<sy", "nc/> there"):
        ...     parser.feed(piece)
        >>> parser.close().nodes
        (Text(text='Hello', ...), Sync(...), Text(text=' there', ...))
    """

    def __init__(self) -> None:
        self._report = Report()
        self._scanner = Scanner()
        self._threads = [_Thread([], None, Span(0, 0), 0)]
        self._promise: Tag | None = None  # just read; an <async> here opens its block
        self._gap: list[Lexeme] = []  # white space since then
        self._texts: list[str] = []  # not yet in the tree
        self._text_span = Span(0, 0)
        self._bare: list[Tag] = []  # promises without a block
        self._has_blocks = False
        self._closed = False

    def feed(self, piece: str) -> None:
        """Take the next piece of the text. Mistakes do not raise here, but in `close`."""
        if self._closed:
            raise ValueError("this parser is closed: make a new one for the next response")
        self._report.read(piece)
        for lexeme in self._scanner.feed(piece):
            self._take(lexeme)

    def close(self) -> Response:
        """End the text and return its tree.

        Raises:
            LangError: The text is not PASTA-LANG; the error is the first one that `check` lists.
        """
        for diagnostic in self.finish():
            raise diagnostic.to_error()
        return Response(tuple(self._threads[0].nodes))

    def finish(self) -> list[Diagnostic]:
        """End the text and return its errors, all of them, by place. Without any, `close` gives the tree."""
        if not self._closed:
            self._closed = True
            for lexeme in self._scanner.close():
                self._take(lexeme)
            self._settle_promise()
            self._settle_text()
            for thread in self._threads[1:]:
                self._report.add("E113", "<async> is never closed: expected </async>", thread.opened)
            if self._has_blocks:
                for tag in self._bare:
                    what = f"promise {quote(tag.topic)} has no block, but other promises have one"
                    self._report.add("E114", f"{what}: expected <async> directly after it", tag.span)
        return self._report.in_order()

    def _take(self, lexeme: Lexeme) -> None:
        if not lexeme.is_tag:
            if self._promise is not None and lexeme.value.isspace():
                self._gap.append(lexeme)
            else:
                self._settle_promise()
                self._add_text(lexeme)
            return
        tag = read_tag(lexeme.value, lexeme.span, self._report)
        if tag.kind is Kind.OPEN:
            self._open(tag)
            return
        self._settle_promise()
        if tag.kind is Kind.PROMISE:
            self._promise = tag
        elif tag.kind is Kind.CLOSE:
            self._close(tag)
        elif tag.kind is Kind.SYNC:
            self._add(Sync(tag.span))

    def _open(self, tag: Tag) -> None:
        """An <async>: the block of the promise just before it."""
        promise, gap = self._promise, self._gap
        self._promise, self._gap = None, []
        if promise is None:
            self._report.add("E111", "<async> has no promise directly before it", tag.span)
        elif gap:
            moved = Edit(promise.span.start, promise.span.start, "".join(text.value for text in gap))
            removed = Edit(gap[0].span.start, gap[-1].span.end, "")
            what = "white space between a promise and its <async> belongs to neither"
            fix = Fix("move the white space before the promise", (moved, removed))
            self._report.add("E110", f"{what}: expected <async> directly after the promise", tag.span, fix)
        self._settle_text()
        parent = self._threads[-1]
        depth = parent.depth + 1
        if promise is not None and depth == MAX_DEPTH + 1:
            what = f"this block is nested {depth} deep: expected at most {MAX_DEPTH}"
            self._report.add("E115", what, tag.span)
        self._has_blocks = self._has_blocks or promise is not None
        # A block without a proper promise is read as part of its parent: its own mistakes are found too.
        known = promise if promise is not None and promise.tokens and depth <= MAX_DEPTH else None
        self._threads.append(_Thread([] if known else parent.nodes, known, tag.span, depth))

    def _close(self, tag: Tag) -> None:
        if len(self._threads) == 1:
            self._report.add("E112", "</async> closes nothing: no <async> is open here", tag.span)
            return
        self._settle_text()
        thread = self._threads.pop()
        if thread.promise is not None:
            promise = thread.promise
            block = tuple(thread.nodes)
            self._threads[-1].nodes.append(Promise(promise.topic, promise.tokens, block, promise.span))

    def _settle_promise(self) -> None:
        """The promise just read turned out to stand alone."""
        if self._promise is None:
            return
        promise, self._promise = self._promise, None
        if promise.tokens:
            self._bare.append(promise)
            self._add(Promise(promise.topic, promise.tokens, None, promise.span))
        gap, self._gap = self._gap, []
        for text in gap:
            self._add_text(text)

    def _add(self, node: Node) -> None:
        self._settle_text()
        self._threads[-1].nodes.append(node)

    def _add_text(self, text: Lexeme) -> None:
        self._text_span = Span(self._text_span.start if self._texts else text.span.start, text.span.end)
        self._texts.append(text.value)

    def _settle_text(self) -> None:
        if self._texts:
            self._threads[-1].nodes.append(Text("".join(self._texts), self._text_span))
            self._texts = []


def parse(text: str | bytes) -> Response:
    """Read a whole response.

    Raises:
        LangError: The text is not PASTA-LANG, or the bytes are not UTF-8.
    """
    parser = Parser()
    parser.feed(text if isinstance(text, str) else decode(text))
    return parser.close()


def decode(source: bytes) -> str:
    """Decode UTF-8.

    Raises:
        LangError: `E100`, with the place of the first byte that is not UTF-8.
    """
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        report = Report()
        before = source[: error.start].decode("utf-8")
        report.read(before)
        message = f"byte 0x{source[error.start]:02X} at offset {error.start} is not UTF-8"
        report.add("E100", message, Span(len(before), len(before) + 1))
        raise report.diagnostics[0].to_error() from None
