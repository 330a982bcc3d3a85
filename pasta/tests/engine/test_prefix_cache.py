"""What is kept of earlier requests: found by exact tokens alone, right to the bit of what it says, and never lost."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dense import check_against_dense, pilot
from pasta.decoding.api import generate
from pasta.decoding.prompts import make_request
from pasta.engine.base import OutOfSlots
from pasta.engine.block_table import BlockTable
from pasta.engine.pool import BLOCK_SIZE, KvPool
from support import Stepper, tiny_engine

LONG = "Say in a few words why the sky is blue, and whether the sea is blue for the same reason, or for another one. "


# -- the pool -----------------------------------------------------------------------------------------


class SharingMachine(RuleBasedStateMachine):
    """Requests that begin alike or not, grow, and go. `written` is what a device's memory would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = KvPool(7 * BLOCK_SIZE, torch.device("cpu"))
        self.written: dict[int, tuple[str, tuple[int, ...]]] = {}  # slot -> salt, and all tokens up to this one
        self.requests: dict[BlockTable, tuple[str, list[int]]] = {}

    @rule(salt=st.sampled_from("ab"), blocks=st.lists(st.integers(0, 1), min_size=1, max_size=4), data=st.data())
    def come(self, salt: str, blocks: list[int], data: st.DataObject) -> None:
        rest = data.draw(st.integers(0, BLOCK_SIZE - 1))
        prompt = [block for block in blocks for _ in range(BLOCK_SIZE)] + [9] * rest
        table = BlockTable(self.pool)
        found = self.pool.prefix_cache.find(salt, prompt)
        assert len(found) * BLOCK_SIZE < len(prompt), "something is left to decode after"
        table.adopt(found)
        tokens = prompt[: len(table.slots)]
        for place, slot in enumerate(table.slots):
            assert self.written[slot] == (salt, tuple(tokens[: place + 1]))
        self.requests[table] = salt, tokens
        self.write(table, prompt[len(tokens) :])

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=2 * BLOCK_SIZE))
    def grow(self, data: st.DataObject, tokens: list[int]) -> None:
        self.write(data.draw(st.sampled_from(list(self.requests))), tokens)

    def write(self, table: BlockTable, more: list[int]) -> None:
        salt, tokens = self.requests[table]
        shared = {block for other in self.requests if other is not table for block in other.blocks}
        for token in more:
            if not table.can_hold(len(tokens) + 1):
                with pytest.raises(OutOfSlots):
                    table.reserve(len(tokens) + 1)
                break
            table.reserve(len(tokens) + 1)
            slot = table.slots[len(tokens)]
            assert slot // BLOCK_SIZE not in shared, "a shared block is never written to"
            tokens.append(token)
            self.written[slot] = salt, tuple(tokens)
        self.pool.prefix_cache.insert(salt, tokens, table.blocks)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(list(self.requests)))
        table.free()
        table.free()
        del self.requests[table]

    @invariant()
    def each_request_reads_what_it_wrote(self) -> None:
        for table, (salt, tokens) in self.requests.items():
            for place, slot in enumerate(table.slots[: len(tokens)]):
                assert self.written[slot] == (salt, tuple(tokens[: place + 1]))

    @invariant()
    def none_is_lost(self) -> None:
        held = {block for table in self.requests for block in table.blocks}
        assert self.pool.free_slots == self.pool.slots - BLOCK_SIZE * len(held)


SharingMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSharing = SharingMachine.TestCase


def test_what_was_let_go_first_goes_first_and_ends_before_beginnings() -> None:
    pool = KvPool(4 * BLOCK_SIZE, torch.device("cpu"))
    old, new = [1] * 2 * BLOCK_SIZE, [2] * 2 * BLOCK_SIZE
    for tokens in (old, new):
        table = BlockTable(pool)
        table.reserve(len(tokens))
        pool.prefix_cache.insert("", tokens, table.blocks)
        table.free()
    assert pool.free_slots == pool.kept_slots == pool.slots
    found = []
    for _ in range(4):
        found.append([len(pool.prefix_cache.find("", [*tokens, 0])) for tokens in (old, new)])
        pool.allocate(1)
    assert found == [[2, 2], [1, 2], [0, 2], [0, 1]]
    with pytest.raises(OutOfSlots):
        pool.allocate(1)


