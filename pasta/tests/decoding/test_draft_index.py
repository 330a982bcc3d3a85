"""The index of drafts against a search through everything, and what a drafter guesses."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from pasta.decoding.drafts import MAX_DRAFT, PRIOR, SIZES, Drafter, Match, SuffixIndex

Texts = list[list[int]]


def search(history: list[tuple[int, int]], texts: Texts, text: list[int]) -> tuple[list[int], int, int] | None:
    """The most recent place, in the order of `history` (text, place), before which the last tokens stand as well."""
    for size in SIZES:
        for number, place in reversed(history):
            if len(text) >= size and place >= size and texts[number][place - size : place] == text[-size:]:
                return texts[number], place, size
    return None


@pytest.mark.parametrize("seed", range(60))
def test_finds_what_a_search_finds(seed: int) -> None:
    """Texts that grow in turns, of few tokens, so that they repeat themselves and each other."""
    rng = random.Random(seed)
    alphabet = rng.choice([1, 2, 3, 6, 20])
    index, texts, history = SuffixIndex(), [[] for _ in range(rng.randint(1, 4))], []
    found = 0
    for _ in range(120):
        number = rng.randrange(len(texts))
        expected = search(history, texts, texts[number])
        match = index.find(texts[number])
        assert match == (None if expected is None else Match(*expected))
        assert match is None or match.text is expected[0]
        found += match is not None
        history.append((number, len(texts[number])))
        index.append(texts[number], rng.randrange(alphabet))
    assert found > (30 if alphabet < 6 else 0)


@pytest.mark.parametrize("seed", range(30))
def test_guesses_are_how_something_went_on(seed: int) -> None:
    """A guess continues the thread as its last tokens continued before, without a token that ends a text."""
    rng = random.Random(seed)
    prompt = [rng.randrange(4) for _ in range(30)]
    drafter = Drafter(prompt, ends={9})
    texts = {0: list(prompt)}
    guessed = 0
    for _ in range(200):
        thread = rng.choice(list(texts))
        if len(texts) < 4 and rng.random() < 0.05:
            child = len(texts)
            drafter.fork(thread, child)
            texts[child] = texts[thread][-max(SIZES) :]
            continue
        token = rng.choice([0, 1, 2, 3, 3, 9])
        drafter.put(thread, token)
        texts[thread].append(token)
        for each, text in texts.items():
            guess = drafter.draft(each, MAX_DRAFT, 0.0).tokens
            assert len(guess) <= MAX_DRAFT and 9 not in guess
            for length in range(1, len(guess) + 1):
                assert occurs(text[-min(SIZES) :] + guess[:length], texts, text + guess)
            guessed += len(guess)
    assert guessed > 300


def occurs(run: list[int], texts: dict[int, list[int]], own: list[int]) -> bool:
    """Somewhere but at the very end of the text that it is guessed for."""
    places = chain(texts.values(), [own[:-1]])
    return any(run == text[i : i + len(run)] for text in places for i in range(len(text) - len(run) + 1))


def test_siblings_help_each_other() -> None:
    drafter = Drafter([1, 2, 3], ends={100})
    for thread in (1, 2):
        drafter.put(0, 50 + thread)
        drafter.put(0, 60)
        drafter.fork(0, thread)
        drafter.put(thread, 100)
    for token in (7, 8, 9, 10, 11):
        drafter.put(1, token)
    assert drafter.draft(2, 8, 0.0).tokens == [7, 8, 9, 10, 11]  # both began after the same two tokens
    assert drafter.draft(2, 2, 0.0).tokens == [7, 8]
    assert drafter.draft(1, 8, 0.0).tokens == []


def test_a_text_that_repeats_itself_is_followed_beyond_its_end() -> None:
    drafter = Drafter([5, 6, 5, 6, 5], ends=())
    assert drafter.draft(0, 8, 0.0).tokens == [6, 5, 6, 5, 6, 5, 6, 5]


def test_odds_decide_how_far() -> None:
    """Guesses that come true grow, those that do not shrink to nothing, and come back once they would be right."""
    cycle = list(range(10, 30))
    drafter = Drafter(cycle + cycle[:3], ends=())
    lengths = []
    for token in cycle[3:] + cycle * 3:
        lengths.append(len(drafter.draft(0, 8, 0.2).tokens))
        drafter.put(0, token)
    assert lengths[0] < lengths[-1] == MAX_DRAFT
    rng = random.Random(0)
    for _ in range(400):
        drafter.put(0, rng.randrange(10, 13))
    shy = sum(len(drafter_guess(drafter, rng)) for _ in range(50)) / 50
    assert shy < 1.5
    for token in cycle * (len(PRIOR) + 10):
        drafter.put(0, token)
    assert len(drafter.draft(0, 8, 0.2).tokens) == MAX_DRAFT


def drafter_guess(drafter: Drafter, rng: random.Random) -> list[int]:
    drafter.put(0, rng.randrange(10, 13))
    return drafter.draft(0, 8, 0.4).tokens
