import pytest
from data_texts import CODE, LIST, PARAGRAPHS, STEPS, STORY_PROMPT, count_words
from hypothesis import given
from hypothesis import strategies as st

from pasta.data.annotate import finish
from pasta.data.example import Example
from pasta.data.plan import apply
from pasta.data.quality import flaw
from pasta.data.structure import Structure, steps_saved
from pasta.lang import Promise, Sync, Text, check, plain, print_response
from pasta.lang.printer import plain_text


def decide(text, prompt="What?"):
    return Structure(count_words).plan(Example(0, ({"role": "user", "content": prompt},), text))


def test_items_become_blocks_and_the_conclusion_waits():
    response = apply(decide(LIST).plan, LIST, count_words)
    promises = [node for node in response.nodes if isinstance(node, Promise)]
    assert [promise.topic for promise in promises] == ["Light", "Water", "Soil"]
    assert all(plain_text(promise.block).startswith(" **") for promise in promises)
    texts = [node.text for node in response.nodes if isinstance(node, Text)]
    assert texts[:3] == ["Here is what a small garden needs:\n\n1.", "\n2.", "\n3."]
    assert isinstance(response.nodes[-2], Sync)
    assert plain(response) == LIST


def test_paragraphs_become_blocks_but_neither_the_first_nor_the_conclusion():
    response = apply(decide(PARAGRAPHS).plan, PARAGRAPHS, count_words)
    assert sum(isinstance(node, Promise) for node in response.nodes) == 2
    assert response.nodes[0].text.startswith("Glass and paper")
    assert response.nodes[-1].text.endswith("within weeks.")
    assert isinstance(response.nodes[-2], Sync)


@pytest.mark.parametrize(
    ("text", "prompt", "reason"),
    [
        (STEPS, "Cocoa?", "steps that follow each other"),
        (PARAGRAPHS, STORY_PROMPT, "no list, no sections, no paragraphs"),
        ("1. salt\n2. pepper\n3. oil", "What?", "items too short"),
        ("One sentence. And another one.", "What?", "no list, no sections, no paragraphs"),
        (
            "\n".join(f"{n}. the same words in each of these items" for n in (1, 2, 3)),
            "What?",
            "items share their wording",
        ),
    ],
)
def test_what_is_not_worth_it_stays_sequential(text, prompt, reason):
    decision = decide(text, prompt)
    assert not decision.plan
    assert decision.reason == reason


def test_code_is_left_alone():
    longer = CODE.replace("program", "long and winding program that was written in the last century")
    assert decide(longer).reason == "code, a table or mathematics"


def test_steps_saved():
    assert steps_saved([30, 30], [5, 5]) == 60 - (5 + 5 + 30 + 1)
    assert steps_saved([10], [5]) < 0


@given(
    st.lists(
        st.sampled_from([LIST, STEPS, CODE, PARAGRAPHS, "\n\n", "- a b c d e f\n", "Title:\n", "So. "]), max_size=5
    )
)
def test_every_decision_can_be_carried_out(parts):
    text = "".join(parts)
    if not text.strip():
        return
    example = Example(0, ({"role": "user", "content": "What?"},), text)
    annotator = Structure(count_words)
    annotated, _, mark = finish(example, annotator.plan(example), annotator, "", count_words)
    assert mark["critical_path"] <= max(mark["tokens"], 1)
    assert bool(mark["blocks"]) == ("<promise " in annotated)


CHINESE = (
    "冬天常见的鸟有三种：\n\n"
    "1. **太平鸟**：它们从北方成群飞来，把城里花楸树上的红色浆果吃得干干净净。\n"
    "2. **燕雀**：它们在山毛榉树下觅食，整个冬天都和本地的同类一起活动。\n"
    "3. **田鸫**：它们在开阔的草地和果园里游荡，寻找蚯蚓和落下的苹果。"
)
CHINESE_STEPS = (
    "1. 首先把水烧开，加入一小勺盐，等到水面翻滚起来。\n"
    "2. 然后放入面条，用筷子轻轻搅动，避免粘在锅底。\n"
    "3. 接着加入青菜和鸡蛋，再煮大约三分钟就可以了。"
)


def test_a_script_without_spaces_has_words_too() -> None:
    """Each sign counts as one: else every item is a single word, and no list is ever marked."""
    example = Example(0, ({"role": "user", "content": "冬天有哪些鸟？"},), CHINESE)
    response = apply(Structure(len).plan(example).plan, CHINESE, len)
    assert [promise.topic for promise, _ in response.promises()] == ["太平鸟", "燕雀", "田鸫"]
    assert flaw(example.prompt, response) is None
    assert not [each for each in check(print_response(response)) if each.code == "W203"]


def test_steps_without_spaces_follow_each_other() -> None:
    decision = Structure(len).plan(Example(0, ({"role": "user", "content": "怎么煮面？"},), CHINESE_STEPS))
    assert not decision.plan and decision.reason == "steps that follow each other"


def test_what_a_model_thought_before_it_answered_is_left_alone():
    thought = "<think>\n" + PARAGRAPHS + "\n</think>\n\n"
    alone, behind = decide(LIST).plan, decide(thought + LIST).plan
    assert decide(PARAGRAPHS).plan and not decide(thought + "It is so.").plan
    assert [block.start + len(thought) for block in alone.blocks] == [block.start for block in behind.blocks]
