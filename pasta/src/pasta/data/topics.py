"""Topics: at most three words that tell a block from its siblings.

A topic is decoded by the parent before anything can run beside it, so it is short; and it is all that a child
knows of what it is to write, so it is made of the block's own words, in the block's own spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from pasta.lang import MAX_TOPIC_WORDS, is_topic_character
from pasta.text.sentences import first_sentence
from pasta.text.words import STOPWORDS, TERM, content_words, stem

#: A title at the head of an item: **Title**: …, Title: …, Title - …
_TITLES = (
    re.compile(r"\s*(?:\*\*|__)(?P<title>[^*_\n]{2,80}?)[:.]?(?:\*\*|__)"),
    re.compile(r"\s*(?P<title>[^\s:.!?\n][^:.!?\n]{1,60}?):(?=\s|$)"),
    re.compile(r"\s*(?P<title>[^\s.!?\n][^.!?\n]{1,40}?) [-–—] "),
)

#: Words that fit any block: alone they do not say what this one is about.
GENERIC = frozenset(
    """ability across addition additional advantage advantages age allow allows amount amounts approach approaches
    around aspect aspects bad based become becomes becoming benefit benefits best better beyond big build
    building called case cases certain challenge challenges change changes choose choosing comes common concept
    concepts conclusion consideration considerations considered content context create creating crucial deal
    define depending depends detail details develop developing difference differences difficult due easy
    effective element elements enable enables encourage encourages enhance enhanced enhances essential event
    everyone everything example examples experience fact factor factors facts feature features final form forms
    general goal goals good great high idea ideas impact importance improve improved improves improving increase
    increased increases information introduction involves issue issues item items key kind kinds know known
    large level levels lies list little long look looking lot lots main major matter means mention method
    methods modern moves nature new notable number numbers numerous offer offering offers ones option options
    order overview part particular parts people perfect person piece place places plan plays point points
    popular possible potential practice problem problems process processes promote promotes purpose question
    questions range reality reason reasons recent recommend reduce reduced related remains remember requires
    result results right role said section sense set short side significant similar simple single situation
    small specific start starts step steps still story strategies strategy style suggest summary support
    supporting supports system term terms thing things time times tip tips today today's topic topics
    traditional type types understand unique useful utmost value variety vast vital ways wide words work works
    world year years""".split()
)
#: After these stands what a sentence speaks of; after those, what it does.
_BEFORE_NOUNS = frozenset(
    "the a an its their our your his her my of in for with on about from by between as every".split()
)
_BEFORE_VERBS = frozenset("to can could will would may might must should not we you they it who which that".split())
#: The last word of a name hardly ever ends so.
_NO_NOUN = re.compile(r"(?:ly|ous|ful|ive|able|ible|ed|ic|less|ish|ary)$", re.IGNORECASE)
#: What comes before one of these in the first words of a sentence is usually its subject.
_VERBS = frozenset(
    "is are was were has have had can could will would may might must should does do did means allows".split()
)


def reads_well(topic: str) -> bool:
    """Whether a topic that was decoded names something: a few words of which one tells, none of them cut off."""
    spoken = topic.split()
    if not 1 <= len(spoken) <= MAX_TOPIC_WORDS or not all(map(is_topic_character, topic)):
        return False
    if spoken[-1].casefold() in STOPWORDS or not spoken[-1][-1].isalnum():
        return False
    return any(word.casefold() not in GENERIC and not word.isdigit() for word in content_words(topic))


def choose_topics(blocks: Sequence[tuple[str, str]]) -> list[str] | None:
    """A topic for each sibling, given as (the annotator's proposal, the block's text); all different.

    A topic that shares no word with a sibling's goes before one that does. Returns None where the words do not
    tell the blocks apart: then they should not be blocks.
    """
    # A word that most siblings use tells none of them apart.
    shared = Counter(word for _, text in blocks for word in {word.casefold() for word in content_words(text)})
    chosen: list[str] = []
    taken: set[str] = set()
    said: set[str] = set()
    for proposal, text in blocks:
        candidates = _candidates(proposal, text, shared, common=max(1, len(blocks) // 2))
        new = (topic for topic in candidates if topic and topic.casefold() not in taken)
        if (topic := next(new, None)) is None:
            return None
        if not (proposal or title_of(text)):  # else the block begins with it, so it is the topic
            topic = next((other for other in chain([topic], new) if not said & words_of(other)), topic)
        taken.add(topic.casefold())
        said |= words_of(topic)
        chosen.append(topic)
    return chosen


def words_of(topic: str) -> set[str]:
    """The words of a topic that tell something, without their endings."""
    return {stem(word) for word in content_words(topic)}


def topic_of(text: str) -> str:
    """The topic of a text by itself, without siblings to be told from."""
    return next((topic for topic in _candidates("", text, Counter(), common=1) if topic), "")


def clean(topic: str) -> str:
    """At most three words, without markup, quotes or punctuation at the ends; empty where nothing is left."""
    words: list[str] = []
    bare = re.sub(r"\([^()]*\)", " ", topic)  # "Learning Management System (LMS)" needs no LMS
    for word in re.sub(r"[*_`#~|\"<>\\]", " ", bare if bare.strip() else topic).split():
        kept = "".join(filter(is_topic_character, word)).strip(".,:;!?()[]{}'’‘“”-–—/ ")
        if kept:
            words.append(kept)
    return " ".join(words if len(words) <= MAX_TOPIC_WORDS else _run(words))


def _run(words: Sequence[str]) -> Sequence[str]:
    """Of many words some that stand together, so that they read as words do: of "use plants for food" the last three.

    They neither begin nor end with a small word, and tell the most; the last such, since titles end with what they
    are about. Where one word tells alone, those before it stay with it ("be clear"), but for a preposition or an
    article at their head ("hike" of "for a hike").
    """
    small = [word.casefold() in STOPWORDS for word in words]
    ends = [index for index, is_small in enumerate(small) if not is_small]
    if len(ends) < 2:
        end = ends[0] + 1 if ends else MAX_TOPIC_WORDS
        start = max(0, end - MAX_TOPIC_WORDS)
        while start < end - 1 and words[start].casefold() in _BEFORE_NOUNS:
            start += 1
        return words[start:end]
    runs = [(start, end) for start in ends for end in ends if 0 <= end - start < MAX_TOPIC_WORDS]
    start, end = max(runs, key=lambda run: (small[run[0] : run[1] + 1].count(False), run[0]))
    return words[start : end + 1]


def title_of(text: str) -> str:
    """The title that an item begins with, or nothing."""
    for pattern in _TITLES:
        found = pattern.match(text)
        if found is not None and len(found["title"].split()) <= (12 if "*" in found[0] else 8):
            return found["title"]
    return ""


def _phrases(sentence: str) -> Iterator[tuple[list[str], float]]:
    """One to three telling words that stand together, and how much like a name they look: "gameplay mechanics", not
    "runs smoothly".
    """
    words = list(TERM.finditer(sentence))
    telling = [bool(content_words(word[0])) for word in words]
    joined = [sentence[one.end() : other.start()] == " " for one, other in pairwise(words)] + [False]
    for start in range(len(words)):
        before = words[start - 1][0].casefold() if start and joined[start - 1] else ""
        for end in range(start, min(start + MAX_TOPIC_WORDS, len(words))):
            if not telling[end] or (end > start and not joined[end - 1]):
                break
            goes_on = joined[end] and telling[end + 1]
            likeness = (1.3 if before in _BEFORE_NOUNS else 0.5 if before in _BEFORE_VERBS else 1.0) * (
                0.8 if goes_on else 1.2
            )
            if _NO_NOUN.search(words[end][0]):
                likeness *= 0.4
            yield [word[0] for word in words[start : end + 1]], likeness


def _candidates(proposal: str, text: str, shared: Counter[str], common: int) -> Iterator[str]:
    """Topics for a block, best first. `shared` counts the siblings that use a word; more than `common` is many."""
    here = [word for word in content_words(text) if not word.isdigit()]
    salience = Counter(word.casefold() for word in here)

    def weight(word: str) -> float:
        """How much a word tells: more if the block comes back to it, less for each sibling that has it too."""
        word = word.casefold()
        if word in GENERIC or shared[word] > common:
            return 0.0
        return min(salience[word], 3) ** 0.5 / max(1, shared[word])

    if proposal:
        yield clean(proposal)
    if title := title_of(text):
        yield clean(title)
    sentence = first_sentence(text)
    words = TERM.findall(sentence)
    for index, word in enumerate(words[:9]):
        if word.casefold() in _VERBS:
            subject = content_words(" ".join(words[:index]))[-MAX_TOPIC_WORDS:]
            is_one = not re.search(r"[,;:(]", sentence.split(word, 1)[0])
            if is_one and any(weight(word) >= 0.5 for word in subject):
                yield clean(" ".join(word for word in subject if shared[word.casefold()] <= common))
            break
    # A third word costs a step and tells little.
    ranked = sorted(
        (likeness * sum(map(weight, phrase)) - 0.5 * (len(phrase) > 2), -at, phrase)
        for at, (phrase, likeness) in enumerate(_phrases(sentence))
    )
    yield from (clean(" ".join(phrase)) for worth, _, phrase in reversed(ranked) if worth > 0)
    # The same words as a sibling's: look for those that only this block has.
    order = {word: index for index, word in reversed(list(enumerate(word.casefold() for word in here)))}
    best = sorted(salience, key=lambda word: (shared[word], -salience[word], order[word]))[:MAX_TOPIC_WORDS]
    spelled = {word.casefold(): word for word in here}
    yield clean(" ".join(spelled[word] for word in sorted(best, key=order.__getitem__)))
