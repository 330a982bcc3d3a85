"""Compiles a schema: objects are taken apart as far as their keywords allow, the rest is values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pasta.errors import UsageError
from pasta.structured.combinations import check_combinations
from pasta.structured.dependence import arrange
from pasta.structured.errors import SchemaError
from pasta.structured.form import check_form
from pasta.structured.objects import QUIET, Property, Shape, shape_of
from pasta.structured.plain import PlainDocument
from pasta.structured.plan import Kind, Leaf, Member, Node, Plan, Record, Row, Value
from pasta.structured.schema import AFTER, Document, Schema, as_schema, check_numbers, escape
from pasta.structured.ways import WAYS, Fields

CHECKED = "checked"  # a sequential plan, whose values are guessed in parallel
MODES = ("parallel", *WAYS, CHECKED, "sequential")  # of values
ARRAYS = ("parallel", "sequential")  # of the elements of arrays whose length is not known
MAX_VALUES = 200  # that are decoded in one answer; engines tell about 500 segments apart
MAX_SKELETON = 1 << 14  # characters of keys, and of values that the schema says by itself
MAX_DEPTH = 8  # of objects that are taken apart; deeper ones are one value each
MAX_NOTE = 240  # characters of a description that a value sees
MAX_ROW = 16  # elements of an array that is taken apart
ARRAY = frozenset({"type", "items", "minItems", "maxItems"})

After = Mapping[str, Sequence[str] | str]


def compile_schema(
    schema: Any, *, mode: str = "parallel", after: After | None = None, arrays: str = "sequential"
) -> Plan:
    """A plan of the schema (JSON as Python reads it, or a pydantic model). It needs no model.

    `arrays`: elements come one after another, in one thread; or `parallel`, the count first and then all at once, at
    most 16 of them.
    """
    for name, given, known in (("mode", mode, MODES), ("arrays", arrays, ARRAYS)):
        if given not in known:
            raise UsageError(f"unknown {name} {given!r}", hint=f"use one of {', '.join(known)}")
    mode = "sequential" if mode == CHECKED else mode
    counted = mode != "sequential" and arrays == "parallel"
    written = Document(as_schema(schema))
    check_form(written.root)
    check_combinations(written.root, written.resolve)
    document = PlainDocument(written)
    for depth in range(MAX_DEPTH, -1, -1):
        planner = _Planner(document, depth, counted)
        with suppress(_TooLarge):
            root = planner.node(document.root, "", "")
            break
    return arrange(Plan(root, tuple(planner.values), (), mode), planner.waits(check_after(after), mode))


class _TooLarge(Exception):
    """More values than an answer may have: references multiply, so that it is known only on the way."""


class _Planner:
    """Goes through a schema and collects its values. `_TooLarge` where there are too many at this depth, not at 0."""

    def __init__(self, document: Document, depth: int, counted: bool):
        self.document = document
        self.values: list[Value] = []
        self._depth = depth
        self._counted = counted
        self._decoded = 0  # of the values
        self._skeleton = 0  # characters
        self._elements: tuple[tuple[int, int], ...] = ()  # around the node at hand
        self._gates: tuple[int, ...] = ()  # around the node at hand
        self._references: tuple[str, ...] = ()  # that led to it
        self._below: dict[str, range] = {}  # by pointer: the values of a node
        self._after: list[tuple[str, tuple[str, ...]]] = []  # (pointer, what it waits for)
        self._rows: list[tuple[range, range]] = []  # values of an element, and of the one before it
        self._fields: Fields = ()  # of the outermost object that has several: those to decode, whether required

    def node(self, schema: Schema, pointer: str, lead: str, *, optional: bool = False) -> Node:
        first = len(self.values)
        try:
            node = self._node(schema, pointer, lead, optional=optional)
        except SchemaError as error:
            raise error.at(pointer) from None
        self._below[pointer] = range(first, len(self.values))
        if isinstance(schema, Mapping) and AFTER in schema:
            self._after.append((pointer, _names(schema[AFTER], pointer)))
        return node

    def _node(self, schema: Schema, pointer: str, lead: str, *, optional: bool) -> Node:
        shape = shape_of(schema, self.document) if pointer.count("/") < self._depth else None
        if shape is not None and not set(shape.references) & set(self._references):
            return self._record(shape, pointer, lead, optional=optional)
        if not optional and pointer.count("/") < self._depth and (row := self._row(schema, pointer, lead)) is not None:
            return row
        return self.leaf(schema, pointer, lead, optional=optional)

    def _record(self, shape: Shape, pointer: str, lead: str, *, optional: bool) -> Record:
        around = self._gates, self._references
        self._references += shape.references
        gate = None
        if optional or shape.nullable:
            gate = self._add(pointer, True, lead, Kind.GATE, optional)
            self._gates += (gate,)
        members = [self._member(each, pointer) for each in shape.properties]
        self._gates, self._references = around
        fields = [(f"{pointer}/{escape(each.name)}", each.required) for each in shape.properties]
        fields = [field for field in fields if self._is_open(field[0])]
        self._fields = fields if len(fields) > 1 else self._fields  # outer ones come later
        return Record(tuple(members), gate)

    def _member(self, own: Property, pointer: str) -> Member:
        key = spell(own.name)
        self._grow(len(key))
        node = self.node(own.schema, f"{pointer}/{escape(own.name)}", " ", optional=not own.required)
        return Member(key, node, note_of(own.schema))

    def _row(self, schema: Schema, pointer: str, lead: str) -> Row | None:
        """An array whose elements are taken apart."""
        schema, references = self.document.follow(schema)
        if not isinstance(schema, Mapping) or schema.get("type") != "array" or set(schema) - QUIET - ARRAY:
            return None
        least, most, items = schema.get("minItems", 0), schema.get("maxItems", MAX_ROW), schema.get("items", True)
        shape = shape_of(items, self.document) if isinstance(items, Mapping) else None
        references += () if shape is None else shape.references
        if set(references) & set(self._references) or not isinstance(items, Mapping):
            return None
        if least == most and shape is not None and not shape.nullable and len(shape.properties) > 1 and most <= MAX_ROW:
            return self._chain(items, pointer, int(most))
        name = pointer.rpartition("/")[2]
        if self._counted and name and not name.isdigit() and least <= min(most, MAX_ROW):
            return self._count(items, pointer, lead, (int(least), int(min(most, MAX_ROW))))
        return None

    def _chain(self, items: Schema, pointer: str, length: int) -> Row:
        """An array of known length: an element sees those before it, and its own values are decoded at once."""
        nodes = [self.node(items, f"{pointer}/{index}", " " if index else "") for index in range(length)]
        for index in range(1, length):
            self._rows.append((self._below[f"{pointer}/{index}"], self._below[f"{pointer}/{index - 1}"]))
        return Row(tuple(nodes))

    def _count(self, items: Schema, pointer: str, lead: str, bounds: tuple[int, int]) -> Row:
        """The count first, then all elements at once."""
        around = self._gates, self._elements
        own: Schema = {"type": "integer", "minimum": bounds[0], "maximum": bounds[1]}
        count = self._add(pointer, own, lead, Kind.COUNT)
        nodes: list[Node] = []
        for index in range(bounds[1]):
            self._gates, self._elements = (*around[0], count), (*around[1], (count, index))
            nodes.append(self.node(items, f"{pointer}/{index}", " "))
            self._rows.append((self._below[f"{pointer}/{index}"], range(count, count + 1)))
        self._gates, self._elements = around
        name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        return Row(tuple(nodes), count, spell(f"number of {name}"))

    def leaf(self, schema: Schema, pointer: str, lead: str, *, optional: bool = False) -> Leaf:
        plain, _ = self.document.follow(schema)
        if not optional and isinstance(plain, Mapping) and set(plain) - QUIET == {"const"}:
            return Leaf(self._add(pointer, plain, lead, Kind.KNOWN, text=spell(plain["const"])))
        wanted: Schema = {"anyOf": [schema, {"type": "null"}]} if optional else schema
        complete = self.document.complete(wanted)
        check_numbers(complete)
        return Leaf(self._add(pointer, complete, lead, Kind.VALUE, optional))

    def _add(
        self, pointer: str, schema: Schema, lead: str, kind: Kind, optional: bool = False, text: str | None = None
    ) -> int:
        index = len(self.values)
        self._decoded += kind is not Kind.KNOWN
        self._grow(len(text or ""))
        value = Value(index, pointer, schema, lead, kind, optional, text, gates=self._gates, elements=self._elements)
        self.values.append(value)
        return index

    def _grow(self, characters: int) -> None:
        self._skeleton += characters
        if self._depth and (self._decoded > MAX_VALUES or self._skeleton > MAX_SKELETON):
            raise _TooLarge

    # -- who waits for whom ------------------------------------------------------------------------------

    def waits(self, after: Mapping[str, Sequence[str]], mode: str) -> dict[int, set[int]]:
        """By value: those that it waits for and sees."""
        out: dict[int, set[int]] = {}
        for own, before in self._rows:
            for value in own:
                out.setdefault(value, set()).update(before)
        asked = [(name if name.startswith("/") else f"/{escape(name)}", tuple(names)) for name, names in after.items()]
        said = [*self._after, *asked]
        implied = WAYS[mode](self._fields, {place for place, _ in said}) if mode in WAYS else ()
        for place, names in [*said, *implied]:
            around = place.rpartition("/")[0]
            for name in names:
                other = name if name.startswith("/") else f"{around}/{escape(name)}"
                found = self._values_at(other, place)
                for value in self._values_at(place, place):
                    out.setdefault(value, set()).update(found)
        return out

    def _is_open(self, pointer: str) -> bool:
        return any(self.values[value].kind is not Kind.KNOWN for value in self._below[pointer])

    def _values_at(self, pointer: str, asked: str) -> range:
        if pointer not in self._below:
            known = ", ".join([each for each in sorted(self._below) if each][:8])
            raise SchemaError(f"{pointer} is no field of the answer", asked, AFTER, hint=f"it has {known}")
        return self._below[pointer]


def check_after(after: After | None) -> dict[str, list[str]]:
    """What a caller said of who waits for whom, its names in lists."""
    if not isinstance(after, Mapping | None):
        raise UsageError(f"after is {after!r:.60}, expected fields with names, as in {{'tax': ['total']}}")
    checked = {}
    for field, names in (after or {}).items():
        listed = [names] if isinstance(names, str) else list(names) if isinstance(names, Sequence) else [names]
        if not all(isinstance(name, str) for name in (field, *listed)):
            raise UsageError(f"after has {field!r:.60}: {names!r:.60}, expected a field's name and a list of names")
        checked[field] = listed
    return checked


def note_of(schema: Schema) -> str:
    """The description as a comment can hold it, on one line; a long one is cut at a word."""
    said = schema.get("description") if isinstance(schema, Mapping) else None
    text = said.encode(errors="ignore").decode() if isinstance(said, str) else ""  # halves of characters have no tokens
    words = " ".join(text.replace("*/", "").split())
    return words if len(words) <= MAX_NOTE else words[:MAX_NOTE].rpartition(" ")[0]


def spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _names(names: Any, pointer: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{AFTER} is {names!r:.60}, expected a list of names", pointer, AFTER)
    return tuple(names)
