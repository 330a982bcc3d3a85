from pasta.data.redundancy import kind, loops, most_overlap, repeated, shared, words


def test_blocks_that_say_the_same() -> None:
    one = "Drink water every morning before you eat anything."
    other = "Drink water every morning before you go to work."
    apart = "Bicycles need new brakes after a long winter outside."
    assert shared([one, apart]) == 0
    assert most_overlap([one, apart]) < 0.3
    # Four of each block's runs of three words stand in the other: "drink water every" … "morning before you".
    assert shared([one, other]) == 8 / 13
    assert most_overlap([one, other, apart]) > 0.7
    assert shared([]) == 0 and most_overlap([one]) == 0


def test_repetition_within_an_answer() -> None:
    assert repeated("one two three four") == 0
    assert repeated("a b c a b c") == 0.25  # abc, bca, cab, abc
    assert repeated("short") == 0
    assert loops("This line is here.\n" * 3) and not loops("This line is here.\nThat line is there.")


def test_kinds() -> None:
    assert kind("Here:\n1. a\n2. b\n3. c") == "list"
    assert kind("\n\n".join(["five words are in here"] * 3)) == "paragraphs"
    assert kind("A sentence.") == "plain"
    assert words("It's A_b!") == ["it", "s", "a", "b"]
