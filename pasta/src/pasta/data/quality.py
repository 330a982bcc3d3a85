"""Whether an annotated answer is a good example: a model that learns from it copies its flaws.

What a parent promises, its children write without seeing each other. So an example teaches well only where the
topics tell the blocks apart, no block says what another says or points at it, and the list ends where it should.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pasta.data.cues import concludes, follows, leans_back
from pasta.data.topics import GENERIC, reads_well, title_of
from pasta.lang import Node, Promise, Response, Sync, Text
from pasta.lang.checker import MIN_BLOCK_WORDS
from pasta.lang.printer import plain_text
from pasta.text.lists import FEW, begins_with_marker, ends_with_marker, items
from pasta.text.overlap import overlap, share_a_run
from pasta.text.sentences import first_sentence, has_end
from pasta.text.words import content_words, count_words, stem

MAX_BLOCKS = 5  # unless more are asked for: a small model has no more to say, and says the first again
MAX_SHARED_WORDS = 0.4  # of the telling words of the shorter of two siblings, beyond those of the prompt
MAX_SHARED_AT_ALL = 0.5  # with those of the prompt
MAX_SHARED_RUN = 6  # words that two siblings may have in a row
MAX_BLOCK_SHARE = 0.7  # of the words of all siblings: one long block beside short ones saves nothing

_POINTS = re.compile(
    r"\b(?:the|see|listed|described|mentioned) (?:above|below)\b|\b(?:above|afore)-?mentioned|"
    r"\b(?:previous|preceding|earlier|above) (?:step|section|point|example|item|paragraph|method|option|one)s?\b|"
    r"\b(?:mentioned|discussed|stated|noted) (?:earlier|previously|before)|\bas (?:mentioned|noted|stated|discussed)\b|"
    r"\b(?:first|second|third|last|final|next) (?:step|item|point)\b|\bstep \d|\bthe other (?:one|two)\b|"
    r"\b(?:these|those) (?:steps|items|points)\b",
    re.IGNORECASE,
)
_THIS = re.compile(r"\b(?:this|these|those|such(?! as)|the same)\b", re.IGNORECASE)
#: These go on without leaning on a sibling: what they add would stand without it.
_ADDS = re.compile(r"\W*(?:additionally|furthermore|moreover|in addition|another|besides|also)\b", re.IGNORECASE)
_HOW = re.compile(
    r"\b(?:how (?:do|does|can|to|should|would)|steps?|recipe|instructions?|procedure|process|guide|schedule|itinerary|"
    r"timeline|algorithm|outline|summary|summari[sz]e|history|plot)\b",
    re.IGNORECASE,
)
_NUMBERS = {word: n for n, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)}
_ASKED = re.compile(
    rf"\b(\d{{1,2}}|{'|'.join(_NUMBERS)})\s+(?:[a-z'-]+\s+){{0,3}}?[a-z]{{3,}}s\b(?!\s*(?:old|ago))", re.IGNORECASE
)


def flaw(prompt: str, response: Response) -> str | None:
    """Why an annotated answer would teach a bad habit; None where it does not."""
    for nodes in threads(response.nodes):
        siblings = [node for node in nodes if isinstance(node, Promise)]
        if not siblings:
            continue
        texts = [plain_text(promise.block or ()) for promise in siblings]
        found = (
            _flaw_of_topics([promise.topic for promise in siblings])
            or _flaw_of_blocks(texts, prompt)
            or _flaw_of_wording(texts, prompt)
            or _flaw_of_parent(nodes)
        )
        if found is not None:
            return found
    return _flaw_of_numbers(prompt, response)


def sound(prompt: str, response: Response) -> Response | str:
    """An annotated answer without a flaw: as it is, or a list up to the item before its first flaw; or that flaw."""
    found = flaw(prompt, response)
    if found is None:
        return response
    ends = [index + 1 for index, node in enumerate(response.nodes) if isinstance(node, Promise)]
    if form(response) == "list":
        for end in reversed(ends[FEW - 1 :]):
            if flaw(prompt, beginning := Response(response.nodes[:end])) is None:
                return beginning
    return found


def threads(nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
    """Each thread's own nodes, the main one's first."""
    yield nodes
    for node in nodes:
        if isinstance(node, Promise):
            yield from threads(node.block or ())


def form(response: Response) -> str:
    """What its first block is part of: `list`, `sections`, `paragraphs` or `sentences`; `sequential` without one."""
    before = ""
    for node in response.nodes:
        if isinstance(node, Promise):
            if ends_with_marker(before):
                return "list"
            if before.rstrip(" ").endswith("#"):
                return "sections"
            return "paragraphs" if not before or before.endswith("\n") else "sentences"
        before = before + node.text if isinstance(node, Text) else before
    return "sequential"


def asked_for(prompt: str) -> int | None:
    """How many things a prompt asks for: "Name five rivers"."""
    asked = {_NUMBERS.get(number.casefold()) or int(number) for number in _ASKED.findall(prompt)}
    return asked.pop() if len(asked) == 1 else None


# -- the flaws ----------------------------------------------------------------------------------------


def _flaw_of_topics(topics: Sequence[str]) -> str | None:
    telling = [{stem(word) for word in content_words(topic) if not is_vague(word)} for topic in topics]
    if not all(telling):
        return "a topic that fits any block"
    if not all(map(reads_well, topics)):
        return "a topic that reads badly"
    uses = Counter(stem(word) for topic in topics for word in content_words(topic))
    alike = [(one, other) for at, one in enumerate(telling) for other in telling[:at] if one & other]
    # "Data collection" and "Data analysis" may stand in a list, once; "Data" and "Data analysis" may not.
    if len(alike) > 1 or any(one <= other or other <= one for one, other in alike) or max(uses.values()) > 3:
        return "two topics share a word"
    return None


def is_vague(word: str) -> bool:
    return word.casefold() in GENERIC or word.isdigit() or word.endswith("ly")


def _flaw_of_blocks(texts: Sequence[str], prompt: str) -> str | None:
    if len(texts) < 2:
        return "a single block"
    if len(texts) > MAX_BLOCKS and len(texts) != asked_for(prompt):
        return f"more than {MAX_BLOCKS} blocks"
    lengths = [count_words(text) for text in texts]
    if min(lengths) < MIN_BLOCK_WORDS:
        return "a block of a few words"
    if max(lengths) > MAX_BLOCK_SHARE * sum(lengths):
        return "one block is most of the text"
    for at, text in enumerate(texts):
        title = title_of(text)
        body = text.split(title, 1)[1] if title else text
        leans = follows(body) if title else leans_back(text) and not (at and _ADDS.match(text))
        # A titled block may say "this" of its title; what would it mean in the first words of another?
        leans = leans or (not title and _THIS.search(_first_words(text)) is not None)
        if leans or follows(text) or _POINTS.search(body):
            return "a block leans on another"
        if not title and concludes(text):
            return "a conclusion among the blocks"
        if not has_end(text):
            return "a block without an end"
    if _HOW.search(prompt) and not all(map(title_of, texts)):
        return "steps without titles"
    return None


def _first_words(text: str) -> str:
    """Those of the first sentence alone: "This" in the second one is said of the first."""
    return " ".join(first_sentence(text).partition(": ")[0].split()[:8])


def _flaw_of_wording(texts: Sequence[str], prompt: str) -> str | None:
    for at, text in enumerate(texts):
        for earlier in texts[:at]:
            if overlap(text, earlier, prompt) > MAX_SHARED_WORDS or overlap(text, earlier) > MAX_SHARED_AT_ALL:
                return "two blocks share their words"
            if share_a_run(text, earlier, MAX_SHARED_RUN + 1):
                return "two blocks share a phrase"
    heads = [" ".join(text.casefold().split()[:2]) for text in texts]
    return "two blocks begin alike" if len(set(heads)) < len(heads) else None


def _flaw_of_parent(nodes: Sequence[Node]) -> str | None:
    """What stands between the blocks and after them."""
    waits = True
    for node, after in pairwise((*nodes, Text(""))):
        if isinstance(node, Promise) and isinstance(after, Text | Sync):
            waits = False
        waits = waits or isinstance(node, Sync)
        if isinstance(node, Text) and not isinstance(after, Promise) and node.text.strip():
            if not waits:
                return "text after the blocks that does not wait for them"
            if begins_with_marker(node.text):
                return "an item is left over"
    return None


def _flaw_of_numbers(prompt: str, response: Response) -> str | None:
    text = plain_text(response.nodes)
    at_the_margin = [item for item in items(text) if text[item.start] not in " \t"]
    numbers = [item.number for item in at_the_margin if item.number is not None]
    if any(after not in (before + 1, 1) for before, after in pairwise([0, *numbers])):
        return "numbers out of order"
    asked = asked_for(prompt)
    if form(response) == "list" and asked and asked not in (len(list(response.promises())), *numbers[-1:]):
        return "not as many items as were asked for"
    return None
