"""The processes that share a run, as `accelerate launch` or torchrun started them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Team:
    """This process among the others; alone, it is the first of one."""

    rank: int = 0
    size: int = 1
    device: str | None = None  # of this process, where there are several
    state: Any = None  # accelerate's

    @classmethod
    def of(cls, *, cpu: bool) -> Team:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        from accelerate import PartialState  # type: ignore[import-untyped]

        state = PartialState(cpu=cpu)
        return cls(state.process_index, state.num_processes, str(state.device), state)

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, number: int, parts: int) -> tuple[int, int]:
        """This process's part of a part."""
        return number * self.size + self.rank, parts * self.size

    def wait(self) -> None:
        """Until all have come this far."""
        if self.state is not None:
            self.state.wait_for_everyone()

    def say(self, line: str) -> None:
        if self.first:
            print(line, file=sys.stderr, flush=True)
