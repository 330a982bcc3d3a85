"""A limit cuts and does not steer; turns change when a thread writes, never what."""

from __future__ import annotations

import random

from hypothesis import event, given, settings
from hypothesis import strategies as st
from scripted import PROMPT, TAGS, VOCABULARY, Play, Writer

from pasta.core.commands import Put
from pasta.core.interpreter import Interpreter
from pasta.core.layout import lay_out
from pasta.core.positions import Positions
from pasta.core.thread import Limits, Thread
from pasta.core.tree import flatten, read
from pasta.lang import check, parse, plain, print_response

FREE = 1 << 30


def text_of(interpreter: Interpreter) -> str:
    return plain(read(interpreter.tree(), VOCABULARY))


def decoded(interpreter: Interpreter) -> int:
    """Tokens of the answer that were decoded: all but `<async>`, and `</async>` where a cut put it."""
    return sum(token != TAGS.open for token in flatten(interpreter.tree()))


def read_threads(interpreter: Interpreter) -> list[Thread]:
    found = [interpreter.threads[0]]
    for thread in found:
        found += [interpreter.threads[child] for child in thread.blocks.values()]
    return found


def check_well_formed(interpreter: Interpreter) -> None:
    response = read(interpreter.tree(), VOCABULARY)
    text = print_response(response)
    assert parse(text) == response
    assert not [found for found in check(text) if found.code.startswith("E")]
    layout = lay_out([0] * PROMPT, interpreter.tree(), TAGS, interpreter.positions)
    if not interpreter.positions.stitched:
        placed = sorted(p for thread in read_threads(interpreter) for p in thread.positions)
        assert placed == sorted(layout.positions[PROMPT:])


writers = st.builds(Writer, st.integers(0, 10**6), st.integers(10, 60), st.integers(1, 4))
schemes = st.sampled_from(["predicted", "fixed:7", "stitched"]).map(Positions.parse)


@given(writers, st.integers(1, 6), schemes, st.one_of(st.none(), st.randoms(use_true_random=False)))
@settings(max_examples=60, deadline=None)
def test_turns_change_nothing(writer: Writer, width: int, scheme: Positions, late: random.Random | None) -> None:
    all_at_once = Play(writer, Limits(FREE, 1000), scheme).run()
    few = Play(writer, Limits(FREE, width), scheme, late).run()
    one = Play(writer, Limits(FREE, 1), scheme).run()
    assert few.tree() == one.tree() == all_at_once.tree()
    assert few.finish_reason == "stop"
    check_well_formed(few)
    event(f"forks: {len(few.threads) > 1}")
    event(f"nests: {any(len(thread.path) > 1 for thread in few.threads)}")


@given(writers, st.data(), schemes, st.one_of(st.none(), st.randoms(use_true_random=False)))
@settings(max_examples=150, deadline=None)
def test_a_limit_cuts_and_does_not_steer(
    writer: Writer, data: st.DataObject, scheme: Positions, late: random.Random | None
) -> None:
    whole = Play(writer, Limits(FREE, 1000), scheme).run()
    text, most = text_of(whole), decoded(whole)
    kind = data.draw(st.sampled_from(["tokens", "thread", "context", "segments", "all"]))
    limits = Limits(
        max_tokens=data.draw(st.integers(1, most + 2)) if kind in ("tokens", "all") else FREE,
        max_threads=data.draw(st.integers(1, 8)),
        max_thread_tokens=data.draw(st.integers(1, 20)) if kind in ("thread", "all") else None,
        context=data.draw(st.integers(PROMPT + 2, PROMPT + 60)) if kind in ("context", "all") else FREE,
        max_segments=data.draw(st.integers(1, 12)) if kind in ("segments", "all") else FREE,
    )
    play = Play(writer, limits, scheme, late)
    cut = play.run()
    assert text.startswith(text_of(cut))
    assert max(p.position for p in play.commands if isinstance(p, Put)) < limits.context if play.commands else True
    check_well_formed(cut)
    if cut.finish_reason == "stop":
        assert cut.tree() == whole.tree()
    else:
        assert cut.finish_reason == "length"
    if kind == "tokens":
        # As many tokens as the limit has, but for a promise that did not fit as a whole.
        closed = sum(thread.reason == "length" for thread in read_threads(cut)[1:])
        assert decoded(cut) - closed <= limits.max_tokens
        assert cut.finish_reason == "stop" or decoded(cut) >= min(most, limits.max_tokens) - 14
        again = Play(writer, Limits(limits.max_tokens, 1), scheme).run()
        assert again.tree() == cut.tree(), "a cut is at one place, however many threads run"
    event(f"cut by {kind}: {cut.finish_reason}")


def test_these_properties_reach_what_they_claim() -> None:
    """The writers fork, nest, sync, and run into limits often enough for the tests above to mean something."""
    runs = 80
    chance = random.Random(0)
    forks = nests = syncs = capped = full = suspended = 0
    for seed in range(runs):
        writer = Writer(seed, chance.randint(10, 60), chance.randint(1, 4))
        whole = Play(writer).run()
        forks += len(whole.threads) > 1
        nests += any(len(thread.path) > 1 for thread in whole.threads)
        syncs += TAGS.sync in set(flatten(whole.tree()))
        capped += Play(writer, Limits(FREE, max_thread_tokens=chance.randint(1, 20))).run().finish_reason == "length"
        context = chance.randint(PROMPT + 2, PROMPT + 60)
        full += Play(writer, Limits(FREE, context=context)).run().finish_reason == "length"
        suspended += Play(writer, Limits(FREE, 2)).steps < Play(writer, Limits(FREE, 1)).steps
    assert forks > 0.8 * runs and nests > 0.4 * runs and syncs > 0.4 * runs
    assert capped > 0.2 * runs and full > 0.2 * runs


def test_a_small_budget_is_spent_on_what_is_read_first() -> None:
    """Threads that the budget will not reach, as far as promises tell, wait instead of writing what is cut off."""
    kept = decoded_in_all = 0
    for seed in range(60):
        writer = Writer(seed, 40, 2)
        whole = Play(writer).run()
        limit = max(1, decoded(whole) // 2)
        cut = Play(writer, Limits(limit, 16)).run()
        kept += min(limit, decoded(cut))
        decoded_in_all += cut.sampled
    assert decoded_in_all < 1.5 * kept
