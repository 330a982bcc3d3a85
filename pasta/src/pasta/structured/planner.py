"""Compiles a schema: objects are taken apart as far as their keywords allow, the rest is values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pasta.errors import UsageError
from pasta.structured.errors import SchemaError
from pasta.structured.plan import Leaf, Member, Node, Plan, Record, Schema, Value
from pasta.structured.text import context, values_below

MODES = ("parallel", "sequential")
AFTER = "x-after"
DEFINITIONS = ("$defs", "definitions")
NOTES = {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly"}
OBJECT = {"type", "properties", "required", "additionalProperties", *DEFINITIONS, *NOTES, AFTER}

After = Mapping[str, Sequence[str]]


def compile_schema(schema: Any, *, mode: str = "parallel", after: After | None = None) -> Plan:
    """A plan of the schema (JSON as Python reads it, or a pydantic model)."""
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}", hint=f"use one of {', '.join(MODES)}")
    planner = _Planner(as_schema(schema))
    root = planner.node(planner.document, "", "", optional=False)
    waits = planner.waits(after or {})
    return _arrange(Plan(root, tuple(planner.values), (), mode), waits)


def as_schema(schema: Any) -> Schema:
    """The JSON schema of a pydantic model; a schema as it is."""
    if hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    if isinstance(schema, Mapping | bool):
        return schema
    raise UsageError(f"a schema is a mapping or a pydantic model, not {type(schema).__name__}")


class _Planner:
    def __init__(self, document: Schema):
        self.document = document
        self.values: list[Value] = []
        self._below: dict[str, tuple[int, int]] = {}  # by pointer: the values of a node
        self._named: list[tuple[str, str, tuple[str, ...]]] = []  # (object, member, names that it waits for)

    def node(self, schema: Schema, pointer: str, lead: str, *, optional: bool) -> Node:
        first = len(self.values)
        node = self._node(schema, pointer, lead, optional=optional)
        self._below[pointer] = (first, len(self.values))
        return node

    def _node(self, schema: Schema, pointer: str, lead: str, *, optional: bool) -> Node:
        if isinstance(schema, Mapping) and not optional and self._is_open_to_split(schema):
            return self._record(schema, pointer)
        return self._leaf(schema, pointer, lead, optional=optional)

    def _is_open_to_split(self, schema: Mapping[str, Any]) -> bool:
        return schema.get("type") == "object" and bool(schema.get("properties")) and set(schema) <= OBJECT

    def _record(self, schema: Mapping[str, Any], pointer: str) -> Record:
        required = set(schema.get("required", ()))
        members = []
        for name, own in schema["properties"].items():
            place = f"{pointer}/{escape(name)}"
            if isinstance(own, Mapping) and AFTER in own:
                self._named.append((pointer, place, _names(own[AFTER], place)))
            members.append(Member(spell(name), self.node(own, place, " ", optional=name not in required)))
        return Record(tuple(members))

    def _leaf(self, schema: Schema, pointer: str, lead: str, *, optional: bool) -> Leaf:
        text = None
        if isinstance(schema, Mapping) and "const" in schema and not optional and pointer:
            text = spell(schema["const"])
        complete = self._complete(schema)
        if optional:
            complete = {**self._definitions(), "anyOf": [_without(schema), {"type": "null"}]}
        self.values.append(Value(len(self.values), pointer, complete, lead, optional, text))
        return Leaf(len(self.values) - 1)

    def _complete(self, schema: Schema) -> Schema:
        own = _without(schema)
        return {**self._definitions(), **own} if isinstance(own, Mapping) else own

    def _definitions(self) -> dict[str, Any]:
        root = self.document
        return {key: root[key] for key in DEFINITIONS if key in root} if isinstance(root, Mapping) else {}

    # -- who waits for whom ------------------------------------------------------------------------------

    def waits(self, after: After) -> dict[int, set[int]]:
        """By value: those that it waits for and sees."""
        out: dict[int, set[int]] = {}
        named = [*self._named]
        for field, names in after.items():
            place = field if field.startswith("/") else f"/{escape(field)}"
            named.append((place.rpartition("/")[0], place, tuple(names)))
        for around, place, names in named:
            for value in self._values_at(place, place):
                for name in names:
                    other = name if name.startswith("/") else f"{around}/{escape(name)}"
                    out.setdefault(value, set()).update(self._values_at(other, place))
        return out

    def _values_at(self, pointer: str, asked: str) -> range:
        if pointer not in self._below:
            known = ", ".join(sorted(self._below)[1:8])
            raise SchemaError(f"{pointer} is no field of the answer", asked, AFTER, hint=f"it has {known}")
        return range(*self._below[pointer])


def _arrange(plan: Plan, waits: Mapping[int, set[int]]) -> Plan:
    """Says of each value what it sees and whose thread it goes on from."""
    order = _order(plan, waits)
    place = {value: index for index, value in enumerate(order)}
    sees: dict[int, tuple[int, ...]] = {}
    for value in order:
        if plan.mode == "sequential":
            seen = set(order[: place[value]])
        else:
            seen = {each for other in waits.get(value, ()) for each in (other, *sees[other])}
        sees[value] = tuple(sorted(seen, key=place.__getitem__))
    plan = replace(plan, order=order, values=tuple(replace(v, sees=sees[v.index]) for v in plan.values))
    return replace(plan, values=tuple(replace(v, base=_base(plan, v)) for v in plan.values))


def _order(plan: Plan, waits: Mapping[int, set[int]]) -> tuple[int, ...]:
    """The values so that each comes after those that it waits for, in reading order else."""
    out: dict[int, None] = {}
    under_way: list[int] = []

    def visit(value: int) -> None:
        if value in out:
            return
        if value in under_way:
            circle = [*under_way[under_way.index(value) :], value]
            names = " -> ".join(plan.values[each].pointer for each in circle)
            raise SchemaError(f"fields wait for each other: {names}", plan.values[value].pointer, AFTER)
        under_way.append(value)
        for other in sorted(waits.get(value, ())):
            visit(other)
        under_way.pop()
        out[value] = None

    for value in values_below(plan.root):
        visit(value)
    return tuple(out)


def _base(plan: Plan, value: Value) -> int | None:
    """The last value that it sees, if its own context goes on exactly where that one ended."""
    last = next((other for other in reversed(value.sees) if plan.values[other].text is None), None)
    if last is None:
        return None
    # Whatever values say, contexts are made of it alike: so names in its place decide.
    names = {each.index: f"\0{each.index}\0" for each in plan.values}

    def seen_by(one: Value) -> str:
        return context(plan, one.index, {each: names[each] for each in one.sees}, plan.order.index)

    other = plan.values[last]
    return last if seen_by(value).startswith(seen_by(other) + other.lead + names[last]) else None


def spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def escape(name: str) -> str:
    """A name as part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _names(names: Any, pointer: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{AFTER} is {names!r:.60}, expected a list of names", pointer, AFTER)
    return tuple(names)


def _without(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != AFTER} if isinstance(schema, Mapping) else schema
