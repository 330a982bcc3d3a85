"""Words, list items, sentences, and what texts have in common; in more than one language."""

from __future__ import annotations

import time

import pytest

from pasta.text.lists import begins_with_marker, ends_with_marker, items, kind, numbered_lines
from pasta.text.overlap import loops, most_overlap, overlap, repeated, share, share_a_run, shared
from pasta.text.sentences import first_sentence, has_end, paragraphs, sentences
from pasta.text.words import STOPWORDS, content_words, runs, stem, telling, words


def test_words_of_any_script() -> None:
    assert words("It's A_b! Straße, ÉTÉ.") == ["it", "s", "a", "b", "strasse", "été"]
    assert words("東京は大きい。") == list("東京は大きい"), "a sign is a word where nothing stands between words"
    assert words("Москва́ и 3 реки") == ["москва", "и", "3", "реки"]
    assert runs("a b c d", 3) == [("a", "b", "c"), ("b", "c", "d")] and runs("a", 3) == []


def test_words_that_tell() -> None:
    assert content_words("The U.S. e-mail isn't about O'Neil") == ["U.S", "e-mail", "O'Neil"]
    assert telling("The rivers were walking to the sea") == {"river", "walk"}
    assert telling("Die Flüsse und die Wälder") == {"flüsse", "wälder"}, "short words bind, in German too"
    assert telling("東京") == {"東", "京"}
    assert stem("Cities") == "cit" and stem("is") == "is"


@pytest.mark.parametrize("mark", ["1.", "12)", "(3)", "-", "*", "+", "•", "–"])
def test_every_marker_is_one_everywhere(mark: str) -> None:
    [item] = items(f"Some:\n  {mark} Salt, pepper")
    assert item.content == "Salt, pepper" and (item.number is None) == (not any(map(str.isdigit, mark)))
    assert "Some:\n  " + mark == f"Some:\n  {mark} Salt, pepper"[: item.text_start].rstrip()
    assert ends_with_marker(f"Some:\n\n{mark} ") and ends_with_marker(mark) and not ends_with_marker(f"so {mark}")
    assert (
        begins_with_marker(f"\n {mark} Salt") and not begins_with_marker(f"{mark}") and not begins_with_marker("Salt")
    )
    assert kind("\n".join(f"{mark} {word}" for word in ("a", "b", "c"))) == "list"


def test_what_is_no_item() -> None:
    assert items("-5 degrees\n3.5 miles\n* \n1999. was a year\n**Bold** text\n---") == []
    assert numbered_lines("1.Salt\n**2.** Oil\n3) \nIn 4. place") == [(1, "Salt"), (2, "Oil"), (3, "")]


def test_sentences_and_paragraphs() -> None:
    assert sentences("One. Two!\nThree… Four") == ["One.", "Two!", "Three…", "Four"]
    assert sentences("一つ。二つ。") == ["一つ。", "二つ。"]
    assert first_sentence(" Salt is old. So is bread.") == "Salt is old."
    assert paragraphs("a\nb\n \nc\n\n\n\nd\n") == ["a\nb", "c", "d"]
    assert all(map(has_end, ("Done.", "```", "so:", "(yes) ", "終わり。"))) and not has_end("and then it")
    assert kind("\n\n".join(["five words are in here"] * 3)) == "paragraphs" and kind("A sentence.") == "plain"


def test_one_overlap_for_all() -> None:
    one = "Drink water every morning before you eat anything."
    other = "Drink water every morning before you go to work."
    apart = "Bicycles need new brakes after a long winter outside."
    assert overlap(one, apart) == 0 and overlap(one, one) == 1
    assert overlap(one, other) == overlap(other, one) == most_overlap([one, other, apart]) > 0.7
    assert share("Salt, bread", "salt, bread, cheese, butter") == 1
    assert share("salt, bread, cheese, butter", "Salt, bread") == 0.5
    assert overlap("The Nile is long.", "The Nile is wide.", known="Tell me about the Nile") == 0
    assert overlap("", one) == share("", "") == most_overlap([one]) == 0
    assert overlap("東京は大きい町です", "東京は大きい町です") == 1
    assert share_a_run("it is one of the most popular", "this is one of the best", 4)
    assert not share_a_run("it is one of the most popular", "this is one of the best", 5)
    assert shared([one, apart]) == 0 and shared([]) == 0
    # Four of each block's runs of three words stand in the other: "drink water every" … "morning before you".
    assert shared([one, other]) == 8 / 13


def test_repetition_within_a_text() -> None:
    assert repeated("one two three four") == 0 == repeated("short")
    assert repeated("a b c a b c") == 0.25  # abc, bca, cab, abc
    assert loops("This line is here.\n" * 3) and not loops("This line is here.\nThat line is there.")
    assert loops("一二三四五六七八九十。" * 5)


def test_what_tells_is_found_line_by_line() -> None:
    """Each line once: an answer of many items compares them all with each other."""
    text = "Rivers walking,\nto the\r\nsea 東京\u2028Wälder\n\nrivers\x0bseeing"
    one_by_one = {stem(word) for word in words(text) if (len(word) > 3 or word in "東京") and word not in STOPWORDS}
    assert telling(text) == one_by_one and telling("") == frozenset()


def test_many_items_are_compared_in_time() -> None:
    items = [
        f"The {number}th thing is called name{number} and does work{number % 50} for people." for number in range(900)
    ]
    begun = time.process_time()
    for start in range(0, 900, 3):
        known = "\n".join(items[:start])
        share(items[start + 1], items[start], known)
        share(items[start + 2], items[start] + "\n" + items[start + 1], known)
    assert time.process_time() - begun < 2
