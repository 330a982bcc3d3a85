"""Where an answer goes wrong, and what a pair of its continuations says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pasta.train.beginnings import A_PROMPT, MARGIN, Fault, find_fault, own_promises, same_topic, turning_pairs
from pasta.train.pairs import extremes, make_pairs
from pasta.train.score import Guards, Score, faults

PROMISE, LENGTH, OPEN, CLOSE = 90, 91, 92, 93
TEXTS = {
    "Rivers": "Water runs down from the hills to the sea and shapes the land it crosses.",
    "Deserts": "Dry sand and rock stretch far under a burning sun with hardly any rain.",
    "Forests": "Trees grow close together, and many animals live in their shade all year.",
    "Cities": "People built houses, streets and markets where trade routes once met.",
    "of the": "Nothing else is said about snow, ice, glaciers or winter storms up here.",
}
IDS = {topic: [10 + number, 20 + number] for number, topic in enumerate(TEXTS)}


def answer(
    topics: Sequence[str], number: int = 0, index: int = 0, prompt: str = "Places?", **texts: str
) -> dict[str, Any]:
    """A list with these topics; its tokens are those of its topics, and two for each block."""
    annotated, tokens = "", list[Any]()
    for place, topic in enumerate(topics):
        text = texts.get(topic, TEXTS[topic])
        annotated += f'\n{place}.<promise topic="{topic}" tokens=3/><async> {text}</async>'
        tokens += [place, PROMISE, *IDS[topic], LENGTH, [OPEN, 50 + place, CLOSE]]
    return {
        "index": index, "sample": number, "prompt": prompt, "annotated": annotated, "text": annotated,
        "tokens": tokens, "promise": PROMISE, "finish_reason": "stop",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topics", "fault"),
    [
        (["Rivers", "Deserts", "Forests"], None),
        (["Rivers", "Deserts", "Rivers"], Fault(2, "topics repeat", False)),
        (["Rivers", "of the", "Rivers"], Fault(1, "topics read badly", False)),
    ],
)
def test_the_first_promise_that_spoils_an_answer(topics: list[str], fault: Fault | None) -> None:
    assert find_fault(own_promises(answer(topics)["annotated"]), 0.6) == fault


def test_a_block_that_says_what_another_said() -> None:
    row = answer(["Rivers", "Deserts", "Cities"], Cities=TEXTS["Rivers"])
    assert find_fault(own_promises(row["annotated"]), 0.6) == Fault(2, "blocks repeat", True)
    assert find_fault(own_promises(row["annotated"]), 1.0) is None


def test_topics_that_say_the_same() -> None:
    assert same_topic("Data analysis", "data")
    assert same_topic("Rivers", "RIVER")
    assert not same_topic("Data analysis", "Data collection")
    assert same_topic("水", "水"), "where nothing is known of a language, the letters count"


def test_a_long_list_ends_where_it_would_repeat() -> None:
    (pair,) = turning_pairs([answer(["Rivers", "Deserts", "Forests", "Rivers", "Cities"])], 0.6)
    tokens = answer(["Rivers", "Deserts", "Forests", "Rivers"])["tokens"]
    assert (pair["chosen_tokens"], pair["chosen_ended"]) == (tokens[:18], True)
    assert (pair["rejected_tokens"], pair["rejected_ended"]) == (tokens[:-1], False)
    assert pair["margin"] == MARGIN
    block = answer(["Rivers", "Deserts", "Forests", "Cities"], Cities=TEXTS["Rivers"])
    (pair,) = turning_pairs([block], 0.6)
    assert pair["rejected_tokens"] == block["tokens"], "the block that repeats is part of what is wrong"


def test_a_short_list_goes_on_with_a_topic_of_another_answer() -> None:
    bad, other = answer(["Rivers", "Rivers"]), answer(["Rivers", "Cities", "Forests"], 1)
    (pair,) = turning_pairs([other, bad], 0.6)
    assert pair["chosen_tokens"] == [*bad["tokens"][:6], 1, PROMISE, *IDS["Cities"], LENGTH]
    assert pair["rejected_tokens"] == bad["tokens"][:-1]
    assert not pair["chosen_ended"] and not pair["rejected_ended"]
    assert list(turning_pairs([bad], 0.6)) == [], "no answer knows another topic"


def test_as_many_parts_as_were_asked_for() -> None:
    topics = ["Rivers", "Deserts", "Forests", "Rivers"]
    (pair,) = turning_pairs([answer(topics, prompt="Name four places."), answer(["Cities", "Rivers"], 1)], 0.6)
    assert pair["chosen_tokens"][-3:] == [*IDS["Cities"], LENGTH]


def test_a_few_pairs_a_prompt_and_no_key_twice() -> None:
    rows = [answer(["Rivers", "Rivers", "Cities"], number, index) for index in range(2) for number in range(5)]
    pairs = list(turning_pairs(rows, 0.6))
    assert len(pairs) == 2 * A_PROMPT
    assert len(list(turning_pairs(rows, 0.6, 1))) == 2
    keys = {(pair["index"], pair[f"{side}_score"]["sample"]) for pair in pairs for side in ("chosen", "rejected")}
    assert len(keys) == 2 * len(pairs)
    assert all(number < 0 for _, number in keys)


def test_clean_makes_topics_a_fault_and_faults_decide() -> None:
    row = answer(["Rivers", "Deserts", "Rivers"], Rivers="Water runs.")
    assert faults(row, 0.0, Guards()) == ()
    assert faults(row, 0.0, Guards(clean=True)) == ("topics repeat",)

    def make(number: int, good: float, *found: str) -> Score:
        return Score(0, number, 1.0, good, 0.0, found, {"baseline": 0.5})

    greedy, sound, drawn, poor = make(0, 9.0, "topics repeat"), make(1, 0.5), make(2, 3.0, "loops"), make(3, 0.1)
    assert extremes([greedy, sound, drawn, poor], 1.0) == (sound, poor)
    assert extremes([greedy, sound, drawn, poor], 1.0, clean=True) == (sound, greedy)
    assert extremes([sound, drawn, poor], 1.0, clean=True) == (sound, drawn)
    rows = [answer(["Rivers", "Deserts"], number) for number in range(4)]
    assert make_pairs(rows, [greedy, sound], 1.0) == []
    assert len(make_pairs(rows, [greedy, sound], 1.0, clean=True)) == 1, "however good the judge finds it"
