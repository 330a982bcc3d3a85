"""Events on the wire: the shapes that the server sends and its client reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pasta.decoding.events import Ended, Event, Forked, Joined, Suspended, TextWritten, Waiting

#: What is sent, by its type there. The token ids of a `TokenPut` stay here; a `Finished` is a choice's finish_reason.
TYPES: dict[str, type[TextWritten | Forked | Suspended | Waiting | Joined | Ended]] = {
    "delta": TextWritten,
    "fork": Forked,
    "suspend": Suspended,
    "wait": Waiting,
    "join": Joined,
    "end": Ended,
}
NAMES = {kind: name for name, kind in TYPES.items()}
FIELDS: dict[type[Event], tuple[str, ...]] = {kind: kind.__match_args__ for kind in NAMES}


def to_json(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events as the stream's `pasta.events`."""
    return [
        {"type": NAMES[kind], **{name: getattr(event, name) for name in FIELDS[kind]}}
        for event in events
        if (kind := type(event)) in NAMES
    ]


def from_json(told: Iterable[Mapping[str, Any]]) -> list[Event]:
    """The same read back. Types and fields that are not known here, as of a later version, are left out."""
    return [_read(TYPES[event["type"]], event) for event in told if event["type"] in TYPES]


def _read(kind: type[TextWritten | Forked | Suspended | Waiting | Joined | Ended], told: Mapping[str, Any]) -> Event:
    values = {name: told[name] for name in FIELDS[kind] if name in told}
    if "children" in values:
        values["children"] = tuple(values["children"])
    return kind(**values)
