"""The rewards of answers to prompts that a model was not trained on, as a judge's folder keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pasta.data.rows import read_rows, write_rows
from pasta.judge.preferences import Contest, prompt_key

HELD_OUT = "held-out.jsonl"

Parts = Sequence[Sequence[Contest]]
Rewards = Sequence[Sequence[Sequence[float]]]  # by fold, prompt and answer
Key = tuple[str, str, int]  # of an answer: its prompt's, its model, and how many that model gave to the prompt before


def write_held_out(folder: Path, parts: Parts, rewards: Rewards) -> None:
    """A row for each answer; of a model's answers to one prompt, in the order of the data."""
    rows = [
        {"prompt": prompt_key(contest.prompt), "fold": k, "model": answer.model, "reward": round(reward, 5)}
        for k, part in enumerate(parts)
        for contest, values in zip(part, rewards[k], strict=True)
        for answer, reward in zip(contest.all_answers, values, strict=True)
    ]
    write_rows(str(folder / HELD_OUT), rows)


def read_held_out(folder: Path) -> dict[Key, float]:
    rows = list(read_rows(str(folder / HELD_OUT)))
    keys = _numbered((row["prompt"], row["model"]) for row in rows)
    return {key: row["reward"] for key, row in zip(keys, rows, strict=True)}


def keys_of(contests: Iterable[Contest]) -> Iterator[Key]:
    """Of all answers in turn, as the rows of `write_held_out` have them if the contests are in the same order."""
    return _numbered(
        (prompt_key(contest.prompt), answer.model) for contest in contests for answer in contest.all_answers
    )


def _numbered(pairs: Iterable[tuple[str, str]]) -> Iterator[Key]:
    seen: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        yield *pair, seen[pair]
        seen[pair] += 1
