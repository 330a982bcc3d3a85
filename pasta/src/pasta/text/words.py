"""The words of a text, in any script, and those among them that say what it is about."""

from __future__ import annotations

import re
from functools import lru_cache

#: Scripts that put no space between words: each sign counts as one.
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SIGNS = re.compile(rf"[{_SIGN}]")
_LETTER = rf"[^\W_{_SIGN}]"
WORD = re.compile(rf"[{_SIGN}]|{_LETTER}+")
#: A word with what may stand inside it: don't, e-mail, U.S, and/or.
TERM = re.compile(rf"[{_SIGN}]+|{_LETTER}+(?:['’.&/-]{_LETTER}+)*")
SHORT = 3  # letters: most words of so few bind others together, in most languages

#: English words that say nothing about what a text is about; in another language they are just words.
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


def words(text: str) -> list[str]:
    """In lower case, without what stands between or inside them."""
    return [word.casefold() for word in WORD.findall(text)]


def count_words(text: str) -> int:
    """How many words a text has, by the spaces between them; in a script without spaces each sign is one."""
    return sum(max(1, len(_SIGNS.findall(part))) for part in text.split())


def runs(text: str, length: int) -> list[tuple[str, ...]]:
    """So many words in a row, from each word on."""
    spoken = words(text)
    return list(zip(*(spoken[shift:] for shift in range(length)), strict=False))


def content_words(text: str) -> list[str]:
    """The words that say what a text is about, in order and as they are spelled."""
    return [word for word in TERM.findall(text) if len(word) > 1 and word.casefold() not in STOPWORDS]


def telling(text: str) -> frozenset[str]:
    """The words by which texts are compared: long enough to mean something by themselves, without their endings."""
    first, *more = map(_telling, text.split("\n"))  # no word goes on in the next line
    return first.union(*more) if more else first


@lru_cache(maxsize=2048)  # lines: each item of an answer is compared with all that stands before it
def _telling(line: str) -> frozenset[str]:
    spoken = (word for word in words(line) if (len(word) > SHORT or is_sign(word)) and word not in STOPWORDS)
    return frozenset(map(stem, spoken))


def is_sign(word: str) -> bool:
    """Whether this is one sign of a script without spaces."""
    return len(word) == 1 and re.fullmatch(rf"[{_SIGN}]", word) is not None


def stem(word: str) -> str:
    """A word without its ending, crudely: enough to see that two pieces use the same one."""
    word = word.casefold()
    for ending in ("'s", "’s", "ing", "ies", "es", "ed", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= SHORT:
            return word[: -len(ending)]
    return word
