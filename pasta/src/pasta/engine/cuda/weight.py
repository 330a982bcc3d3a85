"""The weight of a linear layer: as the model has it, or in 8 bits, half the bytes to hold and to read.

They are widened where they are multiplied, so that activations lose nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pasta.engine.rounding import EightBits

LARGEST = {"fp8": 448.0, "int8": 127.0}
TYPES = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}


@dataclass(frozen=True, slots=True)
class Weight:
    """(outputs, inputs): as the model has it, or in 8 bits with a scale for each output."""

    data: torch.Tensor
    scales: torch.Tensor | None = None

    @classmethod
    def rounded(cls, data: torch.Tensor, kind: EightBits) -> Weight:
        scales = data.abs().amax(1).float().clamp_min(1e-12) / LARGEST[kind]
        scaled = data.float() / scales[:, None]
        return cls((scaled.round() if kind == "int8" else scaled).to(TYPES[kind]), scales)

    def widened(self, dtype: torch.dtype) -> torch.Tensor:
        if self.scales is None:
            return self.data
        return (self.data.to(torch.float32) * self.scales[:, None]).to(dtype)
