import pytest

from pasta.lang import MAX_DEPTH, LangError, Promise, Response, Span, Sync, Text, is_topic_character


def test_neighbouring_texts_are_one():
    response = Response((Text("a", Span(0, 1)), Text(""), Text("b"), Sync(), Text("")))
    assert response == Response((Text("ab"), Sync()))
    assert Promise("x", 1, (Text(""), Text("c"))).block == (Text("c"),)


def test_a_joined_text_covers_the_places_of_its_parts():
    (text,) = Response((Text("ab", Span(3, 5)), Text("c", Span(5, 6)))).nodes
    assert text.span == Span(3, 6)


def test_places_do_not_count_when_trees_are_compared():
    assert Text("a", Span(0, 1)) == Text("a")
    assert hash(Promise("x", 1, None, Span(0, 9))) == hash(Promise("x", 1))


@pytest.mark.parametrize(
    "topic", ["", " x", "x ", 'a"b', "a<b", "a>b", "a\nb", "a\x00b", "a\u2028b", "a\u00a0b", "\ud800"]
)
def test_a_topic_that_the_text_form_cannot_say_is_refused(topic):
    with pytest.raises(LangError) as caught:
        Promise(topic, 1)
    assert caught.value.code == "E105"
    assert caught.value.line is None


@pytest.mark.parametrize("tokens", [-1, 0, 100])
def test_a_length_out_of_range_is_refused(tokens):
    with pytest.raises(LangError, match=f"E106 tokens={tokens}: expected 1 to 99"):
        Promise("x", tokens)


def test_the_two_forms_cannot_be_mixed():
    with pytest.raises(LangError, match="E114 promise 'bare' has no block"):
        Response((Promise("x", 1, (Promise("bare", 1),)),))
    assert Response((Promise("x", 1, ()),)).is_merged
    assert not Response((Promise("x", 1),)).is_merged
    assert Response((Text("a"),)).is_merged


def test_depth_is_bounded():
    def nested(depth):
        block = ()
        for _ in range(depth):
            block = (Promise("x", 1, block),)
        return block

    assert max(depth for _, depth in Response(nested(MAX_DEPTH)).promises()) == MAX_DEPTH
    with pytest.raises(LangError, match="E115"):
        Response(nested(MAX_DEPTH + 1))
    with pytest.raises(LangError, match="E115"):
        Response(nested(50_000))


def test_promises_come_in_document_order():
    response = Response((Promise("a", 1, (Promise("b", 1, ()),)), Promise("c", 1, ())))
    assert [(promise.topic, depth) for promise, depth in response.promises()] == [
        ("a", 1),
        ("b", 2),
        ("c", 1),
    ]


def test_topic_characters():
    assert all(map(is_topic_character, "aé'\\/= 7√😀"))
    assert not any(map(is_topic_character, '"<>\t\n\x7f\u00a0\u2029'))
