"""How tags are spelled: which letters open one, how text that looks like one is escaped, what a tag says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pasta.lang.ast import MAX_TOKENS, MIN_TOKENS, Span, topic_problem
from pasta.lang.diagnostics import Edit, Fix, Report, quote

ASYNC = "<async>"
CLOSE = "</async>"
SYNC = "<sync/>"

# The name must end there: `<asynchronous>` and `<sync-all>` are text.
_NAME = r"/?(?:promise|async|sync)(?![0-9A-Za-z_:.-])"
#: A tag opens here; with backslashes it is an escape instead, and stands for the same letters with one less.
OPENER = re.compile(rf"<(?P<backslashes>\\*)(?P<name>{_NAME})")
_BEGINNINGS = "|".join(name[:end] for name in ("promise", "async", "sync") for end in range(1, len(name) + 1))
#: What may still become an opener when more text comes: `</` is one, and so is a whole name at the very end.
OPENER_BEGUN = re.compile(rf"<\\*/?(?:{_BEGINNINGS})?\Z")
#: A tag ends at its first `>`. Meeting one of the others first, it was never finished.
TAG_END = re.compile(r"[<>\r\n]")

_ESCAPED = re.compile(rf"<(?=\\*{_NAME})")
_UNESCAPED = re.compile(rf"<\\(?=\\*{_NAME})")
_SIMPLE_TAG = re.compile(r"</?async[ \t]*>|<sync[ \t]*/>")
_SYNC_MEANT = re.compile(r"<sync[ \t/]*>")
_VALUE = r"""(?P<value>"[^"]*"|'[^']*'|[^\s"'=/]+)"""
_ATTRIBUTE = re.compile(rf"[ \t]+(?P<name>[A-Za-z_][\w-]*)[ \t]*=[ \t]*{_VALUE}")
_TOKENS = re.compile(r"0*(?P<value>[1-9][0-9]?)", re.ASCII)


def escape(text: str) -> str:
    """Write plain text so that nothing in it is read as a tag: a backslash goes after each opening `<`."""
    return _ESCAPED.sub(r"<\\", text)


def unescape(text: str) -> str:
    """Undo `escape`."""
    return _UNESCAPED.sub("<", text)


def promise_tag(topic: str, tokens: int) -> str:
    """The canonical spelling of a promise."""
    return f'<promise topic="{topic}" tokens={tokens}/>'


class Kind(Enum):
    PROMISE = "promise"
    OPEN = "async"
    CLOSE = "/async"
    SYNC = "sync"
    NOTHING = ""  # a tag that does not exist, such as </promise>


@dataclass(frozen=True, slots=True)
class Tag:
    """What a tag says. A promise that could not be understood has `tokens` 0: it was reported."""

    kind: Kind
    span: Span
    topic: str = ""
    tokens: int = 0


def read_tag(raw: str, span: Span, report: Report) -> Tag:
    """Understand one tag, from its `<` to its `>` or to where it breaks off; report what is wrong."""
    tag_name = _tag_name(raw)
    if not raw.endswith(">"):
        what = f"tag {quote(raw)} is not finished: expected > before the next tag or the end of the line"
        fix = Fix("finish the tag", (Edit(span.end, span.end, ">"),)) if _lacks_one_letter(raw) else None
        report.add("E101", what, span, fix)
        return Tag(tag_name, span)
    if tag_name is Kind.PROMISE:
        return _read_promise(raw, span, report)
    if tag_name is Kind.NOTHING:
        what = f"there is no tag {quote(raw)}: the tags are <promise .../>, {ASYNC}, {CLOSE}, {SYNC}"
        report.add("E102", what, span)
        return Tag(tag_name, span)
    if not _SIMPLE_TAG.fullmatch(raw):
        canonical = {Kind.OPEN: ASYNC, Kind.CLOSE: CLOSE, Kind.SYNC: SYNC}[tag_name]
        # `<sync>` can only be meant one way; `<async/>` and `<async topic="x">` cannot.
        write_sync = Fix(f"write {SYNC}", (Edit(span.start, span.end, SYNC),))
        fix = write_sync if _SYNC_MEANT.fullmatch(raw) else None
        report.add("E102", f"{quote(raw)} is not how this tag is written: expected {canonical}", span, fix)
    return Tag(tag_name, span)


