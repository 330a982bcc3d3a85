"""Which tokens a thread may put next, where something other than the grammar of tags says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class Constraint(Protocol):
    """One thread's own: it knows what the thread has written so far."""

    asked: Mapping[str, Any]  # of a server that decodes the thread: `structured_outputs`, as vLLM takes them

    @classmethod
    def fill_all(cls, constraints: Sequence[Constraint], masks: np.ndarray) -> None:
        """Writes which tokens may come next, for each of the constraints: a row of 32-bit words, a bit for each token.

        Of words beyond the tokens that it knows it writes nothing.
        """
