"""The layout against examples worked out by hand, and its tokens as the inverse of the text."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.core.layout import IGNORE, Layout, critical_path, lay_out
from pasta.core.positions import Positions, check_unit
from pasta.core.segments import SegmentTable, Thread
from pasta.core.tags import MAX_LENGTH, ONES
from pasta.core.tree import Block, Tree, flatten, read, spell
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError, UsageError
from pasta.lang import MAX_TOKENS, Node, Promise, Response, Sync, Text, parse, statistics
from pasta.models.checkpoint import read_tokenizer
from support import byte_tokenizer

BYTES = Vocabulary(byte_tokenizer())
BYTES.add_tags()
TAGS = BYTES.tags
assert TAGS is not None
END = min(BYTES.eos)
PROMPT = "?!"

# One letter for each token: P a promise, its length as a digit, ( and ) a block, S a sync, $ the end, - nothing.
NAMES = {TAGS.promise: "P", TAGS.open: "(", TAGS.close: ")", TAGS.sync: "S", END: "$", IGNORE: "-"}
NAMES |= {token: str(length) for length, token in enumerate(TAGS.lengths[:9], start=1)}


def laid_out(drawing: str, scheme: str = "predicted", end: int | None = None) -> Layout:
    return lay_out(BYTES.encode(PROMPT), drawn(drawing), TAGS, Positions.parse(scheme), end)


def drawn(drawing: str) -> Tree:
    """A tree from one letter for each token, as in `Px1(b)S`."""
    ids = {name: token for token, name in NAMES.items()}
    stack: list[list[int | Block]] = [[]]
    for letter in drawing:
        if letter == "(":
            stack.append([])
        stack[-1].append(ids[letter] if letter in ids else BYTES.encode(letter)[0])
        if letter == ")":
            block = Block(tuple(stack.pop()))
            stack[-1].append(block)
    return tuple(stack[0])


def letters(ids: tuple[int, ...]) -> str:
    return "".join(NAMES.get(token) or BYTES.decode([token]) for token in ids)


# -- targets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drawing, targets",
    [
        # Text predicts its next token, the prompt its first, the last the end.
        ("ab", "-ab$"),
        # At a promise's end comes the first token after its block. A block's own end predicts nothing.
        ("aPx1(b)c", "-aPx1cb)-$"),
        # Two in a row: the first promise's end predicts the next promise.
        ("Px1(b)Py2(c)d", "-Px1Pb)-y2dc)-$"),
        # A sync is predicted by the token before it in its own thread, and predicts what follows it.
        ("Px1(b)aSd", "-Px1ab)-Sd$"),
        ("Px1(b)Sd", "-Px1Sb)-d$"),
        # Nested: the inner promise's end predicts what its own parent puts next, here the inner sync.
        ("Px1(Py1(b)Sc)Sd", "-Px1SPy1Sb)-c)-d$"),
        # A response that ends in a promise: its end predicts the end of the response.
        ("Px1(b)", "-Px1$b)-"),
        # An inner promise last in its block predicts the block's end.
        ("Px1(Py1(b))", "-Px1$Py1)b)--"),
        # An empty block: its opening predicts its closing.
        ("Px1()", "-Px1$)-"),
        ("", "-$"),
    ],
)
def test_targets(drawing: str, targets: str) -> None:
    layout = laid_out(drawing, end=END)
    assert letters(layout.ids) == PROMPT + drawing
    assert letters(layout.targets) == targets


def test_without_an_end_the_last_token_predicts_nothing() -> None:
    assert letters(laid_out("ab").targets) == "-ab-"


# -- positions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drawing, scheme, positions",
    [
        ("ab", "predicted", [2, 3]),
        # The block begins right after its promise; the parent goes on ten places for each of its `tokens` later.
        ("aPx2(bc)d", "predicted", [2, 3, 4, 5, 6, 7, 8, 9, 26]),
        ("aPx2(bc)d", "fixed:40", [2, 3, 4, 5, 6, 7, 8, 9, 46]),
        # An estimate that is too short moves nothing: two threads share places.
        ("aPx2(bc)d", "fixed:1", [2, 3, 4, 5, 6, 7, 8, 9, 7]),
        # Two in a row, then a sync, which goes on where the promises end: no block is longer.
        ("Px1(b)Py3(c)Sd", "predicted", [2, 3, 4, 5, 6, 7, 15, 16, 17, 18, 19, 20, 48, 49]),
        ("Px1(b)Py3(c)Sd", "fixed:5", [2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 18, 19]),
        # Nested: the inner gap counts in the child alone; the outer parent knows its own promise only.
        # Behind a sync no place is taken twice, however deep what reaches farthest lies.
        ("Px1(Py1(b))Sd", "fixed:1", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 10, 12, 13]),
        ("Px2(Py1(b)Sc)Sd", "predicted", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 20, 21, 25, 26]),
        ("Px2(Py1(b)Sc)Sd", "fixed:4", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17]),
        # One place for each of its `tokens`: right for the first, two too few for the second; so the sync is behind it.
        ("aPx4(bc)d", "ones", [2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("Px3(b)Py2(cc)Sd", "ones", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
    ],
)
def test_positions(drawing: str, scheme: str, positions: list[int]) -> None:
    layout = laid_out(drawing, scheme)
    assert list(layout.positions) == [0, 1, *positions]


@pytest.mark.parametrize("text", ["predicted", "ones", "stitched", "fixed:1", "fixed:40"])
def test_schemes_print_as_they_are_read(text: str) -> None:
    assert str(Positions.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "fixed", "fixed:", "fixed:0", "fixed:-3", "fixed:1.5", "fixed:²", "exact", "tens", "predicted:3"]
)
def test_unknown_schemes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="unknown position scheme"):
        Positions.parse(text)


def test_a_length_is_the_tokens_rounded_up_to_tens() -> None:
    scheme = Positions()
    assert [scheme.length(tokens) for tokens in (1, 2, 10, 11, 20, 21, 990, 991, 5000)] == [
        1,
        1,
        1,
        2,
        2,
        3,
        99,
        99,
        99,
    ]
    assert all(scheme.reserve(scheme.length(tokens)) >= tokens for tokens in range(1, 991))
    assert MAX_LENGTH == MAX_TOKENS, "the language and the tokens know the same lengths"


def test_a_length_in_ones_is_the_number_of_tokens() -> None:
    scheme = Positions.parse("ones")
    assert [scheme.length(tokens) for tokens in (1, 2, 10, 11, 990, 991, 5000)] == [1, 2, 10, 11, 990, 990, 990]
    assert all(scheme.reserve(scheme.length(tokens)) == tokens for tokens in range(1, 991))


def test_text_counts_tens_whatever_the_tokens_count() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    vocabulary.add_tags(ONES)
    tags = vocabulary.tags
    assert tags is not None and (tags.unit, len(tags.lengths)) == (ONES, 990)
    response = parse('a<promise topic="x" tokens=4/><async>bc</async>d<promise topic="y" tokens=99/><async></async>')
    tree = spell(response, vocabulary)
    lengths = [tags.length_of[token] for token in flatten(tree) if token in tags.length_of]
    assert lengths == [40, 990]
    assert read(tree, vocabulary) == response
    for tokens, tens in ((1, 1), (10, 1), (11, 2), (345, 35), (990, 99)):
        promised = read((tags.promise, *vocabulary.encode("x"), tags.lengths[tokens - 1]), vocabulary)
        assert promised == Response((Promise("x", tens),))


def test_a_scheme_that_counts_otherwise_than_the_tags_is_refused() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    check_unit(Positions.parse("ones"), vocabulary)  # no tags, no harm
    vocabulary.add_tags(ONES)
    check_unit(Positions.parse("ones"), vocabulary)
    with pytest.raises(UsageError, match="positions predicted count lengths in tens, but this model's tags in ones"):
        check_unit(Positions.parse("predicted"), vocabulary)
    with pytest.raises(UsageError, match="positions ones count lengths in ones, but this model's tags in tens"):
        check_unit(Positions.parse("ones"), BYTES)


# -- visibility ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drawing, picture",
    [
        (
            "Px1(b)Py1(c)Sd",
            """
            ? #
            ! ##
            P ###
            x ####
            1 #####
            ( ######
            b #######
            ) ########
            P #####...#
            y #####...##
            1 #####...###
            ( #####...####
            c #####...#####
            ) #####...######
            S ###############
            d ################
            """,
        ),
        (
            # A grandchild is seen by its parent after the inner sync, by the main thread after the outer one.
            "Px2(Py1(b)aSc)dSe",
            """
            ? #
            ! ##
            P ###
            x ####
            2 #####
            ( ######
            P #######
            y ########
            1 #########
            ( ##########
            b ###########
            ) ############
            a #########...#
            S ##############
            c ###############
            ) ################
            d #####...........#
            S ##################
            e ###################
            """,
        ),
        (
            # A child that ends with its own child open: the sync around them waits for both, and sees both.
            "Px1(Py1(b))Sd",
            """
            ? #
            ! ##
            P ###
            x ####
            1 #####
            ( ######
            P #######
            y ########
            1 #########
            ( ##########
            b ###########
            ) ############
            ) #########...#
            S ##############
            d ###############
            """,
        ),
        (
            # A sync joins the promises before it, not those after it.
            "Px1(b)SPy1(c)d",
            """
            ? #
            ! ##
            P ###
            x ####
            1 #####
            ( ######
            b #######
            ) ########
            S #########
            P ##########
            y ###########
            1 ############
            ( #############
            c ##############
            ) ###############
            d ############...#
            """,
        ),
    ],
)
def test_mask(drawing: str, picture: str) -> None:
    layout = laid_out(drawing)
    rows = ["".join("#" if seen else "." for seen in row).rstrip(".") for row in layout.mask()]
    assert [f"{name} {row}" for name, row in zip(PROMPT + drawing, rows, strict=True)] == picture.split(
        "\n            "
    )[1:-1]


def test_a_fork_and_a_join_are_bit_sets() -> None:
    main = Thread(SegmentTable())
    first, second = main.fork(), main.fork()
    grandchild = first.fork()
    main.join([first])
    sees = main.table.sees
    assert sees[second.segment] >> first.segment & 1 == 0
    assert sees[main.segment] >> grandchild.segment & 1
    assert sees[main.segment] >> second.segment & 1 == 0


# -- text and tokens ----------------------------------------------------------------------------------

# The default model's tokenizer has no token for six control characters and for most unassigned ones: it drops them.
characters = st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]) | st.sampled_from("\n\t\r")
spelled = ["a b ", "\n", "é√😀", "日本", "<sync/>", "<async>", "<|im_end|>", '" tokens=1/>', "\\"]
texts = st.sampled_from(spelled) | st.text(characters, max_size=6)
topics = st.sampled_from(["salt", "the herbs", "it's", "é", "日本", "one two three", "a  b"])


def nodes(block: st.SearchStrategy[tuple[Node, ...]]) -> st.SearchStrategy[tuple[Node, ...]]:
    promise = st.builds(Promise, topic=topics, tokens=st.integers(1, MAX_LENGTH), block=block)
    return st.lists(texts.map(Text) | promise | st.builds(Sync), max_size=5).map(tuple)


responses = nodes(st.recursive(texts.map(lambda text: (Text(text),)), nodes, max_leaves=8)).map(Response)


@pytest.fixture(scope="module")
def smollm(default_folder) -> Vocabulary:
    vocabulary = Vocabulary(read_tokenizer(default_folder.path))
    vocabulary.add_tags()
    return vocabulary


@settings(max_examples=100, deadline=None)
@given(responses)
def test_read_is_the_inverse_of_spell(response: Response) -> None:
    assert read(spell(response, BYTES), BYTES) == response


def test_read_is_the_inverse_of_spell_with_a_real_tokenizer(smollm: Vocabulary) -> None:
    @settings(max_examples=100, deadline=None)
    @given(responses)
    def holds(response: Response) -> None:
        tree = spell(response, smollm)
        assert read(tree, smollm) == response

    holds()


@settings(max_examples=100, deadline=None)
@given(responses, st.sampled_from(["predicted", "fixed:7"]))
def test_every_token_is_a_target_once_but_for_async(response: Response, scheme: str) -> None:
    assert TAGS is not None
    tree = spell(response, BYTES)
    layout = lay_out(BYTES.encode(PROMPT), tree, TAGS, Positions.parse(scheme), END)
    expected = Counter(token for token in flatten(tree) if token != TAGS.open)
    expected[END] += 1
    assert Counter(target for target in layout.targets if target != IGNORE) == expected
    assert layout.ids[len(PROMPT) :] == tuple(flatten(tree))


@settings(max_examples=100, deadline=None)
@given(responses)
def test_a_mask_is_causal_and_transitive(response: Response) -> None:
    """Whoever sees a token sees what that token saw: keys and values already hold it."""
    mask = lay_out(BYTES.encode(PROMPT), spell(response, BYTES), TAGS, Positions()).mask()
    assert mask.diagonal().all() and mask[:, : len(PROMPT)][len(PROMPT) :].all()
    reached = mask.astype(int) @ mask.astype(int) > 0
    assert (reached == mask).all()


@settings(deadline=None)
@given(responses)
def test_the_critical_path_is_that_of_the_text(response: Response) -> None:
    """`lang` counts on the text and `layout` on the tokens: one definition, read twice."""
    measured = statistics(response, lambda text: len(BYTES.encode(text)))
    tree = spell(response, BYTES)
    assert critical_path(tree, TAGS) == measured.critical_path
    assert sum(1 for _ in flatten(tree)) == measured.total_tokens


def test_what_cannot_be_spelled_is_refused() -> None:
    with pytest.raises(PastaError, match="has no block"):
        spell(parse('<promise topic="x" tokens=1/> a'), BYTES)
    with pytest.raises(PastaError, match="has no PASTA tags"):
        spell(Response(()), Vocabulary(byte_tokenizer()))
