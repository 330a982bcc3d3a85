"""What a checkpoint was taught of the language. It travels in the model's configuration, and engines decode by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pasta.core.positions import Positions
from pasta.errors import UsageError
from pasta.lang import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Taught:
    """How a model was trained: its position scheme, and how deep blocks lay in each other in what it read.

    `depth` is 0 where nothing was promised, 1 where no block lay in another. None: nobody wrote it down, so that blocks
    may lie as deep as the language lets them.
    """

    positions: Positions = field(default_factory=Positions)
    depth: int | None = None

    @classmethod
    def read(cls, record: Mapping[str, Any] | None) -> Taught:
        """From `pasta` in a model's configuration, or an adapter's `pasta.json`; what they do not say is as usual."""
        said: Any = record or {}  # as somebody wrote it
        if not isinstance(said, Mapping):
            raise UsageError(
                f"the model's record is {said!r:.60}, expected an object",
                hint="correct its pasta.json, or `pasta` in its config.json; or take it out",
            )
        depth = said.get("depth")
        if depth is not None and (type(depth) is not int or not 0 <= depth <= MAX_DEPTH):
            raise UsageError(
                f"the model's record says that it was taught depth {depth!r}, expected a number from 0 to {MAX_DEPTH}",
                hint="correct `depth` in its pasta.json, or under `pasta` in its config.json; or take it out",
            )
        scheme = said.get("positions") or "predicted"
        try:
            return cls(Positions.parse(str(scheme)), depth)
        except UsageError:
            raise UsageError(
                f"the model's record says positions {scheme!r:.60}, expected predicted, ones, stitched or fixed:K",
                hint="correct `positions` in its pasta.json, or under `pasta` in its config.json; or take it out",
            ) from None

    def record(self) -> dict[str, Any]:
        """What `read` reads."""
        return {"positions": str(self.positions)} | ({} if self.depth is None else {"depth": self.depth})

    @property
    def deepest(self) -> int:
        """How deep blocks may lie in each other: as deep as the model learned, and as the language lets them."""
        return MAX_DEPTH if self.depth is None else self.depth
