"""What a training will do, said before it begins."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pasta.clock import Pace
from pasta.core.layout import Layout
from pasta.core.vocabulary import Vocabulary
from pasta.data.rows import Row
from pasta.train.answers import prompt_of
from pasta.train.examples import Examples

SHOWN = 5  # reasons for leaving rows out


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The examples in figures."""

    source: str
    examples: int
    tagged: int  # that have tags
    threads: int  # that those open beside their main ones
    tokens: int
    targets: int  # of those, the ones that are learned
    refused: dict[str, int]

    @classmethod
    def of(cls, source: str, examples: Examples, vocabulary: Vocabulary) -> DataPlan:
        forks = [forks_of(layout, vocabulary) for layout in examples.layouts]
        return cls(
            source,
            len(forks),
            sum(count > 0 for count in forks),
            sum(forks),
            sum(len(layout.ids) for layout in examples.layouts),
            sum(target >= 0 for layout in examples.layouts for target in layout.targets),
            dict(examples.refused),
        )

    def lines(self, purpose: str = "learned") -> Iterator[str]:
        """`purpose`: what happens to the tokens that are the model's to write."""
        yield (
            f"{self.source}: {count(self.examples, 'example')}, {self.tagged} with tags ({self.threads} threads), "
            f"{self.tokens:,} tokens, {self.targets:,} of them {purpose}"
        )
        reasons = Counter(self.refused).most_common()
        for reason, rows in reasons[:SHOWN]:
            yield f"left out {count(rows, 'row')}: {reason}"
        if others := sum(rows for _, rows in reasons[SHOWN:]):
            yield f"left out {count(others, 'row')}: other reasons"


def counted(source: str, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows as they are; now and then a line says how many were read, since a tokenizer takes its time."""
    pace = Pace()
    for number, row in enumerate(rows, start=1):
        yield row
        if pace.is_due():
            print(f"{source}: {count(number, 'row')} read", file=sys.stderr, flush=True)


def no_tags(plan: DataPlan) -> str | None:
    """A warning, where nothing in the data would teach a model to fork."""
    if plan.tagged:
        return None
    return (
        f"warning: none of the {plan.examples} answers in {plan.source} has tags: the model will not learn to decode "
        "in parallel (mark what is independent first: pasta annotate IN OUT)"
    )


def leak(source: str, trained: Sequence[Layout], held_out: Sequence[Layout]) -> str | None:
    """A warning, where held-out prompts are trained on too."""
    known = {tuple(prompt_of(layout)) for layout in trained}
    also = sum(tuple(prompt_of(layout)) in known for layout in held_out)
    if not also:
        return None
    return (
        f"warning: of the {count(len(held_out), 'held-out prompt')} in {source} {also} are trained on too: the figures "
        "on these say little about others (take them out of one of the two files)"
    )


def forks_of(layout: Layout, vocabulary: Vocabulary) -> int:
    return 0 if vocabulary.tags is None else layout.ids.count(vocabulary.tags.open)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def work_line(rows: Sequence[Sequence[Layout]], steps: int, rows_a_step: int, processes: int, device: str) -> str:
    width = max(sum(len(layout.ids) for layout in row) for row in rows)
    machines = f"{processes} processes, {device}" if processes > 1 else device
    return (
        f"{count(len(rows), 'row')} of up to {width} tokens, {count(steps, 'step')} of {count(rows_a_step, 'row')}; "
        f"{machines}"
    )
