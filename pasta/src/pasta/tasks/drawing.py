"""Which problems come together: the same in every run, every problem about as often as any other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count

from pasta.errors import UsageError
from pasta.tasks.bundle import Bundle, End, Task, links_of
from pasta.tasks.problem import Problem

SIZES = (2, 3, 4, 5, 6)
PARTS = 1000
CHAIN_USES = 3  # how often a problem may be the second of a chain


def draw_bundles(
    task: Task, problems: Sequence[Problem], *, size: int = 0, parts: int = PARTS, seed: int = 0
) -> list[Bundle]:
    """Bundles of at least so many parts. `size`: problems in one prompt; 0: 2 to 6, in turn, and of a chain 2.

    Where the problems are fewer than the parts, each comes again in other company.
    """
    if task == "chain":
        return draw_chains(problems, parts, seed, size or 2)
    if task == "plain":
        return [Bundle("plain", (problem,)) for problem in shuffled(problems, seed, 0)[:parts]]
    if task == "freely" and not problems[0].is_code:
        raise UsageError("what is asked freely must be functions, which have names", hint="give a file of MBPP's form")
    if size < 0 or size == 1 or max(size, 2) > len(problems):
        raise UsageError(f"{size} problems in one prompt, of {len(problems)}", hint="use 2 or more, or 0 for 2 to 6")
    bundles: list[Bundle] = []
    stream = in_turn(problems, seed)
    held: list[Problem] = []
    while sum(len(bundle.problems) for bundle in bundles) < parts:
        wanted = size or min(SIZES[len(bundles) % len(SIZES)], len(problems))
        chosen: list[Problem] = []
        while len(chosen) < wanted:  # one that is in it already waits for the next
            problem = held.pop() if held and held[-1] not in chosen else next(stream)
            if problem in chosen:
                held.append(problem)
            else:
                chosen.append(problem)
        bundles.append(Bundle(task, tuple(chosen), end_of(task, chosen, len(bundles)), wording=len(bundles)))
    return bundles


def end_of(task: Task, problems: Sequence[Problem], number: int) -> End | None:
    if task != "gather":
        return None
    if problems[0].is_code:
        return "main"
    return "total" if number // len(SIZES) % 2 == 0 else "largest"


def draw_chains(problems: Sequence[Problem], parts: int, seed: int, size: int = 2) -> list[Bundle]:
    """Problems whose last but one has an answer that is a number of the last; those before need nothing."""
    if problems[0].is_code:
        raise UsageError("a chain needs problems whose answers are numbers", hint="give a file of GSM8K's form")
    if not 2 <= size <= len(problems):
        raise UsageError(f"a chain of {size} problems, of {len(problems)}", hint="use 2 or more")
    others = in_turn(problems, seed + 1)
    by_answer: dict[float, list[Problem]] = {}
    for problem in shuffled(problems, seed, 0):
        by_answer.setdefault(problem.answer or 0.0, []).append(problem)
    found: list[Bundle] = []
    for turn in range(CHAIN_USES):
        for second in shuffled(problems, seed, turn + 1):
            if size * len(found) >= parts:
                return found
            links = {
                value: text for value, text in links_of(second).items() if set(by_answer.get(value, ())) - {second}
            }
            if not links:
                continue
            value = sorted(links)[turn % len(links)]
            first = next(problem for problem in by_answer[value] if problem != second)
            by_answer[value].remove(first)
            by_answer[value].append(first)  # the next time, another
            before: list[Problem] = []
            while len(before) < size - 2:
                other = next(others)
                if other not in (*before, first, second):
                    before.append(other)
            found.append(Bundle("chain", (*before, first, second), link=links[value]))
    if not found:
        raise UsageError("no problem's answer is a number of another problem", hint="a chain needs more problems")
    return found


def shuffled(problems: Sequence[Problem], seed: int, turn: int) -> list[Problem]:
    order = sorted(problems, key=lambda problem: problem.id)
    random.Random(f"{seed}.{turn}").shuffle(order)
    return order


def in_turn(problems: Sequence[Problem], seed: int) -> Iterator[Problem]:
    for turn in count():
        yield from shuffled(problems, seed, turn)
