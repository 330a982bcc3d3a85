"""What goes wrong with schemas, each error naming the keyword and its place."""

from __future__ import annotations

from pasta.errors import PastaError, UsageError


class SchemaError(UsageError):
    """A schema that cannot be followed. `pointer` is the place in it, `keyword` what is wrong there, where known."""

    def __init__(self, message: str, pointer: str = "", keyword: str = "", hint: str | None = None):
        super().__init__(f"the schema at {pointer or 'its root'}: {message}", hint)
        self.reason = message
        self.pointer = pointer
        self.keyword = keyword

    def at(self, pointer: str) -> SchemaError:
        """The same, at this place where it names none."""
        return self if self.pointer else SchemaError(self.reason, pointer, self.keyword, self.hint)


class ConstraintError(PastaError):
    """A value could not be decoded under its constraint."""


class MissingPackage(PastaError):
    """The library that enforces schemas is not installed."""
