from hypothesis import given
from lang_strategies import merged_responses, plain_texts, responses

from pasta.lang import (
    Promise,
    Response,
    Sync,
    Text,
    escape,
    main_thread,
    parse,
    plain,
    print_response,
    unescape,
)

RESPONSE = Response(
    (
        Text("a "),
        Promise("x", 2, (Text("b <sync/>"), Promise("y", 1, (Text("c"),)), Sync())),
        Sync(),
        Text(" d"),
    )
)


def test_the_three_forms():
    assert print_response(RESPONSE) == (
        'a <promise topic="x" tokens=2/><async>b <\\sync/>'
        '<promise topic="y" tokens=1/><async>c</async><sync/></async><sync/> d'
    )
    assert main_thread(RESPONSE) == 'a <promise topic="x" tokens=2/><sync/> d'
    assert plain(RESPONSE) == "a b <sync/>c d"


@given(plain_texts)
def test_every_text_is_the_plain_form_of_a_response(text):
    assert plain(parse(escape(text))) == text
    assert unescape(escape(text)) == text


@given(responses)
def test_plain_is_what_the_texts_say(response):
    def texts(nodes):
        for node in nodes:
            if isinstance(node, Text):
                yield node.text
            elif isinstance(node, Promise):
                yield from texts(node.block or ())

    assert plain(response) == "".join(texts(response.nodes))


@given(merged_responses)
def test_the_main_form_parses_to_the_same_thread_without_blocks(response):
    bare = [Promise(n.topic, n.tokens) if isinstance(n, Promise) else n for n in response.nodes]
    assert parse(main_thread(response)) == Response(tuple(bare))
    assert main_thread(parse(main_thread(response))) == main_thread(response)
