"""Random responses and random texts, both made to be mistaken for tags wherever possible."""

from hypothesis import strategies as st

from pasta.lang import Node, Promise, Response, Sync, Text, print_response

TAGS = (
    '<promise topic="a b" tokens=12/>',
    "<promise tokens='3' topic='c' />",
    "<async>",
    "</async>",
    "<sync/>",
)
TEXTS = (
    "one two ",
    " ",
    "\n",
    "\r",
    "é√😀",
    "<",
    ">",
    "/",
    "/>",
    "\\",
    "-",
    '"',
    "=",
    "promise",
    "async",
    "sync",
)
NEARLY_TAGS = (
    *(
        "<sync",
        "<sync>",
        "<sync/",
        "</sync>",
        "<Sync/>",
        "<syncs/>",
        "<async/>",
        "<async x>",
        "</promise>",
        "<async",
    ),
    *("<\\sync/>", "<\\\\async>", "<\\/async>", "<\\promise", "<promise", "<promise>", "<promise topic="),
    *('<promise topic="" tokens=1/>', "<promise topic=' x' tokens=1>", "<promise topic=x tokens=007/>"),
    *(
        '<promise topic="x" tokens=0/>',
        '<promise topic="x" tokens=1 tokens=2/>',
        '<promise topic="x" tokens=1/',
    ),
)

#: Pieces of a text, of every kind.
fragments = st.sampled_from(TAGS + TEXTS + NEARLY_TAGS) | st.text(max_size=4)
plain_texts = st.lists(fragments, min_size=1, max_size=6).map("".join)
topics = st.sampled_from(["salt", "the herbs", "it's", "a\\b", "é", "=", "/", "a  b", "one two three four"])


def promises(block: st.SearchStrategy[tuple[Node, ...] | None]) -> st.SearchStrategy[Promise]:
    return st.builds(Promise, topic=topics, tokens=st.integers(1, 99), block=block)


def threads(promise: st.SearchStrategy[Promise]) -> st.SearchStrategy[tuple[Node, ...]]:
    node = plain_texts.map(Text) | promise | st.builds(Sync)
    return st.lists(node, max_size=5).map(tuple)


_blocks = st.recursive(
    plain_texts.map(lambda text: (Text(text),)), lambda block: threads(promises(block)), max_leaves=12
)
merged_responses = threads(promises(_blocks)).map(Response)
main_responses = threads(promises(st.none())).map(Response)
responses = merged_responses | main_responses


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A valid text with one piece put in somewhere, or taken out."""
    text = print_response(draw(responses))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(start + 8, len(text))))
    return text[:start] + draw(st.just("") | fragments) + text[end:]


#: Texts that may be valid, and mostly are not.
sources = st.lists(fragments, max_size=25).map("".join) | damaged()


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty, some of one letter."""
    if draw(st.booleans()):
        return list(text)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