# -- the engine ---------------------------------------------------------------------------------------


def chat(engine, turns, scope, **options):
    """A conversation: each answer, and how much of its prompt was there."""
    messages, answers = [], []
    for question in turns:
        messages.append({"role": "user", "content": question})
        answers.append(generate(engine, messages, cache_salt=scope, **options))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


@pytest.mark.parametrize("forks", [False, True])
def test_later_turns_reuse_earlier_ones_and_say_the_same(forks: bool) -> None:
    engine = tiny_engine(slots=8192)
    if forks:
        pilot(engine, 2, 12)
    turns = [LONG, "And why?" + LONG, "Since when?"]
    options = {"max_tokens": 150, "sequential": not forks}
    fresh = chat(engine, turns, None, **options)
    engine.seen.clear()
    reused = chat(engine, turns, "somebody", **options)
    assert [answer.text for answer in reused] == [answer.text for answer in fresh]
    assert [answer.cached_tokens for answer in fresh] == [0, 0, 0]
    assert reused[0].cached_tokens == 0
    for before, after in itertools.pairwise(reused):
        assert after.cached_tokens >= len(before.prompt_ids) // BLOCK_SIZE * BLOCK_SIZE > 0
        assert after.cached_tokens % BLOCK_SIZE == 0
    assert engine.pool.free_slots == engine.pool.slots
    if forks:
        assert len(reused[0].threads) == 6
        check_against_dense(engine, reused, "predicted")


def test_an_answer_without_forks_is_reused_whole() -> None:
    engine = tiny_engine(tags=False, slots=8192)
    first = generate(engine, "Hi", max_tokens=3 * BLOCK_SIZE, cache_salt="")
    longer = [*first.prompt_ids, *first.threads[0].token_ids, 65, 66]
    again = generate(engine, longer, max_tokens=5, cache_salt="")
    assert again.cached_tokens == (len(longer) - 3) // BLOCK_SIZE * BLOCK_SIZE > 2 * BLOCK_SIZE
    assert again.text == generate(engine, longer, max_tokens=5).text


def test_what_comes_after_a_fork_is_not_kept() -> None:
    engine = tiny_engine(slots=8192)
    pilot(engine, 9, 60)
    result = generate(engine, "Hi", cache_salt="")
    assert result.tokens_total > 3 * BLOCK_SIZE
    before = len(result.prompt_ids) + next(
        place for place, token in enumerate(result.threads[0].token_ids) if token in engine.vocabulary.tags.length_of
    )
    assert engine.pool.kept_slots == (before + 1) // BLOCK_SIZE * BLOCK_SIZE


def test_scopes_see_nothing_of_each_other() -> None:
    engine = tiny_engine(slots=8192)
    for scope, cached in (("one", 0), ("one", BLOCK_SIZE), ("two", 0), (None, 0), ("", 0)):
        assert generate(engine, LONG, max_tokens=1, cache_salt=scope).cached_tokens == cached, scope


def test_requests_at_once_share_a_prompt() -> None:
    engine = tiny_engine(tags=False, slots=4096)
    request = make_request(engine, LONG * 3, max_tokens=40, cache_salt="")
    decoder = Stepper(engine)
    jobs = [decoder.submit(request)]
    while not jobs[0].record.outputs:
        decoder.step()
    alone = engine.pool.free_slots
    jobs += [decoder.submit(request) for _ in range(3)]
    assert alone - engine.pool.free_slots <= 3 * BLOCK_SIZE, "each takes its last block alone"
    decoder.abort(jobs[0])  # whoever brought the table may go first
    while decoder.busy:
        decoder.step()
    assert len({job.result().text for job in jobs[1:]}) == 1
    assert jobs[1].result().text == generate(engine, LONG * 3, max_tokens=40).text
    assert engine.pool.free_slots == engine.pool.slots


