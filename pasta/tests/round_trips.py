"""Random texts and responses, and what must hold of them through a vocabulary."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence

from pasta.core.detokenizer import Detokenizer
from pasta.core.tags import TAGS
from pasta.core.tree import Block, Tree, read, spell
from pasta.core.vocabulary import SPACE, Vocabulary
from pasta.lang import Node, Promise, Response, Sync, Text, plain

WORDS = "the The a Banana bananas yellow it's don't I'll 1. 2) 42 3.14 2026 x=y [INST] </s> <0x0A> — … “so”".split()
OTHERS = (
    "naïve café Straße Ελλάδα привет мир שלום مرحبا नमस्ते 日本語のテキスト 한국어 👍🏽 👩‍👩‍👧‍👦 🇫🇷 ∑∞ ﬁ Å \u00e5".split()
)
GAPS = [
    " ",
    " ",
    " ",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\n- ",
    "\t",
    " \n",
    "\u00a0",
    "\u200b",
    "\r\n",
    ", ",
    ". ",
    ": ",
    "",
]


def random_text(source: random.Random) -> str:
    """Words of many alphabets and any space between them; now and then any characters at all."""
    pieces: list[str] = []
    for _ in range(source.randint(1, 24)):
        match source.randrange(12):
            case 0:
                pieces.append(source.choice(OTHERS))
            case 1:
                pieces.append("".join(source.choices(string.ascii_letters + string.digits, k=source.randint(1, 8))))
            case 2 if source.random() < 0.5:
                pieces.append("".join(map(chr, source.choices(CODE_POINTS, k=source.randint(1, 4)))))
            case 3 if source.random() < 0.3:
                pieces.append(source.choice([*TAGS, SPACE, "\\", "▁▂▃", "<s>", "<|im_end|>", "e\u0301"]))
            case _:
                pieces.append(source.choice(WORDS))
        pieces.append(source.choice(GAPS))
    return "".join(pieces[source.randrange(2) : None if source.random() < 0.5 else -1])


CODE_POINTS = [*range(0x20), *range(0x7F, 0x3000), *range(0xFE00, 0xFFFE), *range(0x1F300, 0x1FB00)]


def random_response(text: str, source: random.Random, depth: int = 0) -> tuple[Node, ...]:
    """The text with tags at random places."""
    places = sorted(source.randint(0, len(text)) for _ in range(source.choice([0, 2, 2, 4])))
    nodes: list[Node] = []
    at = 0
    for start, end in zip(places[::2], places[1::2], strict=True):
        block = text[start:end]
        inner = random_response(block, source, depth + 1) if depth < 2 else (Text(block),)
        topic = source.choice(["salt", "the herbs", "it's", "é", "日本", "one two three"])
        nodes += [Text(text[at:start]), Promise(topic, source.randint(1, 99), inner)]
        if source.random() < 0.4:
            nodes.append(Sync())
        at = end
    return (*nodes, Text(text[at:]))


def streamed(vocabulary: Vocabulary, ids: Sequence[int], lead: str = "") -> str:
    detokenizer = Detokenizer(vocabulary.octets, lead)
    return "".join(map(detokenizer.push, ids)) + detokenizer.flush()


def check_text(vocabulary: Vocabulary, text: str) -> None:
    """A text comes back to the letter, at once and token by token."""
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert streamed(vocabulary, ids) == text


def check_response(vocabulary: Vocabulary, prompt: Sequence[int], response: Response) -> None:
    assert read(spell(response, vocabulary, prompt), vocabulary, prompt) == response


def check_plain_tokens(vocabulary: Vocabulary, question: str, response: Response) -> int:
    """The response comes back; away from tags, its tokens are those that the chat template's own text has there.

    The template's tokens are the tokenizer's, with nothing of this project in between. Returns how many were compared.
    """
    user = {"role": "user", "content": question}
    prompt, text = vocabulary.encode_chat([user]), plain(response)
    expected = vocabulary.tokenizer.apply_chat_template(
        [user, {"role": "assistant", "content": text}], return_dict=False
    )
    assert expected[: len(prompt)] == prompt
    lead = vocabulary.lead(prompt)
    length = len((lead + text).encode())
    tree = spell(response, vocabulary, prompt)
    assert read(tree, vocabulary, prompt) == response
    begins_with_tag = isinstance(response.nodes[0], Promise | Sync)  # then there is no lead
    ours, edges = spans_of(tree, vocabulary, len(lead) if begins_with_tag else 0)
    zones = [zone(lead + text, edge) for edge in edges]
    compared = at = 0
    for token in expected[len(prompt) :]:
        start, at = at, at + len(vocabulary.octets[token])
        if at > length:
            break
        if not any(start < last and first < at for first, last in zones):
            assert (start, at, token) in ours, (vocabulary.decode([token]), lead + text)
            compared += 1
    return compared


def spans_of(tree: Tree, vocabulary: Vocabulary, at: int) -> tuple[set[tuple[int, int, int]], list[int]]:
    """Where each token of text lies in the text's bytes, and where tags stand."""
    tags = vocabulary.tags
    assert tags is not None
    spans: set[tuple[int, int, int]] = set()
    edges: list[int] = []
    topic = False

    def flat(items: Tree) -> Iterator[int]:
        for item in items:
            if isinstance(item, Block):
                yield from flat(item.items)
            else:
                yield item

    for token in flat(tree):
        if token in tags:
            topic = token == tags.promise
            edges.append(at)
        elif not topic:
            spans.add((at, at + len(vocabulary.octets[token]), token))
            at += len(vocabulary.octets[token])
    return spans, edges


def zone(text: str, edge: int) -> tuple[int, int]:
    """The bytes around a tag whose tokens it may change: two words on each side, since some tokens hold a space."""
    at = len(text.encode()[:edge].decode())
    first = last = at
    for skips_spaces in (True, False, True, False, True):
        while first > 0 and text[first - 1].isspace() == skips_spaces:
            first -= 1
        while last < len(text) and text[last].isspace() == skips_spaces:
            last += 1
    return len(text[:first].encode()), len(text[:last].encode())
