"""The JSON text of a plan: the whole of it, as far as it is certain, and as one value sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pasta.structured.plan import Leaf, Member, Node, Plan, Record, Texts


def render(plan: Plan, said: Texts) -> str:
    """The whole answer."""
    text = _render(plan.root, said, lambda member: True)
    return "null" if text is None else text


def certain(plan: Plan, said: Texts, partial: Callable[[int], str]) -> str:
    """The answer up to the first value that is not known; `partial` says how that one begins, for certain."""
    out: list[str] = []

    def walk(node: Node, before: str) -> bool:
        """Whether all of the node is known; `before` is written once it is certain to be there."""
        if isinstance(node, Leaf):
            if node.value not in said:
                if begun := partial(node.value):
                    out.append(before + begun)
                return False
            if (text := said[node.value]) is not None:
                out.append(before + text)
            return True
        out.append(before + "{")
        first = len(out)
        for member in node.members:
            comma = ", " if len(out) > first else ""
            if not walk(member.node, f"{comma}{member.key}: "):
                return False
        out.append("}")
        return True

    walk(plan.root, "")
    return "".join(out)


def context(plan: Plan, target: int, said: Texts, order: Callable[[int], int]) -> str:
    """The text up to a value: the values that it sees, as they were decoded, and the keys on its own path.

    `said` holds exactly those values that it sees, a value that was left out as `null`; `order` says when a value is
    decoded.
    """

    def up_to(node: Node) -> str:
        if isinstance(node, Leaf):
            return ""
        own = next(member for member in node.members if target in values_below(member.node))
        seen = [member for member in node.members if member is not own and _any_in(member.node, said)]
        seen.sort(key=lambda member: min(order(value) for value in values_below(member.node) if value in said))
        texts = [
            f"{member.key}: {_render(member.node, said, lambda each: _any_in(each.node, said))}" for member in seen
        ]
        inner = up_to(own.node)
        return "{" + "".join(f"{text}, " for text in texts) + f"{own.key}:" + (f" {inner}" if inner else "")

    return up_to(plan.root)


def values_below(node: Node) -> list[int]:
    """The values of a node, in reading order."""
    if isinstance(node, Leaf):
        return [node.value]
    return [value for member in node.members for value in values_below(member.node)]


def _any_in(node: Node, values: Collection[int]) -> bool:
    return any(value in values for value in values_below(node))


def _render(node: Node, said: Texts, shown: Callable[[Member], bool]) -> str | None:
    if isinstance(node, Leaf):
        return said[node.value]
    assert isinstance(node, Record)
    texts = [(member.key, _render(member.node, said, shown)) for member in node.members if shown(member)]
    return "{" + ", ".join(f"{key}: {text}" for key, text in texts if text is not None) + "}"
