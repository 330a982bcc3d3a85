"""How much a body of JSON holds, before it is parsed: a small body can make a large object, or a thousand errors."""

from __future__ import annotations

import json

from pasta.serve.errors import ApiError

MAX_DEPTH = 32
SLICE = 1 << 16  # bytes looked at in one go: threads that wait for the interpreter get it in between
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_shape(body: bytes, max_values: int, max_depth: int = MAX_DEPTH) -> None:
    """Refuses a body with more values (list elements and fields) or more levels than any request needs.

    Brackets after a place where it ceases to be JSON are no levels: the parser stops there, and says so.
    """
    values = depth = 0
    in_string = False
    carry = b""  # a backslash whose other half is in the next slice
    for start in range(0, len(body), SLICE):
        # Without what is escaped, every quote begins or ends a string.
        plain = (carry + body[start : start + SLICE]).replace(b"\\\\", b"")
        carry = b"\\" if plain.endswith(b"\\") else b""
        parts = plain.replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        values += outside.count(b",")
        for bracket in outside.translate(None, NOT_BRACKETS):
            opens = bracket in b"[{"
            depth += 1 if opens else -1
            values += opens
            if depth > max_depth:
                begun = body[: start + SLICE]
                if (fault := find_fault(begun)) < len(begun):
                    check_shape(body[:fault], max_values, max_depth)
                    return
                raise ApiError(400, f"the body is nested deeper than {max_depth} levels", code="invalid_json")
        if values > max_values:
            message = f"the body holds more than {max_values} list elements and fields"
            raise ApiError(400, message, code="invalid_json")


def find_fault(body: bytes) -> int:
    """Where a body ceases to be JSON: at its end, if what is there is the beginning of some."""
    try:
        json.loads(body.decode("latin-1"))  # one character a byte; what is beyond ASCII can only be in strings
    except json.JSONDecodeError as error:
        return error.pos
    except (ValueError, RecursionError):  # a number too long to be read, or far too many levels
        pass
    return len(body)