def test_thousands_of_requests_under_pressure() -> None:
    """Prompts that begin alike come, end and are cancelled in a pool that holds few of them: all right, none lost."""
    engine = tiny_engine(slots=12 * BLOCK_SIZE)
    engine.chunk = 100
    pilot(engine, 1, 4)
    chance = random.Random(0)
    prompts = [LONG[:cut] + tail for cut in (30, 70, 109) for tail in ("", "Why?", "How? " * 12)]
    options = {"max_tokens": 12}
    expected = {prompt: generate(engine, prompt, **options).text for prompt in prompts}
    engine.seen.clear()
    decoder = Stepper(engine)
    running, done, cached = {}, 0, 0
    for _ in range(2000):
        act = chance.random()
        if act < 0.35 and len(running) < 3:
            prompt = chance.choice(prompts)
            request = make_request(engine, prompt, cache_salt=chance.choice("ab"), **options)
            running[decoder.submit(request)] = prompt
        elif act < 0.4 and running:
            job = chance.choice(list(running))
            decoder.abort(job)
            del running[job]
        else:
            decoder.step()
        for job in [job for job in running if job.finished]:
            result = job.result()
            assert result.text == expected[running.pop(job)]
            done += 1
            cached += result.cached_tokens
    for job in running:
        decoder.abort(job)
    assert done > 70 and cached > 10 * BLOCK_SIZE, (done, cached)
    assert engine.pool.kept_slots > 0
    assert engine.pool.free_slots == engine.pool.slots
    assert engine.pool.allocate(12) == list(range(12))


# -- long prompts -------------------------------------------------------------------------------------


def test_a_long_prompt_does_not_keep_others_waiting() -> None:
    engine = tiny_engine(tags=False, slots=8192)
    engine.chunk = 50
    long, short = LONG * 20, "Hi"
    expected = {prompt: generate(tiny_engine(tags=False), prompt, max_tokens=60).text for prompt in (long, short)}
    decoder = Stepper(engine)
    quick = decoder.submit(make_request(engine, short, max_tokens=60))
    decoder.step()
    slow = decoder.submit(make_request(engine, long, max_tokens=60))
    late = [decoder.submit(make_request(engine, short, max_tokens=60)) for _ in range(3)]
    steps = 0
    while not slow.record.outputs:
        before = len(quick.record.outputs)
        decoder.step()
        steps += 1
        assert quick.finished or len(quick.record.outputs) == before + 1, "each step brings the others on"
        if steps == 10:
            assert all(job.record.outputs for job in late), "a short prompt goes past a long one"
    prompts = len(slow.request.prompt) + sum(len(job.request.prompt) for job in late)
    assert steps == -(-prompts // 50)
    while decoder.busy:
        decoder.step()
    assert slow.result().text == expected[long]
    assert {job.result().text for job in (quick, *late)} == {expected[short]}
    assert engine.pool.free_slots == engine.pool.slots


def test_a_long_prompt_gets_on_whatever_comes_after_it() -> None:
    engine = tiny_engine(tags=False, slots=8192)
    engine.chunk = 50
    decoder = Stepper(engine)
    slow = decoder.submit(make_request(engine, LONG * 10, max_tokens=1))
    for _ in range(-(-len(slow.request.prompt) // 25)):
        decoder.submit(make_request(engine, LONG, max_tokens=1))
        decoder.step()
    assert slow.finished


@pytest.mark.parametrize("chunk", [1, 7, BLOCK_SIZE, 1000])
def test_a_prompt_in_parts_is_the_same_prompt(chunk: int) -> None:
    engine = tiny_engine(slots=8192)
    engine.chunk = chunk
    pilot(engine, 2, 12)
    result = generate(engine, LONG)
    check_against_dense(engine, [result], "predicted")
