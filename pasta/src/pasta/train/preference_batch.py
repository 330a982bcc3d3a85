"""Pairs of responses as batches: both responses of a pair stand in the same row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch

from pasta.core.detokenizer import without_lead
from pasta.core.layout import IGNORE, Layout, lay_out
from pasta.core.positions import Positions
from pasta.core.vocabulary import Vocabulary
from pasta.data.batch import BLOCK, Shape, collate, pack_by_length
from pasta.train.examples import end_of_turn
from pasta.train.preference_loss import target_margin
from pasta.train.samples import Nested, unnest

Key = tuple[int, int]  # a sample's prompt and its number


@dataclass(frozen=True, slots=True)
class Response:
    """A prompt and one response to it, laid out."""

    key: Key
    layout: Layout
    log_prob: float = 0.0  # under the model that drew it


@dataclass(frozen=True, slots=True)
class Pair:
    best: Response
    worst: Response
    target: float

    @property
    def tokens(self) -> int:
        return len(self.best.layout.ids) + len(self.worst.layout.ids)

    @property
    def reference(self) -> float:
        return self.best.log_prob - self.worst.log_prob


class LayOut:
    """Lays samples out as they were drawn, token by token and with the lengths that they promised."""

    def __init__(self, vocabulary: Vocabulary, positions: Positions):
        self.vocabulary = vocabulary
        self.positions = positions
        self.end = end_of_turn(vocabulary)
        self._prompts: dict[str, list[int]] = {}

    def __call__(self, prompt: str, tokens: Nested, ended: bool, given: int = 0) -> Layout:
        """`given`: so many characters of the response are not learned."""
        end = self.end if ended else None  # what was cut off has no end to learn
        layout = lay_out(self._encoded(prompt), unnest(tokens), self.vocabulary.tags, self.positions, end)
        return behind(layout, self.within(prompt, tokens, given)) if given else layout

    def within(self, prompt: str, tokens: Nested, characters: int) -> int:
        """How many tokens lie within the first characters of a response's text, at most all before its first tag."""
        tags, lead = self.vocabulary.tags, self.vocabulary.lead(self._encoded(prompt))
        text = list(takewhile(lambda item: isinstance(item, int) and not (tags and item in tags), tokens))
        written = (without_lead(self.vocabulary.decode(text[: count + 1]), lead) for count in range(len(text)))
        return next((count for count, so_far in enumerate(written) if len(so_far) > characters), len(text))

    def _encoded(self, prompt: str) -> list[int]:
        if prompt not in self._prompts:
            self._prompts[prompt] = self.vocabulary.encode_chat([{"role": "user", "content": prompt}])
        return self._prompts[prompt]


def behind(layout: Layout, count: int) -> Layout:
    """The same without its first targets."""
    learned = [place for place, target in enumerate(layout.targets) if target != IGNORE]
    left_out = set(learned[:count])
    targets = (IGNORE if place in left_out else target for place, target in enumerate(layout.targets))
    return replace(layout, targets=tuple(targets))


def responses_of(rows: Iterable[Mapping[str, Any]], lay: LayOut) -> dict[Key, Layout]:
    """Both responses of each row of a file of pairs."""
    out: dict[Key, Layout] = {}
    for row in rows:
        for side in ("chosen", "rejected"):
            key = (row["index"], row[f"{side}_score"]["sample"])
            if key not in out:
                out[key] = lay(row["prompt"], row[f"{side}_tokens"], row[f"{side}_ended"], row.get(f"{side}_given", 0))
    return out


def pairs_of(
    rows: Iterable[Mapping[str, Any]],
    layouts: Mapping[Key, Layout],
    log_probs: Mapping[Key, float],
    max_length: int,
    margin: float = 0.0,
) -> list[Pair]:
    """The pairs of a file that fit into a row. Without a `margin`, own or given, the closed form for its samples."""
    pairs = []
    for row in rows:
        best, worst = (
            Response(key, layouts[key], log_probs.get(key, 0.0))
            for key in ((row["index"], row[f"{side}_score"]["sample"]) for side in ("chosen", "rejected"))
        )
        pairs.append(Pair(best, worst, row.get("margin") or margin or target_margin(row["n"])))
    return [pair for pair in pairs if pair.tokens <= max_length]


def split(pairs: Sequence[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """Those to train on, and those held out: by prompt, so that every weight and every round holds out the same."""

    def is_held(pair: Pair) -> bool:
        digest = hashlib.blake2b(str(pair.best.key[0]).encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") / 2**32 < share

    return [pair for pair in pairs if not is_held(pair)], [pair for pair in pairs if is_held(pair)]


def make_response_batch(rows: Sequence[Sequence[Layout]], least: Shape | None = None) -> dict[str, torch.Tensor]:
    """Tensors of some rows; `owners` says whose each target is, the responses of all rows counted on."""
    inputs = collate(rows, multiple=BLOCK if least else 8, least=least)
    learned = [sum(target != IGNORE for target in layout.targets) for row in rows for layout in row]
    return {**inputs, "owners": torch.arange(len(learned)).repeat_interleave(torch.tensor(learned))}


def make_pair_batch(rows: Sequence[Sequence[Pair]], least: Shape | None = None) -> dict[str, torch.Tensor]:
    """Both responses of each pair one after another, with the pair's reference and its target."""
    pairs = [pair for row in rows for pair in row]
    return {
        **make_response_batch([layouts_of(row) for row in rows], least),
        "reference": torch.tensor([pair.reference for pair in pairs]),
        "target": torch.tensor([pair.target for pair in pairs]),
    }


def pair_rows(pairs: Sequence[Pair], size: int, seed: int) -> list[list[Pair]]:
    return pack_by_length(pairs, lambda pair: pair.tokens, size, seed)


def layouts_of(row: Sequence[Pair]) -> list[Layout]:
    return [response.layout for pair in row for response in (pair.best, pair.worst)]
