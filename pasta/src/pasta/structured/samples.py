"""A short text that a regular expression matches."""

from __future__ import annotations

import re

TRIED = "a1A-_. /"
CLASSES = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}  # a letter of each
LETTERS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
CODES = {"x": 2, "u": 4}  # hexadecimal digits
LOOKS = re.compile(r"<?[=!]")  # behind `(?`: what is looked ahead or back at
OPENS = re.compile(r"\?(?::|P?<\w+>)")
COUNT = re.compile(r"\{(\d*)(?:,\d*)?\}")
MOST = 10_000  # letters


def sample(pattern: str) -> str | None:
    """None where the expression is not understood. It is a guess: what it looks ahead or back at is passed over."""
    try:
        re.compile(pattern)
        reader = _Reader(pattern)
        text = reader.branches()
    except (re.error, RecursionError, OverflowError, ValueError):
        return None
    return text if reader.at == len(pattern) else None


class _Reader:
    """Reads an expression that compiles, from left to right; each part gives its text."""

    def __init__(self, pattern: str):
        self.pattern, self.at = pattern, 0

    def branches(self) -> str:
        """Up to the end of a group: the shortest of what stands between bars."""
        texts = [self._row()]
        while self._take("|"):
            texts.append(self._row())
        return min(texts, key=len)

    def _row(self) -> str:
        texts = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            texts.append(self._repeated(self._one()))
        return "".join(texts)

    def _one(self) -> str:
        letter = self._next()
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._one_of()
            case "\\":
                return self._escaped()
            case ".":
                return "a"
            case "^" | "$":
                return ""
            case _:
                return letter

    def _repeated(self, text: str) -> str:
        """As often as it must be."""
        if self._take("*") or self._take("?"):
            text = ""
        elif counted := self._match(COUNT):
            least = int(counted[1] or 0)
            if least * len(text) > MOST:
                raise ValueError("too long")
            text *= least
        elif not self._take("+"):
            return text
        if not self._take("?"):  # as few as may be
            self._take("+")  # or without a way back
        return text

    def _group(self) -> str:
        self._match(OPENS)
        looks = self._take("?")
        if looks and not self._match(LOOKS):
            raise ValueError("flags, conditions, atoms")
        text = self.branches()
        if not self._take(")"):
            raise ValueError("no end")
        return "" if looks else text

    def _one_of(self) -> str:
        """A letter of a set: the first of those that it names, or one that it does not."""
        start = self.at
        negated = self._take("^")
        self._take("]")
        while (letter := self._next()) != "]":
            if letter == "\\":
                self._next()
        if negated:
            every = re.compile(self.pattern[start - 1 : self.at])
            return next((letter for letter in TRIED if every.match(letter)), "")
        first = self.pattern[start]
        if first != "\\":
            return first
        end, self.at = self.at, start + 1
        text = self._escaped()
        self.at = end
        return text

    def _escaped(self) -> str:
        letter = self._next()
        if letter in CLASSES:
            return CLASSES[letter]
        if letter in CODES:
            digits = self.pattern[self.at : self.at + CODES[letter]]
            self.at += len(digits)
            return chr(int(digits, 16))
        if letter in LETTERS:
            return LETTERS[letter]
        if letter in "bBAZ":
            return ""
        if letter.isalnum():
            raise ValueError("what stood before, or a name")
        return letter

    def _next(self) -> str:
        if self.at == len(self.pattern):
            raise ValueError("no end")
        self.at += 1
        return self.pattern[self.at - 1]

    def _take(self, letter: str) -> bool:
        found = self.pattern.startswith(letter, self.at)
        self.at += found
        return found

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.at)
        self.at += len(found[0]) if found else 0
        return found
