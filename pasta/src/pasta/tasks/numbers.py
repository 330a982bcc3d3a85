"""Numbers in answers."""

from __future__ import annotations

import re

#: A minus between two numbers is no sign; a fraction is one number, also behind a whole one: 2 1/2.
NUMBER = re.compile(
    r"(?:(?<![\w)])[-−])?(?:\d+ (?=\d\d?/))?(?:\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+)(?:/[1-9]\d*(?![\d.,/]*/))?"
)
LATEX_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
#: The line that an answer is to end with.
STATED = re.compile(r"^[^\w\n]*answer(?P<stated>[^\w\n]*\d.*)$", re.MULTILINE | re.IGNORECASE)


def last_number(text: str) -> float | None:
    """What an answer comes to: as GSM8K is scored, its last number."""
    found = NUMBER.findall(without_latex(text))
    return value_of(found[-1]) if found else None


def stated_numbers(text: str) -> list[float]:
    """The numbers of all lines `Answer: N`, in order; of `Answer: 3 * 4 = 12`, what it comes to."""
    lines = (line.rpartition("=")[2] for line in STATED.findall(without_latex(text)))
    found = (NUMBER.search(line.replace("$", "")) for line in lines)
    return [value_of(number[0]) for number in found if number]


def final_number(text: str) -> float | None:
    """The last number that is stated as the answer; where none is, the last of all."""
    stated = stated_numbers(text)
    return stated[-1] if stated else last_number(text)


def without_latex(text: str) -> str:
    """Fractions and thousands as they are written elsewhere: 1/2 and 1,080, of \\frac{1}{2} and 1{,}080."""
    return LATEX_FRACTION.sub(r" \1/\2", text).replace("{,}", ",")


def value_of(digits: str) -> float:
    whole, _, part = digits.replace(",", "").replace("−", "-").rpartition(" ")
    above, _, below = part.partition("/")
    value = float(above) / float(below or 1)
    return float(whole) + (-value if whole.startswith("-") else value) if whole else value


def spelled(value: float) -> str:
    """As a person would write it: 72, 0.5."""
    return str(int(value)) if value == int(value) else f"{value:g}"
