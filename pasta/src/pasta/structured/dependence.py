"""What each value of a plan sees, and from whose thread it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pasta.structured.errors import SchemaError
from pasta.structured.plan import Kind, Plan, Value
from pasta.structured.schema import AFTER
from pasta.structured.text import context

STANDING = {Kind.GATE: "{", Kind.COUNT: "1"}  # for what is not text of the answer
Waits = Mapping[int, set[int]]  # by value: those that it waits for


def arrange(plan: Plan, waits: Waits) -> Plan:
    """The plan with what its values see. In mode `sequential` a value sees all that come before it."""
    order = _order(plan, waits)
    place = {value: index for index, value in enumerate(order)}
    sees: dict[int, tuple[int, ...]] = {}
    for value in order:
        if plan.mode == "sequential":
            seen = set() if _is_known(plan.values[value]) else set(order[: place[value]])
        else:
            seen = {each for other in waits.get(value, ()) for each in (other, *plan.values[other].gates, *sees[other])}
        sees[value] = tuple(sorted(seen, key=place.__getitem__))
    plan = replace(plan, order=order, values=tuple(replace(v, sees=sees[v.index]) for v in plan.values))
    return replace(plan, values=tuple(replace(v, base=_base(plan, v)) for v in plan.values))


def _order(plan: Plan, waits: Waits) -> tuple[int, ...]:
    """The values so that each comes after those that it waits for and its gates, in reading order else."""
    out: dict[int, None] = {}
    under_way: dict[int, None] = {}

    def visit(value: int) -> None:
        if value in out:
            return
        if value in under_way:
            circle = [*under_way]
            names = [plan.values[each].pointer for each in [*circle[circle.index(value) :], value]]
            raise SchemaError(f"fields wait for each other: {' -> '.join(names)}", names[0], AFTER)
        under_way[value] = None
        for other in sorted({*waits.get(value, ()), *plan.values[value].gates}):
            visit(other)
        del under_way[value]
        out[value] = None

    for each in plan.values:
        visit(each.index)
    return tuple(out)


def _is_known(value: Value) -> bool:
    """Whether nothing of it is decoded: it needs to see nothing, and there may be thousands."""
    return value.kind is Kind.KNOWN


def _base(plan: Plan, value: Value) -> int | None:
    """The last value that it sees, if its own context goes on exactly where that one ended."""
    if _is_known(value):
        return None
    last = next((other for other in reversed(value.sees) if plan.values[other].kind is Kind.VALUE), None)
    if last is None:
        return None
    # Whatever values say, contexts are made of it alike: so names in their place decide.
    names = {each.index: STANDING.get(each.kind, f"\0{each.index}\0") for each in plan.values}
    place = {each: index for index, each in enumerate(plan.order)}

    def seen_by(one: Value) -> str:
        return context(plan, one.index, {each: names[each] for each in one.sees}, place.__getitem__)

    other = plan.values[last]
    return last if seen_by(value).startswith(seen_by(other) + other.lead + names[last]) else None
