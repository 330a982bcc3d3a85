"""The position scheme that a model was trained for, which travels in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pasta.core.positions import Positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def mark(model: PreTrainedModel, positions: Positions) -> None:
    """Writes into the configuration what an engine must know to decode this model as it was trained."""
    model.config.pasta = {"positions": str(positions)}


def trained_positions(model: PreTrainedModel) -> Positions:
    """What `mark` wrote; `predicted` where nothing did."""
    return Positions.parse((getattr(model.config, "pasta", None) or {}).get("positions", "predicted"))
