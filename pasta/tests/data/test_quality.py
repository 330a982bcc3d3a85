import pytest

from pasta.data.quality import asked_for, flaw, form
from pasta.lang import parse

RIVERS = "The Nile carries mud from the mountains of Ethiopia down to a wide delta."
DESERTS = "Dry dunes wander under a burning sun, and nights are freezing cold."
FORESTS = "Tall beeches shade the ground, where foxes dig and mushrooms grow."


def answer(*blocks: tuple[str, str], before: str = "Some places:\n\n", after: str = "", numbers: bool = True) -> str:
    lines = [
        f'{f"{n}." if numbers else ""}<promise topic="{topic}" tokens=3/><async> {text}</async>'
        for n, (topic, text) in enumerate(blocks, 1)
    ]
    return before + "\n".join(lines) + after


GOOD = answer(("Rivers", RIVERS), ("Deserts", DESERTS), ("Forests", FORESTS))


def test_a_good_example_has_no_flaw() -> None:
    assert flaw("Which places?", parse(GOOD)) is None
    assert flaw("Which places?", parse(f"{GOOD}<sync/>\n\nThese are all worth a visit.")) is None
    assert flaw("Which places?", parse("No blocks at all.")) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (answer(("River", RIVERS), ("Rivers in Africa", DESERTS)), "two topics share a word"),
        (answer(("Rivers", RIVERS), ("key benefit", DESERTS)), "a topic that fits any block"),
        (answer(("Rivers", RIVERS)), "a single block"),
        (answer(("Rivers", RIVERS), ("Deserts", "Dry, mostly.")), "a block of a few words"),
        (answer(("Rivers", f"{RIVERS} {FORESTS} {DESERTS}"), ("Hills", "Mostly green, and not high.")), "one block is"),
        (answer(("Rivers", RIVERS), ("Deserts", f"Then the water is gone. {DESERTS}")), "a block leans on another"),
        (answer(("Rivers", RIVERS), ("Deserts", f"Not in these hills. {DESERTS}")), "a block leans on another"),
        (answer(("Rivers", RIVERS), ("Deserts", f"{DESERTS} See the previous item.")), "a block leans on another"),
        (answer(("Rivers", RIVERS), ("Deserts", DESERTS.rstrip("."))), "a block without an end"),
        (answer(("Rivers", RIVERS), ("Deserts", f"In conclusion, {DESERTS}")), "a conclusion among the blocks"),
        (answer(("Nile", RIVERS), ("Ethiopia", RIVERS.replace("Nile", "river"))), "two blocks share their words"),
        (f"{GOOD}\n\nThese are all worth a visit.", "text after the blocks that does not wait"),
        (f"{GOOD}<sync/>\n4. Lakes", "an item is left over"),
        (GOOD.replace("\n3.", "\n5."), "numbers out of order"),
    ],
)  # fmt: skip
def test_flaws_have_names(text: str, reason: str) -> None:
    found = flaw("Which places?", parse(text))
    assert found is not None
    assert found.startswith(reason)


def test_what_a_block_says_of_itself_points_at_no_other() -> None:
    block = "Mountains such as Everest rise high above the sea. This is why they were previously feared."
    assert flaw("Which places?", parse(answer(("Rivers", RIVERS), ("Mountains", block)))) is None


def test_the_prompt_counts_too() -> None:
    assert flaw("Name five places.", parse(GOOD)) == "not as many items as were asked for"
    assert flaw("Name three places.", parse(GOOD)) is None
    assert flaw("How do I bake bread?", parse(GOOD)) == "steps without titles"
    assert flaw("Compare the Nile and its mountains.", parse(GOOD)) is None


def test_how_many_are_asked_for() -> None:
    assert asked_for("List 5 benefits of sport") == 5
    assert asked_for("Give me three short and simple examples") == 3
    assert asked_for("Name some rivers") is None
    assert asked_for("Two ways to tell 3 stories") is None  # which one?


def test_forms() -> None:
    assert form(parse(GOOD)) == "list"
    assert form(parse(answer(("Rivers", RIVERS), ("Deserts", DESERTS), numbers=False))) == "paragraphs"
    assert form(parse(answer(("Rivers", RIVERS), before="Some. ", numbers=False))) == "sentences"
    assert form(parse("Nothing.")) == "sequential"
