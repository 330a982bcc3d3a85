from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from lang_strategies import merged_responses, responses

from pasta.lang import Promise, Response, Statistics, Sync, Text, parse, statistics


def words(text: str) -> int:
    return len(text.split())


@dataclass
class Thread:
    """A thread of the slow simulation: a queue of tokens, written one a step."""

    tokens: deque
    depth: int
    children: list["Thread"] = field(default_factory=list)
    is_waiting: bool = False
    is_written: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_written and all(child.is_done for child in self.children)


def thread_of(nodes, depth: int) -> Thread:
    """Spell the nodes out as tokens: a letter is an ordinary token, a list is the last token of a promise."""
    tokens = deque()
    for node in nodes:
        match node:
            case Text(text):
                tokens.extend("t" * words(text))
            case Sync():
                tokens.append("sync")
            case Promise(topic, _, block):
                tokens.extend("p" * (1 + words(topic)))
                tokens.append([*block])
    if depth > 0:
        tokens.append("close")
    return Thread(tokens, depth)


def simulate(response: Response) -> Statistics:
    """Decode step by step, all live threads at once, and count."""
    live = [thread_of(response.nodes, 0)]
    seen = list(live)
    step = total = content = syncs = last_step = 0
    while any(not thread.is_done for thread in live):
        # What was done before this step decides who may go on in it.
        for thread in live:
            if thread.is_waiting and all(child.is_done for child in thread.children):
                thread.is_waiting = False
        for thread in live:
            thread.is_written = thread.is_written or (not thread.tokens and not thread.is_waiting)
        step += 1
        for thread in list(live):
            if thread.is_waiting or not thread.tokens:
                continue
            token = thread.tokens.popleft()
            last_step = step
            total += 1
            content += token == "t"
            if token == "sync":
                syncs += 1
                thread.is_waiting = True
            elif isinstance(token, list):
                child = thread_of(token, thread.depth + 1)
                total += 1  # <async>, inserted
                thread.children.append(child)
                live.append(child)
                seen.append(child)
            thread.is_written = not thread.tokens
    return Statistics(total, content, last_step, len(seen), max(thread.depth for thread in seen), syncs)


@given(merged_responses)
def test_figures_equal_a_step_by_step_simulation(response):
    assert statistics(response, words) == simulate(response)


@given(responses)
def test_figures_are_consistent(response):
    figures = statistics(response, words)
    assert figures.content_tokens <= figures.total_tokens
    assert figures.critical_path <= figures.total_tokens
    assert figures.threads == 1 + len(list(response.promises()))
    if not any(True for _ in response.promises()):
        assert figures.critical_path == figures.total_tokens


@pytest.mark.parametrize(
    ("source", "critical_path"),
    [
        ("", 0),
        ("a b c", 3),
        ("a <sync/> b", 3),
        # 3 for the promise; the child writes at 4, 5 and closes at 6; the parent writes at 4.
        ('<promise topic="x" tokens=1/><async>a b</async> c', 6),
        ('<promise topic="x" tokens=1/><async>a b</async> c d e f', 7),
        # The sync is written at 4, takes effect at 6; the next token comes at 7.
        ('<promise topic="x" tokens=1/><async>a b</async><sync/> c', 7),
        # A second sync right after has nothing to wait for.
        ('<promise topic="x" tokens=1/><async>a b</async><sync/><sync/> c', 8),
        # The child closes at 7, its own child at 9: the sync of the main thread waits for both.
        (
            '<promise topic="x" tokens=1/><async><promise topic="y" tokens=1/><async>a b</async></async><sync/> c',
            10,
        ),
        ('<promise topic="x" tokens=1/>', 3),
    ],
)
def test_critical_paths_worked_out_by_hand(source, critical_path):
    assert statistics(parse(source), words).critical_path == critical_path


def test_parallelism_and_speedup():
    figures = statistics(parse('<promise topic="x" tokens=1/><async>a b c d e f</async> g h i j k l m'), words)
    assert (figures.content_tokens, figures.critical_path) == (13, 10)
    assert figures.parallelism == 1.3
    assert figures.speedup(20) == 2.0
    assert statistics(parse(""), words).parallelism == 1.0