def _lacks_one_letter(raw: str) -> bool:
    """Whether an unfinished tag has begun its `/>`, and is right once that is written out."""
    if not raw.endswith("/"):
        return False
    trial = Report()
    read_tag(raw + ">", Span(0, len(raw) + 1), trial)
    return not trial.diagnostics


def _tag_name(raw: str) -> Kind:
    opener = OPENER.match(raw)
    assert opener is not None, "the scanner hands over openers only"
    try:
        return Kind(opener["name"])
    except ValueError:
        return Kind.NOTHING


def _read_promise(raw: str, span: Span, report: Report) -> Tag:
    """Read the attributes of a promise: both required, in either order, quoted either way."""
    problems_before = len(report.diagnostics)
    body = raw[len("<promise") : -1]
    if body.endswith("/"):
        body = body[:-1].rstrip(" \t")
    else:
        body = body.rstrip(" \t/")
        tail = Span(span.start + len("<promise") + len(body), span.end)
        fix = Fix("end the promise with />", (Edit(tail.start, tail.end, "/>"),))
        report.add("E102", f"promise {quote(raw)} does not end in />", tail, fix)

    values: dict[str, str] = {}
    places: dict[str, Span] = {}
    at = 0
    first = span.start + len("<promise")
    while at < len(body):
        attribute = _ATTRIBUTE.match(body, at)
        if attribute is None:
            place = Span(first + at, first + len(body))
            what = f'cannot read {quote(body[at:])} in a promise: expected topic="..." tokens=N'
            report.add("E104", what, place)
            return Tag(Kind.PROMISE, span)
        name, at = attribute["name"], attribute.end()
        if name not in ("topic", "tokens") or name in values:
            what = "is given twice" if name in values else "is not known"
            place = Span(first + attribute.start("name"), first + at)
            report.add("E104", f"attribute {quote(name)} {what}: expected topic and tokens, once each", place)
            continue
        values[name] = attribute["value"]
        places[name] = Span(first + attribute.start("value"), first + at)

    for name in ("topic", "tokens"):
        if name not in values:
            report.add("E103", f'promise has no {name}: expected <promise topic="..." tokens=N/>', span)
    topic = _read_topic(values["topic"], places["topic"], report) if "topic" in values else ""
    tokens = _read_tokens(values["tokens"], places["tokens"], report) if "tokens" in values else 0
    understood = len(report.diagnostics) == problems_before
    return Tag(Kind.PROMISE, span, topic, tokens) if understood else Tag(Kind.PROMISE, span)


def _read_topic(value: str, place: Span, report: Report) -> str:
    quoted = value[0] in "\"'"
    topic = value[1:-1] if quoted else value
    problem = topic_problem(topic) if quoted else "is not in quotes"
    if problem is not None:
        trimmed = topic.strip()
        fix = Fix(f"write {quote(trimmed)}", (Edit(place.start, place.end, f'"{trimmed}"'),))
        expected = 'expected a few words in double quotes, without ", < or >'
        safe = topic_problem(trimmed) is None
        report.add("E105", f"topic {quote(topic)} {problem}: {expected}", place, fix if safe else None)
    return topic


def _read_tokens(value: str, place: Span, report: Report) -> int:
    digits = value[1:-1] if value[0] in "\"'" else value
    number = _TOKENS.fullmatch(digits)
    if number is not None and number["value"] == digits:
        return int(digits)
    fix = None
    if number is not None:
        fix = Fix(f"write tokens={number['value']}", (Edit(place.start, place.end, number["value"]),))
    expected = f"expected a whole number of tens from {MIN_TOKENS} to {MAX_TOKENS}"
    report.add("E106", f"tokens={quote(digits)}: {expected}", place, fix)
    return 0
