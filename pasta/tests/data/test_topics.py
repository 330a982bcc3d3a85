import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.data.topics import choose_topics, clean, reads_well, title_of, topic_of, words_of
from pasta.lang import MAX_TOPIC_WORDS, topic_problem


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        (" **Stay Hydrated**: drink water often.", "Stay Hydrated"),
        (" Frame: look for cracks.", "Frame"),
        (" Regular exercise can reduce stress and improve sleep.", "Regular exercise"),
        (" Drink plenty of water during the day.", "Drink plenty"),
        (" The art of making pizza at home: start with dough.", "pizza at home"),
        (" Use plants for food: eat leaves.", "plants for food"),
        (" Learning Management System (LMS): it stores courses.", "Learning Management System"),
        (" **Take Care of Your Body**: sleep well.", "Body"),
        (" **Be clear about what you want**: say it first.", "Be clear"),
        (" In terms of gameplay mechanics, the hero is strong.", "gameplay mechanics"),
        (" We must think outside the box and build solar panels.", "solar panels"),
    ],
)
def test_a_topic_is_the_title_the_subject_or_the_first_telling_words(text, topic):
    assert topic_of(text) == topic


def test_siblings_are_told_apart_by_what_only_they_say():
    texts = ["The model reads text.", "The model reads images.", "The model reads sound."]
    topics = choose_topics([("", text) for text in texts])
    assert topics is not None
    assert len(set(topics)) == 3
    assert all(word in topic for word, topic in zip(["text", "images", "sound"], topics, strict=True))


def test_a_topic_shares_no_word_with_a_siblings_where_it_can():
    texts = [
        "Solar panels feed the solar grid by day.",
        "Solar panels and wind turbines work at night.",
        "Rain fills the dams.",
    ]
    topics = choose_topics([("", text) for text in texts])
    assert topics is not None
    words = [word for topic in topics for word in words_of(topic)]
    assert len(set(words)) == len(words)


def test_no_topics_where_nothing_tells_the_blocks_apart():
    assert choose_topics([("", "again the same"), ("", "again the same")]) is None


@given(st.text(max_size=60))
def test_a_cleaned_topic_is_a_topic_or_nothing(text):
    topic = clean(text)
    assert not topic or topic_problem(topic) is None
    assert len(topic.split()) <= MAX_TOPIC_WORDS


def test_a_sentence_with_a_colon_far_in_is_no_title():
    assert title_of(" There is one thing that everybody should know before they begin to cook: salt.") == ""


@pytest.mark.parametrize("topic", ["river", "Data analysis", "Eiffel Tower", "2nd World War"])
def test_a_topic_reads_well(topic: str) -> None:
    assert reads_well(topic)


@pytest.mark.parametrize(
    "topic", ["", "the benefits of", "one two three four five six", "important things", "3", "water,"]
)
def test_a_topic_that_is_cut_off_or_says_nothing_does_not(topic: str) -> None:
    assert not reads_well(topic)
