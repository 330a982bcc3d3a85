"""Topics: at most three words that tell a block from its siblings.

A topic is decoded by the parent before anything can run beside it, so it is short; and it is all that a child
knows of what it is to write, so it is made of the block's own words, in the block's own spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pasta.lang import MAX_TOPIC_WORDS, is_topic_character

#: A title at the head of an item: **Title**: …, Title: …, Title - …
_TITLES = (
    re.compile(r"\s*(?:\*\*|__)(?P<title>[^*_\n]{2,80}?)[:.]?(?:\*\*|__)"),
    re.compile(r"\s*(?P<title>[^\s:.!?\n][^:.!?\n]{1,60}?):(?=\s|$)"),
    re.compile(r"\s*(?P<title>[^\s.!?\n][^.!?\n]{1,40}?) [-–—] "),
)
_WORD = re.compile(r"[^\W_]+(?:['’.&/-][^\W_]+)*")

#: Words that say nothing about what a text is about.
STOPWORDS = frozenset(
    """a about above after again against all also although always am among an and another any are aren't as at be
    because been before being below between both but by can can't cannot could couldn't did didn't do does doesn't
    doing don't down during each either else etc even ever every few first for from further get gets getting give
    gives go had has hasn't have haven't having he her here hers herself him himself his how however i i'd i'll i'm
    i've if in into is isn't it it's its itself just keep last let let's like likely made make makes making many may
    me might more most much must my myself neither next no nor not now of off often on once one only onto or other
    others our ours ourselves out over own please rather really same second see shall she should shouldn't since so
    some something such take takes taking than that that's the their theirs them themselves then there there's these
    they they're third this those though through thus to too toward towards under until up upon us use used uses
    using very via want was wasn't way we we're well were weren't what when where whether which while who whom whose
    why will with within without won't would wouldn't yes yet you you'll you're you've your yours yourself help helps
    helping include includes including provide provides providing ensure sure try consider start finally overall
    additionally furthermore moreover example instance important several various different able need needs""".split()
)
#: What comes before one of these in the first words of a sentence is usually its subject.
_VERBS = frozenset(
    "is are was were has have had can could will would may might must should does do did means allows".split()
)


def choose_topics(blocks: Sequence[tuple[str, str]]) -> list[str] | None:
    """A topic for each sibling, given as (the annotator's proposal, the block's text); all different.

    Returns None where the words do not tell them apart: then the blocks should not be blocks.
    """
    # A word that most siblings use tells none of them apart.
    shared = Counter(word for _, text in blocks for word in {word.casefold() for word in content_words(text)})
    chosen: list[str] = []
    taken: set[str] = set()
    for proposal, text in blocks:
        for topic in _candidates(proposal, text, shared, common=max(1, len(blocks) // 2)):
            if topic and topic.casefold() not in taken:
                break
        else:
            return None
        taken.add(topic.casefold())
        chosen.append(topic)
    return chosen


def topic_of(text: str) -> str:
    """The topic of a text by itself, without siblings to be told from."""
    return next((topic for topic in _candidates("", text, Counter(), common=1) if topic), "")


def clean(topic: str) -> str:
    """At most three words, without markup, quotes or punctuation at the ends; empty where nothing is left."""
    words: list[str] = []
    for word in re.sub(r"[*_`#~|\"<>\\]", " ", topic).split():
        kept = "".join(filter(is_topic_character, word)).strip(".,:;!?()[]{}'’‘“”-–—/ ")
        if kept:
            words.append(kept)
    if len(words) > MAX_TOPIC_WORDS:  # drop the small words first: "the art of pizza making" is about art, pizza
        telling = [word for word in words if word.casefold() not in STOPWORDS]
        words = telling or words
    return " ".join(words[:MAX_TOPIC_WORDS])


def title_of(text: str) -> str:
    """The title that an item begins with, or nothing."""
    for pattern in _TITLES:
        found = pattern.match(text)
        if found is not None and len(found["title"].split()) <= 8:
            return found["title"]
    return ""


def content_words(text: str) -> list[str]:
    """The words that say what a text is about, in order."""
    return [word for word in _WORD.findall(text) if len(word) > 1 and word.casefold() not in STOPWORDS]


def _phrase(sentence: str, shared: Counter[str], common: int) -> str:
    """Words that stand together and tell the block from its siblings: "friendly introduction", not "starts with"."""
    runs: list[list[str]] = [[]]
    end = 0
    for found in _WORD.finditer(sentence):
        word = found[0]
        if sentence[end : found.start()].strip(" ") or not content_words(word):
            runs.append([])
        if content_words(word):
            runs[-1].append(word)
        end = found.end()

    def rank(run: list[str]) -> tuple[int, int]:
        told = sum(shared[word.casefold()] <= common for word in run)
        return (min(told, 1), min(len(run), MAX_TOPIC_WORDS - 1))

    best = max(runs, key=rank)  # the first of the best
    return " ".join(best[-MAX_TOPIC_WORDS:]) if rank(best) == (1, MAX_TOPIC_WORDS - 1) else ""


def _candidates(proposal: str, text: str, shared: Counter[str], common: int) -> Iterator[str]:
    """Topics for a block, best first. `shared` counts the siblings that use a word; more than `common` is many."""

    def telling(words: Iterable[str]) -> list[str]:
        return [word for word in words if shared[word.casefold()] <= common]

    if proposal:
        yield clean(proposal)
    if title := title_of(text):
        yield clean(title)
    sentence = re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
    words = _WORD.findall(sentence)
    for index, word in enumerate(words[:9]):
        if word.casefold() in _VERBS:
            if subject := telling(content_words(" ".join(words[:index]))):
                yield clean(" ".join(subject[-MAX_TOPIC_WORDS:]))
            break
    if phrase := _phrase(sentence, shared, common):
        yield clean(phrase)
    yield clean(" ".join(telling(content_words(sentence))[:MAX_TOPIC_WORDS]))
    # The same words as a sibling's: look for those that only this block has.
    here = [word for word in content_words(text) if not word.isdigit()]
    salience = Counter(word.casefold() for word in here)
    order = {word: index for index, word in reversed(list(enumerate(word.casefold() for word in here)))}
    best = sorted(salience, key=lambda word: (shared[word], -salience[word], order[word]))[:MAX_TOPIC_WORDS]
    spelled = {word.casefold(): word for word in here}
    yield clean(" ".join(spelled[word] for word in sorted(best, key=order.__getitem__)))
