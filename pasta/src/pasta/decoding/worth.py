"""Whether threads are worth their tags, where many requests share the steps.

In each step an answer with threads decodes `rows` tokens on average, of which `text` are text and the rest tags and
topics. A plain answer decodes one, and it is text. With T(rows), the time that a step takes, threads give `users`

    text · T(users) / T(users · rows)

times as much text in the same time. Where a step waits for memory, and more rows make it hardly longer, that is near
`text`, about two. Where a step is nothing but its rows it is text / rows, less than one: the machine is full, and each
tag takes the place of a word. Who comes then is better off with a plain answer, and so is everybody else.

All three are measured as the server runs. T is no line: steps are padded to certain sizes, and the host's work hides
behind the device's up to a point. So it is kept by sizes of steps, with prompts and whatever else belongs to them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from statistics import median

FEW = 8  # users, fewer than whom keep their threads, whatever these cost
LEAST = 1.1  # times as much text, that threads must promise: on an H200 the promise was off by up to a tenth
AGAIN = 1.2  # that they must promise after they were given up, so that answers do not change with every breath
ENOUGH_STEPS = 5  # of a size, before anything is concluded from them
ENOUGH_ANSWERS = 16
RATE = 0.02  # at which steps replace what was known of their size: the last fifty count
KEPT = 0.98  # of what is known of answers, with each that ends
SURPRISE = 2.0  # times what is known, for which a step counts at the most: one that compiles is no rule
FORGOTTEN = 20_000  # steps, after which what threads cost is found out anew: a minute or so on a GPU


@dataclass(slots=True)
class Size:
    """Steps of about the same number of rows."""

    rows: float = 0.0  # on average
    seconds: float = 0.0
    latest: int = 0  # step, by its number
    _first: list[tuple[int, float]] = field(default_factory=list)  # the middle one of these is what is known first

    @property
    def known(self) -> bool:
        return len(self._first) >= ENOUGH_STEPS

    def learn(self, rows: int, seconds: float, step: int) -> None:
        if step - self.latest > FORGOTTEN:
            self._first = []
        self.latest = step
        if self.known:
            self.rows += RATE * (rows - self.rows)
            self.seconds += RATE * (min(seconds, SURPRISE * self.seconds) - self.seconds)
            return
        self._first.append((rows, seconds))
        self.rows = sum(rows for rows, _ in self._first) / len(self._first)
        self.seconds = median(seconds for _, seconds in self._first)


class Worth:
    """What steps and answers have shown, and what follows for the next answer."""

    def __init__(self) -> None:
        self.full = False  # whether an answer that begins now is better off without threads
        self._sizes: dict[int, Size] = {}  # by the power of two that they go up to
        self._steps = 0
        self._answers = 0
        self._text = self._decoded = self._took = 0.0  # tokens, tokens, steps: sums over answers, the latest first

    def learn_step(self, rows: int, seconds: float) -> None:
        self._steps += 1
        size = _size(rows)
        if size not in self._sizes:
            self._sizes[size] = Size(latest=self._steps)
        self._sizes[size].learn(rows, seconds, self._steps)

    def learn_answer(self, text: int, decoded: int, steps: int) -> None:
        """Of one that forked, among others: its tokens of text, all of its tokens, and the steps that it took."""
        self._answers += 1
        self._text = KEPT * self._text + text
        self._decoded = KEPT * self._decoded + decoded
        self._took = KEPT * self._took + steps

    def decide(self, users: int, forking: int) -> bool:
        """Whether an answer that begins beside these is to be plain; `forking`: how many of them could have threads."""
        gain = self.gain(users, forking) if users >= FEW else None
        self.full = gain is not None and gain < (AGAIN if self.full else LEAST)
        return self.full

    def gain(self, users: int, forking: int) -> float | None:
        """How many times as much text all of them get with threads as without; None where not enough is known."""
        if self._answers < ENOUGH_ANSWERS or not self._took:
            return None
        rows, text = self._decoded / self._took, self._text / self._took
        plain = self._seconds(users)
        threads = self._seconds(users + forking * (rows - 1), after=self._steps - FORGOTTEN)
        if plain is None or threads is None:
            return None
        return (1 + forking / users * (text - 1)) * plain / threads

    def _seconds(self, rows: float, after: int = -1) -> float | None:
        """What a step of so many rows takes, as steps `after` this one have shown; None where they were all shorter.

        Nothing is concluded of a size below all that are known either.
        """
        known = {size: each for size, each in self._sizes.items() if each.known and each.latest > after}
        if not known or not min(known) <= _size(rows) <= max(known):
            return None
        points = sorted((each.rows, each.seconds) for each in known.values())
        index = bisect_left(points, (rows,))
        if index == 0 or len(points) == 1:
            return points[0][1]
        (low, short), (high, long) = points[index - 1 : index + 1] if index < len(points) else points[-2:]
        slope = (long - short) / (high - low)
        return short + (rows - low) * slope if rows <= high else long + (rows - high) * max(0.0, slope)


def _size(rows: float) -> int:
    """The power of two that so many rows go up to, by its exponent."""
    return (max(1, -int(-rows // 1)) - 1).bit_length()
