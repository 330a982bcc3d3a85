"""Layout `stitched`: every context is ordinary text, in the layout, in the interpreter and in the native engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from test_decode import FLAT, NESTED
from test_layout import BYTES, END, PROMPT, TAGS, drawn, laid_out, letters, responses

from dense import dense, pilot
from pasta.core.interpreter import Interpreter, Limits
from pasta.core.layout import IGNORE, lay_out
from pasta.core.positions import Positions
from pasta.core.tree import Block, Tree, flatten, spell
from pasta.data.batch import collate, model_inputs
from pasta.decoding.api import generate, generate_all, replay
from pasta.decoding.events import TokenPut
from pasta.decoding.prompts import make_request
from pasta.engine.block_table import BLOCK_SIZE
from pasta.lang import Response, parse, plain
from pasta.train.head import target_logits
from pasta.train.loss import token_losses
from support import PilotedEngine, Stepper, tiny_engine

Contexts = dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], int]]  # (path, n-th choice) -> context, token


def contexts(prompt: Sequence[int], tree: Tree, end: int = END) -> Contexts:
    """The slow reference: each thread carries two copies of its text, what it sees and what a sync would write."""
    assert TAGS is not None
    out: Contexts = {}

    def walk(items: Tree, path: tuple[int, ...], begun: list[int]) -> None:
        seen, written = list(begun), list(begun)
        choice = forks = 0
        for index, item in enumerate(items):
            if isinstance(item, Block):
                walk(item.items, (*path, forks), seen)
                written += flatten(item.items)
                forks += 1
                continue
            if not path or index:  # a child's <async> is inserted
                out[path, choice] = tuple(seen), item
                choice += 1
            if item == TAGS.sync:
                seen = list(written)
            seen.append(item)
            written.append(item)
        if not path:
            out[path, choice] = tuple(seen), end

    walk(tree, (), list(prompt))
    return out


@pytest.mark.parametrize(
    "drawing, ids, positions, targets",
    [
        ("ab", "ab", [2, 3], "-ab$"),
        # What stood after the promise is written again after its block, and predicts nothing there.
        ("Px1(b)aSd", "Px1(b)aaSd", [2, 3, 4, 5, 6, 7, 5, 8, 9, 10], "-Px1ab)-S-d$"),
        # The second block saw nothing of the first when it was written; after the sync it does.
        (
            "Px1(b)Py1(c)Sd",
            "Px1(b)Py1(c)Py1(c)Sd",
            [2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9, 10, 8, 9, 10, 11, 12, 13, 14, 15],
            "-Px1Pb)-y1Sc)-------d$"[:22],
        ),
        # Without a sync nothing is written twice.
        ("Px1(b)a", "Px1(b)a", [2, 3, 4, 5, 6, 7, 5], "-Px1ab)-$"),
    ],
)
def test_layout(drawing: str, ids: str, positions: list[int], targets: str) -> None:
    layout = laid_out(drawing, "stitched", end=END)
    assert letters(layout.ids) == PROMPT + ids
    assert list(layout.positions) == [0, 1, *positions]
    assert letters(layout.targets) == targets


@settings(max_examples=150, deadline=None)
@given(responses)
def test_every_row_is_an_ordinary_text(response: Response) -> None:
    tree = spell(response, BYTES)
    layout = lay_out(BYTES.encode(PROMPT), tree, TAGS, Positions.parse("stitched"), END)
    found = []
    for row, seen in enumerate(layout.mask()):
        text = sorted((layout.positions[other], layout.ids[other]) for other in seen.nonzero()[0])
        assert [position for position, _ in text] == list(range(layout.positions[row] + 1))
        if layout.targets[row] != IGNORE:
            found.append((tuple(token for _, token in text), layout.targets[row]))
    assert sorted(found) == sorted(contexts(BYTES.encode(PROMPT), tree).values())


@pytest.fixture(scope="module")
def engine() -> PilotedEngine:
    return tiny_engine()


@pytest.mark.parametrize("text", [FLAT, NESTED, FLAT + NESTED])
@pytest.mark.parametrize("max_threads", [1, 16])
def test_positions_are_those_of_the_text(engine: PilotedEngine, text: str, max_threads: int) -> None:
    """A token's position is the length of the context in which it was decoded, but for a sync."""
    tree = spell(parse(text), engine.vocabulary)
    result = replay(engine, "Why?", tree, positions="stitched", max_threads=max_threads)
    assert result.annotated == text
    expected = contexts(result.prompt_ids, tree)
    paths = {0: ()}
    forks: dict[int, int] = {}
    for thread in result.threads[1:]:
        assert thread.parent is not None
        paths[thread.id] = (*paths[thread.parent], forks.setdefault(thread.parent, 0))
        forks[thread.parent] += 1
    for thread in result.threads:
        put = list(zip(thread.token_ids, thread.position_ids, strict=True))[1 if thread.id else 0 :]
        for choice, (token, position) in enumerate(put):
            context, target = expected[paths[thread.id], choice]
            assert target == token
            if token != TAGS.sync:
                assert position == len(context)


