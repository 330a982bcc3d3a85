"""What may be taken for granted at every step, because the step before has seen to it.

Positive variances stay positive, probabilities stay probabilities. Such a property of the state is an
invariant if every path that leads to the same structure hands it on. It is looked at when a run comes to the
structure, and from then on questions that follow from it are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from siren.compile.branch import Branch, Leaf
from siren.compile.facts import (
    AT_MOST_1,
    NONNEGATIVE,
    POSITIVE,
    Definitions,
    Fact,
    Proof,
    consequences,
    established,
    needs,
)
from siren.compile.tape import Slot


@dataclass(frozen=True, slots=True)
class Invariants:
    """`facts` are of inputs. The questions of the branches in `answered` (by identity) follow from these, or
    from later questions."""

    facts: frozenset[Fact]
    answered: frozenset[int]


def plausible(inputs: Mapping[int, Any]) -> set[Fact]:
    """What is so of these arrays and numbers at the step that is traced."""
    found: set[Fact] = set()
    for slot, value in inputs.items():
        if not np.size(value) or np.asarray(value).dtype != float:
            continue
        least, most = np.min(value), np.max(value)
        found |= {(POSITIVE, slot)} if least > 0 else set()
        found |= {(NONNEGATIVE, slot)} if least >= 0 else set()
        found |= {(AT_MOST_1, slot)} if most <= 1 else set()
    return found


def find_invariants(root: Branch, candidates: set[Fact]) -> Invariants:
    """The largest set of candidates that hands itself on, less what is of no use."""
    ways = [way for way in _ways(root) if way.leaf.follows is not None]
    assumed = set(candidates) if ways else set()
    while True:
        kept = {fact for fact in assumed if all(_handed_on(way, assumed, fact)[0] for way in ways)}
        if kept == assumed:
            break
        assumed = kept
    answers, useful = answered(root, assumed)
    todo = list(useful)
    while todo:
        fact = todo.pop()
        for way in ways:
            more = (_handed_on(way, assumed, fact)[1] & assumed) - useful
            useful |= more
            todo += more
    return Invariants(frozenset(useful), frozenset(answers))


@dataclass(frozen=True, slots=True)
class _Way:
    """One path: its operations, what its answers establish, and where it ends."""

    definitions: Definitions
    facts: frozenset[Fact]
    leaf: Leaf


def _ways(
    branch: Branch, before: Definitions | None = None, facts: set[Fact] | None = None
) -> Iterator[_Way]:
    definitions = {**(before or {}), **{operation.out: operation for operation in branch.operations}}
    if branch.leaf is not None:
        yield _Way(definitions, frozenset(facts or ()), branch.leaf)
    for outcome, child in branch.children.items():
        learnt = set(facts or ())
        assert branch.question is not None
        fact = established(definitions, branch.question[0], outcome)
        if fact is not None:
            learnt |= consequences(definitions, learnt, fact)
        yield from _ways(child, definitions, learnt)


def _handed_on(way: _Way, assumed: set[Fact], fact: Fact) -> tuple[bool, set[Fact]]:
    """Whether a fact of an input is so at the next step as well, and what that was led back to."""
    assert way.leaf.follows is not None
    what, slot = fact
    proof = Proof(way.definitions, assumed | way.facts)
    return proof.holds_of(what, way.leaf.follows.get(slot)), proof.used


def answered(root: Branch, assumed: set[Fact] | None = None) -> tuple[set[int], set[Fact]]:
    """The branches (by identity) whose questions need not be asked: the answers follow from later ones, or
    from what is assumed; and which of that was used."""
    found: set[int] = set()
    given = assumed or set()
    used: set[Fact] = set()

    def facts_of(branch: Branch, before: Definitions) -> set[Fact]:
        """What is known once all questions from here on have been answered."""
        definitions = {**before, **{operation.out: operation for operation in branch.operations}}
        if branch.question is None:
            return set(given)
        outcomes = [facts_of(child, definitions) for child in branch.children.values()]
        facts = {fact for fact in set.intersection(*outcomes) if fact[1] in definitions}
        if len(branch.children) == 1:
            answer = branch.question[0], next(iter(branch.children))
            needed = needs(definitions, *answer)
            proof = Proof(definitions, facts)
            if needed is not None and all(proof.holds(fact) for fact in needed):
                found.add(id(branch))
                used.update(proof.used & given)
                return facts
            fact = established(definitions, *answer)
            if fact is not None:
                facts |= consequences(definitions, facts, fact)
        return facts

    facts_of(root, {})
    return found, used


def check(fact: Fact, is_array: bool) -> str:
    """The question whether an input has this property, as Python."""
    what, slot = fact
    reduction = "maximum_reduce" if what == AT_MOST_1 else "minimum_reduce"
    subject = f"{reduction}(v{slot})" if is_array else f"v{slot}"
    return f"{subject} { ({POSITIVE: '> 0.0', NONNEGATIVE: '>= 0.0'}.get(what, '<= 1.0')) }"


def follows(before: Iterable[int], after: Iterable[object]) -> dict[int, object]:
    """Each input of the state at the next step, in terms of this one: a slot or a constant."""
    return {
        slot: Slot(leaf.slot) if hasattr(leaf, "slot") else leaf
        for slot, leaf in zip(before, after, strict=False)
    }
