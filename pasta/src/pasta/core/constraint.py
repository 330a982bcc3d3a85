"""Which tokens a thread may put next, where something other than the grammar of tags says so."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Constraint(Protocol):
    """One thread's own: it knows what the thread has written so far."""

    def fill(self, mask: np.ndarray) -> None:
        """Writes which tokens may come next into a row of 32-bit words, a bit for each token."""
