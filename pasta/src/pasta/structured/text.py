"""The JSON text of a plan: the whole of it, as far as it is certain, and as one value sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pasta.structured.plan import Leaf, Node, Plan, Record, Row, Texts, values_below


def render(plan: Plan, said: Texts) -> str:
    """The whole answer."""
    text = _render(plan.root, said, lambda node: True)
    assert text is not None, "what has no key is never left out"
    return text


def certain(plan: Plan, said: Texts, partial: Callable[[int], str]) -> str:
    """The answer up to the first value that is not known; `partial` says how that one begins, for certain."""
    out: list[str] = []

    def walk(node: Node, before: str) -> bool:
        """Whether all of the node is known; `before` is written once it is certain to be there."""
        match node:
            case Leaf(value) if value not in said:
                if begun := partial(value):
                    out.append(before + begun)
                return False
            case Leaf(value):
                if (text := said[value]) is not None:
                    out.append(before + text)
                return True
            case Record(_, gate) if gate is not None and said.get(gate) != "{":
                if gate in said and (text := said[gate]) is not None:
                    out.append(before + text)
                return gate in said
            case Record(members):
                out.append(before + "{")
                first = len(out)
                for member in members:
                    comma = ", " if len(out) > first else ""
                    if not walk(member.node, f"{comma}{member.key}: "):
                        return False
                out.append("}")
                return True
            case Row(_, count):
                out.append(before + "[")
                if count is not None and count not in said:
                    return False
                if not all(walk(item, ", " if index else "") for index, item in enumerate(_items(node, said))):
                    return False
                out.append("]")
                return True

    walk(plan.root, "")
    return "".join(out)


def context(plan: Plan, target: int, said: Texts, order: Callable[[int], int]) -> str:
    """The text up to a value: the values that it sees, as they were decoded, and the keys on its own path.

    In parallel, a value that sees no other has no list to keep its place in: the schema's words stand before each key.
    `said` holds exactly those values that it sees, a value that was left out as `null`; `order` says when a value is
    decoded.
    """

    def seen(node: Node) -> bool:
        return _any_in(node, said)

    def when(node: Node) -> int:
        return min(order(value) for value in values_below(node) if value in said)

    def up_to(node: Node) -> str:
        match node:
            case Record(members, gate) if gate != target:
                own = next(member for member in members if target in values_below(member.node))
                others = [member for member in members if member is not own and seen(member.node)]
                others.sort(key=lambda member: when(member.node))
                texts = "".join(f"{each.key}: {_render(each.node, said, seen)}, " for each in others)
                if isinstance(own.node, Row) and own.node.count == target:
                    return f"{{{texts}{own.node.question}:"
                inner = up_to(own.node)
                note = f"/* {own.note} */ " if own.note and not said and plan.mode != "sequential" else ""
                return f"{{{texts}{note}{own.key}:{' ' if inner else ''}{inner}"
            case Row(items, count) if count is not None:
                place = next(index for index, item in enumerate(items) if target in values_below(item))
                inner = up_to(items[place])
                return f"[/* {place + 1} of {said[count]} */{' ' if inner else ''}{inner}"
            case Row(items):
                place = next(index for index, item in enumerate(items) if target in values_below(item))
                texts = ", ".join(f"{_render(item, said, seen)}" for item in items[:place] if seen(item))
                inner = up_to(items[place])
                return f"[{texts}{',' if texts else ''}{' ' if texts and inner else ''}{inner}"
            case _:
                return ""

    return up_to(plan.root)


def _any_in(node: Node, values: Collection[int]) -> bool:
    return any(value in values for value in values_below(node))


def _render(node: Node, said: Texts, shown: Callable[[Node], bool]) -> str | None:
    match node:
        case Leaf(value):
            return said[value]
        case Record(members, gate):
            if gate is not None and said[gate] != "{":
                return said[gate]
            pairs = [(each.key, _render(each.node, said, shown)) for each in members if shown(each.node)]
            return "{" + ", ".join(f"{key}: {text}" for key, text in pairs if text is not None) + "}"
        case Row():
            texts = [_render(item, said, shown) or "null" for item in _items(node, said) if shown(item)]
            return f"[{', '.join(texts)}]"


def _items(row: Row, said: Texts) -> tuple[Node, ...]:
    """The elements that are there."""
    return row.items if row.count is None else row.items[: int(said[row.count] or 0)]