@pytest.mark.parametrize("length,body", [(1, 6), (2, 30)])
def test_the_engine_is_the_model_on_ordinary_text(length: int, body: int) -> None:
    """Every row of logits is that of the plain model on the context, and of the training layout's dense pass."""
    engine = tiny_engine()
    pilot(engine, length, body)
    results = generate_all(engine, ["Compare cats and dogs.", "Hello!"], positions="stitched")
    assert [len(result.threads) for result in results] == [6, 6]
    requests = list(dict.fromkeys(choice.request for choice in engine.seen))
    for request, result in zip(requests, results, strict=True):
        reference = contexts(result.prompt_ids, result.tree, min(engine.vocabulary.eos))
        scheme = Positions.parse("stitched")
        layout = lay_out(result.prompt_ids, result.tree, TAGS, scheme, min(engine.vocabulary.eos))
        rows = dense(engine, layout)
        mask = layout.mask()
        by_context = {
            tuple(layout.ids[other] for other in mask[row].nonzero()[0]): rows[row]
            for row in range(len(layout.ids))
            if layout.targets[row] != IGNORE
        }
        chosen = {(choice.path, choice.index): choice.logits for choice in engine.seen if choice.request is request}
        assert set(reference) == set(chosen)
        engine.model.set_attn_implementation("eager")
        for place, (context, _) in reference.items():
            with torch.inference_mode():
                plain = engine.model(input_ids=torch.tensor([context]), use_cache=False).logits[0, -1]
            torch.testing.assert_close(chosen[place], plain, rtol=0, atol=1e-4)
            torch.testing.assert_close(by_context[context], plain, rtol=0, atol=1e-4)
        engine.model.set_attn_implementation("pasta")
    assert engine.pool.free_slots == engine.pool.slots


def test_the_training_loss_is_the_interpreters_log_probability() -> None:
    engine = tiny_engine()
    pilot(engine, 1, 9)
    result = generate(engine, "Compare cats and dogs.", positions="stitched")
    end = min(engine.vocabulary.eos)
    tokens = {place: token for place, (_, token) in contexts(result.prompt_ids, result.tree, end).items()}
    decoded = {
        (choice.path, choice.index): choice.logits.log_softmax(-1)[tokens[choice.path, choice.index]]
        for choice in engine.seen
    }
    assert set(decoded) == set(tokens)
    layout = lay_out(result.prompt_ids, result.tree, TAGS, Positions.parse("stitched"), end)
    batch = collate([[layout, layout]], multiple=8)  # packed: two examples in a row do not see each other
    engine.model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        logits = target_logits(engine.model, model_inputs(batch), batch["learned"])
    losses = token_losses(logits, batch["targets"])
    assert len(losses) == 2 * len(decoded)
    torch.testing.assert_close(losses.sum() / 2, -torch.stack(list(decoded.values())).sum(), rtol=1e-5, atol=1e-4)


def test_the_exact_join_is_another_thing(engine: PilotedEngine) -> None:
    """Were both the same, nothing here would test anything."""
    seen = {}
    for positions in ("predicted", "stitched"):
        fresh = tiny_engine()
        replay(fresh, "Why?", spell(parse(FLAT), fresh.vocabulary), positions=positions)
        seen[positions] = {(choice.path, choice.index): choice.logits for choice in fresh.seen}
    last = max(index for path, index in seen["stitched"] if path == ())
    first_child = ((0,), 1)
    torch.testing.assert_close(seen["stitched"][first_child], seen["predicted"][first_child], rtol=0, atol=1e-4)
    assert (seen["stitched"][(), last] - seen["predicted"][(), last]).abs().max() > 0.01


@pytest.mark.parametrize("context", range(60, 110, 7))
def test_no_position_leaves_the_context(context: int) -> None:
    """A sync gathers all threads into one text, which has to fit."""
    engine = tiny_engine(context=context)
    tree = spell(parse(FLAT + NESTED), engine.vocabulary)
    result = replay(engine, [1, 2, 3], tree, positions="stitched")
    events = [event for output in result.outputs for event in output.events]
    assert max(event.position for event in events if isinstance(event, TokenPut)) < context
    assert plain(parse(FLAT + NESTED)).startswith(result.text)
    assert (result.finish_reason == "stop") == (result.text == plain(parse(FLAT + NESTED)))
    assert result.finish_reason == "stop" or 3 + sum(1 for _ in flatten(tree)) >= context


def test_settled_is_what_the_sync_will_write() -> None:
    assert TAGS is not None
    from test_interpreter import GRAMMAR

    interpreter = Interpreter(GRAMMAR, BYTES.eos, Limits(), Positions.parse("stitched"))
    interpreter.begin(2)

    def feed(thread: int, drawing: str) -> None:
        for token in flatten(drawn(drawing)):
            interpreter.feed(thread, token)

    def settled() -> tuple[int, str] | None:
        anew = interpreter.settled(0)
        return None if anew is None else (anew.position, letters(anew.tokens))

    feed(0, "aPx1")
    assert settled() == (6, "")
    feed(0, "Py1")
    feed(2, "c")
    interpreter.feed(2, TAGS.close)
    assert settled() == (6, "")  # the second is done, but not what stands before it
    feed(1, "b")
    interpreter.feed(1, TAGS.close)
    assert settled() == (6, "(b)Py1(c)")
    feed(0, "dS")
    assert settled() is None  # it was written
    assert interpreter.threads[0].positions[-1] == 6 + len("(b)Py1(c)d")


@pytest.mark.parametrize("text", [FLAT, NESTED, FLAT + NESTED + FLAT])
def test_the_size_of_a_request_is_what_it_holds(text: str) -> None:
    engine = tiny_engine(slots=4096)
    request = make_request(engine, "Why?", positions="stitched", script=spell(parse(text), engine.vocabulary))
    decoder = Stepper(engine)
    state = decoder.submit(request)
    while decoder.busy:
        decoder.step()
        held = engine.pool.slots - engine.pool.free_slots
        assert not decoder.running or held - BLOCK_SIZE < state.size <= held
