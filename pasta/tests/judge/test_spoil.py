"""Each way of spoiling does what it says, and no more."""

import random

import pytest

from pasta.judge.spoil import KINDS, OFF_TOPIC, cut, double, loop, repeat_items, shuffle, spoil, stub, swap_items

LIST = """Three things help a garden grow.

1. Light: most plants want six hours of it every day.
2. Water: a little each morning is better than much at once.
3. Soil: loose earth lets the roots breathe.

With these, it will do well. Ask a neighbour for more. They know the ground. It is theirs too."""


@pytest.mark.parametrize("seed", range(5))
def test_each_kind(seed):
    rng = random.Random(seed)
    short = cut(LIST, rng)
    assert LIST.startswith(short) and 0.15 < len(short) / len(LIST) < 0.75 and short[-1].isalnum()
    assert LIST.startswith(stub(LIST, rng).split()[0]) and len(stub(LIST, rng).split()) <= 8
    looped = loop(LIST, rng)
    last = looped.rstrip().splitlines()[-1].split(". ")[-1].strip(". ")
    assert looped.count(last) >= 2
    doubled = double(LIST, rng)
    assert len(doubled) > len(LIST) and set(doubled.split("\n\n")) == set(LIST.split("\n\n"))
    repeated = repeat_items(LIST, rng)
    bodies = [line[3:] for line in repeated.splitlines() if line[:1].isdigit()]
    assert len(bodies) == 3 and len(set(bodies)) < 3
    swapped = swap_items(LIST, rng)
    assert "1. Light: a little each morning" in swapped and "3. Soil: most plants" in swapped
    assert sorted(swapped.replace("\n", " ").split()) == sorted(LIST.replace("\n", " ").split())
    mixed = shuffle(LIST, rng)
    assert mixed != LIST and sorted(mixed) == sorted(LIST)


def test_what_cannot_be_spoiled_is_left():
    rng = random.Random(0)
    assert repeat_items("No list here, not one.", rng) is None
    assert swap_items("1. a\n2. b\n3. c", rng) is None
    assert shuffle("One. Two.", rng) is None
    assert cut("word", rng) is None
    assert spoil("Yes.", rng, "elsewhere") == (OFF_TOPIC, "elsewhere")
    assert spoil("Yes.", rng, "elsewhere", "cut") is None


def test_every_kind_comes_up():
    rng = random.Random(0)
    assert {spoil(LIST, rng, "elsewhere")[0] for _ in range(100)} == set(KINDS)
