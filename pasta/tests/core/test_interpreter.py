"""The interpreter under random token scripts, against a slow reference that copies sets."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pasta.core.commands import End, Finish, Fork, Join, Put, Suspend, Wait
from pasta.core.grammar import Expect, Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.layout import critical_path, lay_out
from pasta.core.positions import Positions
from pasta.core.segments import SegmentTable, Thread
from pasta.core.thread import Limits, Status
from pasta.core.tree import Block, Tree, flatten, read, threads_of
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.results import read_threads
from pasta.lang import check, parse, print_response
from support import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())
VOCABULARY.add_tags()
GRAMMAR = Grammar.of(VOCABULARY, len(VOCABULARY))
TAGS = GRAMMAR.tags
EOS = max(VOCABULARY.eos)
LETTERS = VOCABULARY.encode("abcdefgh")
PROMPT = 5

Token = tuple[int, int]  # thread, index in it


@dataclass
class Reference:
    """Visibility with no table: a fork copies what was seen, a join adds what was seen and written."""

    sees: dict[int, set[Token]] = field(default_factory=lambda: {0: set()})
    below: dict[int, list[int]] = field(default_factory=lambda: {0: []})
    written: dict[int, list[Token]] = field(default_factory=lambda: {0: []})
    visible: dict[Token, set[Token]] = field(default_factory=dict)

    def put(self, thread: int) -> Token:
        token = (thread, len(self.written[thread]))
        self.written[thread].append(token)
        self.sees[thread].add(token)
        self.visible[token] = set(self.sees[thread])
        return token

    def fork(self, parent: int, child: int) -> None:
        self.sees[child] = set(self.sees[parent])
        self.below[child], self.written[child] = [], []
        self.below[parent].append(child)

    def join(self, thread: int, children: tuple[int, ...]) -> None:
        for child in children:
            self.sees[thread] |= self.all_written(child)

    def all_written(self, thread: int) -> set[Token]:
        return set(self.written[thread]).union(*(self.all_written(child) for child in self.below[thread]))


@dataclass
class Tabled:
    """Visibility by the segment table, as an engine keeps it."""

    threads: dict[int, Thread] = field(default_factory=lambda: {0: Thread(SegmentTable())})
    segment: dict[Token, int] = field(default_factory=dict)

    def visible(self, reader: Token, written: Token, before: bool) -> bool:
        sees = self.threads[0].table.sees[self.segment[reader]]
        return before and bool(sees >> self.segment[written] & 1)


class Run:
    """Plays random tokens and checks every command as it comes."""

    def __init__(self, data: st.DataObject, limits: Limits, positions: Positions):
        self.data = data
        self.interpreter = Interpreter(GRAMMAR, VOCABULARY.eos, limits, positions)
        self.expect: dict[int, Expect] = {0: self.interpreter.begin(PROMPT)}
        self.reference, self.tabled = Reference(), Tabled()
        self.order: list[Token] = []
        self.ended: set[int] = set()
        self.commands: list[object] = []

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.interpreter.finish_reason is not None:
                break
            assert 0 < len(self.interpreter.running) <= self.interpreter.limits.max_threads
            owed = list(self.expect)  # the threads that the engine decodes
            late = self.data.draw(st.booleans())  # a server answers its threads in any order
            for thread in [self.data.draw(st.sampled_from(owed))] if late else owed:
                if self.interpreter.finish_reason is None:
                    self.apply(self.interpreter.feed(thread, self.choose(thread)))
        self.apply(self.interpreter.cut("length"))

    def choose(self, thread: int) -> int:
        allowed = GRAMMAR.allowed[self.expect.pop(thread)]
        likely = [*LETTERS[:3], TAGS.promise, TAGS.promise, TAGS.sync, TAGS.close, EOS, *TAGS.lengths[:2]]
        options = [token for token in likely if allowed[token]] or [int(allowed.nonzero()[0][0])]
        return self.data.draw(st.sampled_from(options))

    @property
    def puts(self) -> list[Put]:
        return [command for command in self.commands if isinstance(command, Put)]

    def apply(self, commands: list[object]) -> None:
        self.commands += commands
        for command in commands:
            match command:
                case Put(thread, _, _, expect):
                    assert thread not in self.ended
                    token = self.reference.put(thread)
                    self.tabled.segment[token] = self.tabled.threads[thread].segment
                    self.order.append(token)
                    if expect is not None:
                        self.expect[thread] = expect
                case Fork(parent, child):
                    self.reference.fork(parent, child)
                    self.tabled.threads[child] = self.tabled.threads[parent].fork()
                case Join(thread, children):
                    assert set(children) <= self.ended, "joined a child that is not done"
                    self.reference.join(thread, children)
                    self.tabled.threads[thread].join([self.tabled.threads[child] for child in children])
                case End(thread):
                    assert thread not in self.ended
                    assert all(child in self.ended for child in self.reference.below[thread])
                    self.ended.add(thread)
                case Suspend() | Wait() | Finish():
                    pass


limits = st.builds(
    Limits,
    max_tokens=st.integers(1, 120),
    max_threads=st.integers(1, 5),
    max_thread_tokens=st.one_of(st.none(), st.integers(1, 60)),
    context=st.one_of(st.just(1 << 30), st.integers(PROMPT + 2, PROMPT + 80)),
    max_segments=st.one_of(st.just(1 << 30), st.integers(1, 9)),
)
schemes = st.sampled_from([Positions(), Positions(gap=40), Positions(gap=3)])


@settings(max_examples=100, deadline=None)
@given(st.data(), limits, schemes, st.integers(1, 80))
def test_random_scripts(data: st.DataObject, limit: Limits, scheme: Positions, rounds: int) -> None:
    run = Run(data, limit, scheme)
    run.play(rounds)
    interpreter = run.interpreter
    tree = interpreter.tree()

    # No thread is lost, and each stands in the merged response once.
    assert interpreter.finish_reason is not None
    assert run.ended == {thread.id for thread in interpreter.threads}
    assert all(thread.status is Status.DONE for thread in interpreter.threads)
    kept = list(read_threads(interpreter))
    assert len(threads_of(tree)) == len(kept)

    # An answer is called whole only if each of its threads is.
    assert interpreter.finish_reason == ("stop" if interpreter.whole else "length")
    assert not interpreter.whole or len(kept) == len(interpreter.threads)

    # Limits are kept.
    tags = sum(thread.parent is not None and thread.reason != "stop" for thread in kept)  # that a cut put
    assert sum(token != TAGS.open for token in flatten(tree)) - tags <= limit.max_tokens
    for thread in interpreter.threads:
        assert thread.parent is None or thread.sampled <= (limit.max_thread_tokens or 1 << 30)
    assert all(put.position < limit.context for put in run.puts)
    forks, joins = (sum(isinstance(command, kind) for command in run.commands) for kind in (Fork, Join))
    assert 1 + 2 * forks + joins <= limit.max_segments

    # The merged text parses, says the same, and checks clean.
    response = read(tree, VOCABULARY)
    text = print_response(response)
    assert parse(text) == response
    assert not [found for found in check(text) if found.code.startswith("E")]

    # The layout gives every token the position that it was decoded at.
    layout = lay_out(range(PROMPT), tree, TAGS, scheme)
    by_path = positions_by_path(tree, layout.positions[PROMPT:])
    assert by_path == {thread.path: thread.positions for thread in kept}
    event(f"forks {len(interpreter.threads) > 1}")


@settings(max_examples=100, deadline=None)
@given(st.data(), limits, schemes, st.integers(1, 60))
def test_visibility_is_what_copying_would_give(
    data: st.DataObject, limit: Limits, scheme: Positions, rounds: int
) -> None:
    run = Run(data, limit, scheme)
    run.play(rounds)
    tree = run.interpreter.tree()
    mask = lay_out(range(PROMPT), tree, TAGS, scheme).mask()[PROMPT:, PROMPT:]
    paths = {thread.path: thread.id for thread in run.interpreter.threads}
    place = {(paths[path], index): row for (path, index), row in rows(tree).items()}
    for later, reader in enumerate(run.order):
        seen = run.reference.visible[reader]
        for earlier, written in enumerate(run.order):
            by_table = run.tabled.visible(reader, written, earlier <= later)
            assert by_table == (written in seen)
            if reader in place and written in place:  # a promise half written at the end is in no tree
                assert mask[place[reader], place[written]] == (written in seen)


def positions_by_path(tree: Tree, positions: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
    out: dict[tuple[int, ...], list[int]] = {path: [] for path in threads_of(tree)}
    for (path, _), row in rows(tree).items():
        out[path].append(positions[row])
    return out


def rows(tree: Tree) -> dict[tuple[tuple[int, ...], int], int]:
    """(path, index in the thread) -> the place in merged order."""
    out: dict[tuple[tuple[int, ...], int], int] = {}

    def walk(items: Tree, path: tuple[int, ...]) -> None:
        forks = index = 0
        for item in items:
            if isinstance(item, Block):
                walk(item.items, (*path, forks))
                forks += 1
            else:
                out[path, index] = len(out)
                index += 1

    walk(tree, ())
    return out


def promise(topic: str = "a", length: int = 1) -> list[int]:
    return [TAGS.promise, *VOCABULARY.encode(topic), TAGS.lengths[length - 1]]


def make(**options: int) -> Interpreter:
    interpreter = Interpreter(GRAMMAR, VOCABULARY.eos, Limits(**options), Positions())
    interpreter.begin(PROMPT)
    return interpreter


def feed(interpreter: Interpreter, thread: int, tokens: list[int]) -> list[object]:
    return [command for token in tokens for command in interpreter.feed(thread, token)]


def test_a_fork_costs_no_step_and_a_join_none() -> None:
    interpreter = make()
    commands = feed(interpreter, 0, promise())
    assert [type(command) for command in commands[-3:]] == [
        Put,
        Fork,
        Put,
    ]  # the length, the fork, its <async>
    assert commands[-1].token == TAGS.open and commands[-1].inserted
    assert feed(interpreter, 0, [TAGS.sync]) == [Wait(0)]
    commands = feed(interpreter, 1, [LETTERS[0], TAGS.close])
    assert [type(command) for command in commands[-3:]] == [End, Join, Put]
    assert commands[-1].token == TAGS.sync and not commands[-1].inserted


def test_positions_leave_the_promised_room() -> None:
    interpreter = make()
    feed(interpreter, 0, [LETTERS[0], *promise(length=3), LETTERS[1]])
    main, child = interpreter.threads
    assert main.positions == [5, 6, 7, 8, 8 + 1 + 30]
    assert child.positions == [9]


def test_the_end_waits_for_open_children() -> None:
    interpreter = make()
    feed(interpreter, 0, promise())
    assert feed(interpreter, 0, [EOS]) == [Wait(0)]
    assert interpreter.finish_reason is None
    assert feed(interpreter, 1, [TAGS.close])[-1] == Finish("stop")


def test_a_child_that_ends_with_open_children_waits_for_them() -> None:
    interpreter = make()
    feed(interpreter, 0, promise())
    feed(interpreter, 1, promise())
    feed(interpreter, 0, [TAGS.sync])
    assert Wait(1) in feed(interpreter, 1, [TAGS.close])
    assert interpreter.threads[0].status is Status.WAITING
    assert Join(0, (1,)) in feed(interpreter, 2, [TAGS.close])


def test_promises_above_the_limit_wait_their_turn() -> None:
    interpreter = make(max_threads=2)
    feed(interpreter, 0, [*promise("a"), *promise("b")])
    assert interpreter.running == [1, 2], "what is read first goes first"
    assert interpreter.feed(0, TAGS.promise) == [Suspend(0)], "its turn is over, and its token is held"
    commands = feed(interpreter, 1, [TAGS.close])
    assert interpreter.running == [0, 2]
    assert commands[-1].token == TAGS.promise, "it goes on with the token that was held"
    feed(interpreter, 0, promise("c")[1:])
    assert interpreter.running == [2, 3]


def test_a_resumed_thread_goes_before_what_is_read_after_it() -> None:
    interpreter = make(max_threads=1)
    feed(interpreter, 0, promise("a"))
    feed(interpreter, 1, promise("b"))
    assert interpreter.running == [2]
    interpreter.feed(0, LETTERS[0])
    interpreter.feed(1, TAGS.sync)
    feed(interpreter, 2, [TAGS.close])
    assert interpreter.running == [1], "the inner thread's sync, and not the main thread"
    assert interpreter.threads[1].tokens[-1] == TAGS.sync
    feed(interpreter, 1, [TAGS.close])
    assert interpreter.running == [0] and interpreter.threads[0].tokens[-1] == LETTERS[0]


def test_a_budget_cuts_in_reading_order() -> None:
    interpreter = make(max_tokens=20)
    feed(interpreter, 0, [*promise("a"), *promise("b")])
    feed(interpreter, 2, [LETTERS[1]] * 14)  # twenty are decoded, of which the last fourteen are read last
    assert interpreter.finish_reason is None
    feed(interpreter, 1, [LETTERS[0]] * 16)
    commands = feed(interpreter, 1, [LETTERS[0]])
    assert commands[-1] == Finish("length")
    block = (TAGS.open, *[LETTERS[0]] * 17, TAGS.close)
    assert interpreter.tree() == (*promise("a"), Block(block))


def test_what_the_budget_will_not_reach_waits() -> None:
    interpreter = make(max_tokens=10)
    feed(interpreter, 0, promise("a", length=1))  # three tokens, and ten that are promised
    assert interpreter.running == [1]
    interpreter.feed(0, LETTERS[0])  # was under way, and is held
    feed(interpreter, 1, [TAGS.close])  # it is shorter than it promised
    assert interpreter.running == [0] and interpreter.threads[0].tokens[-1] == LETTERS[0]


def test_a_thread_that_is_too_long_ends_the_answer_there() -> None:
    interpreter = make(max_thread_tokens=3)
    feed(interpreter, 0, [*promise("a"), LETTERS[0], *promise("b")])
    feed(interpreter, 2, [LETTERS[1], TAGS.close])
    commands = feed(interpreter, 1, [LETTERS[0]] * 3)
    assert commands[-1] == Finish("length")
    assert interpreter.tree() == (*promise("a"), Block((TAGS.open, *[LETTERS[0]] * 3, TAGS.close)))


def test_a_token_that_ends_the_answer_ends_it_where_it_is_read() -> None:
    interpreter = Interpreter(GRAMMAR, VOCABULARY.eos, Limits(), Positions(), ends=frozenset({LETTERS[7]}))
    interpreter.begin(PROMPT)
    feed(interpreter, 0, [*promise("a"), LETTERS[0]])
    assert feed(interpreter, 1, [LETTERS[1], LETTERS[7]])[-1] == Finish("stop")
    assert interpreter.tree() == (*promise("a"), Block((TAGS.open, LETTERS[1], TAGS.close)))
    assert not interpreter.whole


def test_a_promise_cut_by_the_budget_leaves_no_trace() -> None:
    interpreter = make(max_tokens=17)
    feed(interpreter, 0, [LETTERS[0], TAGS.promise, *[LETTERS[1]] * 12])
    feed(interpreter, 0, [LETTERS[1]] * 3)
    assert interpreter.finish_reason == "length"
    assert list(flatten(interpreter.tree())) == [LETTERS[0]]


@pytest.mark.parametrize(
    "before, token",
    [
        ([], TAGS.close),
        ([], TAGS.open),
        ([], TAGS.lengths[0]),
        ([TAGS.promise], TAGS.lengths[0]),
        ([TAGS.promise], EOS),
    ],
)
def test_a_token_out_of_place_is_refused(before: list[int], token: int) -> None:
    interpreter = make()
    feed(interpreter, 0, before)
    with pytest.raises(ValueError, match="cannot come here"):
        interpreter.feed(0, token)


def test_critical_path_counts_waits() -> None:
    a = LETTERS[0]
    short, long = Block((TAGS.open, a, TAGS.close)), Block((TAGS.open, *[a] * 10, TAGS.close))
    # Promises end at 3 and 6; the blocks at 5 and 17; the sync takes effect at 17; one more token.
    tree = (*promise(), short, *promise(), long, TAGS.sync, a)
    assert critical_path(tree, TAGS) == 18
    assert critical_path((a, a, a), TAGS) == 3
