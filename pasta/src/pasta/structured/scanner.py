"""Where a JSON value ends, in bytes that come piece by piece."""

from __future__ import annotations

QUOTE, BACKSLASH = b'"\\'
OPENING, CLOSING = b"{[", b"}]"
_NUMBER = b"-+.eE0123456789"
NUMBER = frozenset(_NUMBER)
MAX_NUMBER = 24  # bytes: what a float64 takes with all its digits, and any integer of 64 bits
MAX_EXPONENT = 2  # digits: most exponents of three are beyond float64
WORDS = (b"true", b"false", b"null")
SPACES = b" \t\r\n"


class GateScanner:
    """Reads whether an object is there: its first byte says so."""

    in_long_number = False

    def push(self, piece: bytes) -> int | None:
        return next((index + 1 for index, octet in enumerate(piece) if octet not in SPACES), None)

    def copy(self) -> GateScanner:
        return self


class Scanner:
    """Reads one value. It trusts that the value is well-formed: a matcher has seen to that.

    A string, an object, an array and a word end with their last byte; a number ends before the first byte that is not
    its own, so its end is known only then.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._scalar = b""  # what was read of a number or a word that is the value itself
        self._number = b""  # that it is in, wherever that stands

    def push(self, piece: bytes) -> int | None:
        """How many bytes of the piece are the value's, if it ends here; None where it goes on."""
        number = piece[len(piece.rstrip(_NUMBER)) :]
        self._number = self._number + piece if number == piece else number
        for index, octet in enumerate(piece):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif octet == BACKSLASH:
                    self._escaped = True
                elif octet == QUOTE:
                    self._in_string = False
                    if self._depth == 0:
                        return index + 1
            elif self._scalar:
                if self._scalar[0] in NUMBER and octet not in NUMBER:
                    return index
                self._scalar += bytes([octet])
                if self._scalar in WORDS:
                    return index + 1
            elif octet == QUOTE:
                self._in_string = True
            elif octet in OPENING:
                self._depth += 1
            elif octet in CLOSING:
                self._depth -= 1
                if self._depth == 0:
                    return index + 1
            elif self._depth == 0 and octet not in SPACES:
                self._scalar = bytes([octet])
        return None

    @property
    def in_string(self) -> bool:
        return self._in_string

    @property
    def escaped(self) -> bool:
        """Whether a backslash came last, which takes the next byte with it."""
        return self._escaped

    @property
    def depth(self) -> int:
        """How many brackets are open."""
        return self._depth

    @property
    def in_number(self) -> bool:
        """Whether it may go on, and would then be another."""
        return not self._in_string and self._number[-1:].isdigit()

    @property
    def in_long_number(self) -> bool:
        """Whether the number has all the bytes that one can want."""
        exponent = self._number.lower().partition(b"e")[2].strip(b"+-")
        return not self._in_string and (len(self._number) >= MAX_NUMBER or len(exponent) >= MAX_EXPONENT)

    def copy(self) -> Scanner:
        other = Scanner()
        other._depth, other._in_string, other._escaped, other._scalar, other._number = (
            self._depth, self._in_string, self._escaped, self._scalar, self._number,
        )  # fmt: skip
        return other
