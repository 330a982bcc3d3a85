"""Made-up responses with real structure, to replay: several threads, syncs, text between and after."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pasta.core.positions import Positions
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item, Tree, flatten


def make_responses(
    count: int, tags: Tags, words: Sequence[int], seed: int = 0, threads: tuple[int, int] = (4, 12)
) -> list[Tree]:
    """Of random words: an introduction, promises with a little text between, a sync, a conclusion; some do it twice."""
    draw = random.Random(seed)

    def text(low: int, high: int) -> list[int]:
        return [draw.choice(words) for _ in range(draw.randint(low, high))]

    def promises(number: int) -> list[Item]:
        items: list[Item] = []
        for _ in range(number):
            body = (tags.open, *text(12, 40), tags.close)
            length = tags.of_tens(Positions().length(len(body)))
            items += [*text(1, 3), tags.promise, *text(1, 3), length, Block(body)]
        return items

    responses = []
    for _ in range(count):
        number = draw.randint(*threads)
        first = number if draw.random() < 0.7 else number // 2
        items: list[Item] = [*text(5, 20), *promises(first), tags.sync, *text(10, 30)]
        if first < number:
            items += [*promises(number - first), tags.sync, *text(5, 15)]
        responses.append(tuple(items))
    return responses


def plain_tokens(tree: Tree, tags: Tags) -> Tree:
    """The same response as one sequence: no tags, no topics."""
    tokens: list[Item] = []
    in_topic = False
    for token in flatten(tree):
        in_topic = token == tags.promise or (in_topic and token not in tags)
        if token not in tags and not in_topic:
            tokens.append(token)
    return tuple(tokens)
