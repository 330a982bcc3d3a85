"""How replies become plans; the faults in them are those of Qwen2.5-Coder-1.5B-Instruct."""

import pytest
from data_texts import LIST, PARAGRAPHS, count_words

from pasta.data.example import Example
from pasta.data.examples import WORKED
from pasta.data.plan import PlanError, apply, verified
from pasta.data.prompt import messages, show
from pasta.data.reply import numbered, read_plan


def labelled(text, labels, why="Each item stands alone."):
    """A reply in the form that is asked for."""
    rows = enumerate(zip(numbered(text), labels, strict=True), start=1)
    lines = [f"[{number}] {' '.join(line.split()[:2])}… -> {label}" for number, (line, label) in rows]
    return "\n".join([why, *lines])


def written(reply, text):
    plan, _ = read_plan(reply, text)
    return verified(apply(plan, text, count_words), text)


GOOD = labelled(LIST, ["main", "light", "water", "soil", "wait"])


def test_labels_become_blocks_and_waits():
    told = written(GOOD, LIST)
    assert '1.<promise topic="light" tokens=2/><async> **Light**' in told
    assert "</async><sync/>\n\nWith these" in told


def test_lines_in_a_row_with_one_label_are_one_block():
    text = "Two pets. Cats sleep all day long. They hunt at night instead. Dogs bark at the postman loudly."
    plan, _ = read_plan(labelled(text, ["main", "cats", "cats", "dogs"]), text)
    assert [text[block.start : block.end].strip() for block in plan.blocks] == [
        "Cats sleep all day long. They hunt at night instead.",
        "Dogs bark at the postman loudly.",
    ]


@pytest.mark.parametrize(
    "reply",
    [
        f"Sure! Here it is:\n```\n{GOOD}\n```\nI hope this helps.",
        GOOD.replace(" -> ", " → "),
        GOOD.replace("-> main", '-> "Main"').replace("-> wait", "-> **wait**."),
        GOOD.replace("[1] Here", "[1] (fixed) Here"),
        GOOD.replace("1. **Light**:…", "1. **Light**: put the beds where the sun shines on them all day…"),
        GOOD.replace("1. **Light**:…", "**Light**: put…"),
        GOOD.replace("-> light", "-> the light that the beds get"),
        GOOD.rsplit("\n", 1)[0],  # what has no label waits
        GOOD.replace("-> wait", "-> main"),  # "With these …" speaks of the blocks: it waits, whatever the model says
    ],
    ids="prose arrow quotes fixed strays number long-topic stops-early conclusion".split(),
)
def test_what_can_be_read_safely_is_read(reply):
    told = written(reply, LIST)
    assert told.count("<promise") == 3
    assert "<sync/>\n\nWith these" in told


def test_a_sentence_that_leans_back_joins_the_block_before_it():
    text = "Two pets. Cats sleep all day long. They hunt at night instead. Dogs bark at the postman loudly."
    told = written(labelled(text, ["main", "cats", "hunting", "dogs"]), text)
    assert told.count("<promise") == 2
    assert "Cats sleep all day long. They hunt at night instead.</async>" in told


def test_a_reply_that_skips_a_line_is_read_by_its_words():
    reply = GOOD.replace("[2] 1. **Light**:… -> light\n", "").replace("[3]", "[2]").replace("[4]", "[3]")
    told = written(reply.replace("[5]", "[4]"), LIST)
    assert told.count("<promise") == 2
    assert "1. **Light**" in told, "what was skipped is the main writer's"
    assert '2.<promise topic="water"' in told


def test_what_goes_on_with_an_earlier_block_waits():
    text = "Two pets. Cats sleep all day long. Dogs bark at the postman loudly. Kittens sleep even more than that."
    told = written(labelled(text, ["main", "cats", "dogs", "cats"]), text)
    assert told.count("<promise") == 2
    assert "</async><sync/> Kittens" in told


def test_what_cannot_be_a_block_stays_with_the_main_writer():
    text = LIST.replace("\n\nWith", "\n4. **Tools**: buy some.\n\nWith")
    told = written(labelled(text, ["intro", "light", "water", "soil", "tools", "wait"]), text)
    assert told.count("<promise") == 3, "neither the heading nor the short item"


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["main"] * 5, "nothing independent"),
        (["wait"] * 5, "nothing independent"),
        (["main", "light", "wait", "soil", "wait"], "single parts"),
    ],
)
def test_nothing_to_mark(labels, reason):
    plan, why = read_plan(labelled(LIST, labels), LIST)
    assert not plan
    assert reason in why


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("I would rather not.", "less than half"),
        ('{"blocks": [{"first": 2, "last": 3, "topic": "light"}]}', "less than half"),
        (GOOD.replace(" -> ", " "), "less than half"),
        (f"{GOOD}\n[6] Water barrels… -> barrels", "not in the answer"),
        (f"{GOOD}\n[0] Water barrels… -> barrels", "not in the answer"),
        (f"{GOOD}\n[{'1' * 5000}] Water barrels… -> barrels", "not in the answer"),
        (GOOD.replace("2. **Water**:", "2. **Wind**:"), "not in the answer"),
        (GOOD.replace("2. **Water**:…", ""), "not in the answer"),
        (labelled(LIST, ["main", "needs", "needs", "needs", "wait"]), "several items of a list"),
    ],
)
def test_what_cannot_be_trusted_is_refused(reply, message):
    with pytest.raises(PlanError, match=message):
        read_plan(reply, LIST)


def test_plain_paragraphs():
    told = written(labelled(PARAGRAPHS, ["main", "glass", "paper", "main"]), PARAGRAPHS)
    assert told.count("<promise") == 2
    assert "<sync/>\n\nIn conclusion" in told


@pytest.mark.parametrize("worked", WORKED, ids=lambda worked: worked.prompt[:20])
def test_the_worked_examples_are_right(worked):
    """Each can be carried out as it stands, and saves time where it marks anything."""
    turns = messages(Example(0, (), "x"))
    shown = show(worked.prompt, worked.answer)
    reply = turns[[turn["content"] for turn in turns].index(shown) + 1]["content"]
    told = written(reply, worked.answer)
    assert told.count("<promise") == len({*worked.labels} - {"main", "wait"})
    assert told.count("<sync/>") == worked.labels.count("wait")


def test_seven_examples_of_which_some_mark_nothing():
    assert len(WORKED) == 7
    assert sum(set(worked.labels) == {"main"} for worked in WORKED) == 2
